"""Operators that shard, prefetch, dispatch, synchronize, move to a device: where and when a part of the graph runs."""
