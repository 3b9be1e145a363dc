"""Operators that shard, prefetch, dispatch, retry, wait, move to a device: where and when a part of the graph runs.

- ``pausing``: methods that services of torchdata's kind call, which do nothing here
"""
