"""Conversion of pipes: a collection as a stream, a stream as a collection.

- ``conversion``: to_iter_datapipe, a map-style pipe as a stream; to_map_datapipe, a stream as a collection with keys
"""
