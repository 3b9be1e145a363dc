"""Operators that shard, prefetch, dispatch, synchronize and retry: where and when a part of the graph runs."""
