"""Operators that decide where and when a part of the graph runs: shard, prefetch, dispatch, retry, time out, move.

- ``pausing``: methods without effect, for services written for torchdata
- ``shared_source``: the stream above a ``sharding_filter``, read once for all lanes of a process
"""
