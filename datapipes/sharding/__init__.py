"""Sharding of a stream, and the rank of this process.

- ``group``: rank of this process, and the number of ranks
- ``sharding``: numbers and lengths of shards, over groups of ranks and workers
"""
