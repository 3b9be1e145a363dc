"""Operators that shard, prefetch, dispatch and synchronize: where and when a part of the graph runs."""
