"""Operators that say where and when a part of the graph runs.

- ``dispatch``: sharding_round_robin_dispatch, one stream that workers take from in turn
- ``full_sync``: fullsync, as many elements as every other rank gives
- ``pin_memory``: pin_memory
- ``prefetch``: prefetch, elements made ahead in a thread
- ``shard``: sharding_filter
"""
