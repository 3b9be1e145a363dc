"""Rewriting a graph for a run: shards read by position, batches gathered at once.

- ``gathering``: batches of rows read at once, instead of row by row
- ``pushdown``: sharding moved up to the sources, rule by rule, in a session's copy of the graph
"""
