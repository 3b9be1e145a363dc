"""Who has which part of a stream: shards, and the rank of this process.

- ``group``: which rank this is, of how many
- ``sharding``: which elements of a stream belong to a shard
"""
