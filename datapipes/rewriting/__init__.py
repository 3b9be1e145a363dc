"""Rewriting a graph for a run: shards read by position, batches gathered at once.

- ``gathering``: batches of rows read at once, in place of one row after the other
- ``pushdown``: sharding moved up to the sources, rule by rule, in a session's copy of the graph
"""
