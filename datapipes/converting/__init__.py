"""Conversion of pipes: a collection as a stream, a stream as a collection.

- ``from_iter``: to_map_datapipe, a stream of pairs, to be looked up by key
- ``from_map``: to_iter_datapipe, a map-style pipe as a stream
"""
