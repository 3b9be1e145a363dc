"""Operators that begin a stream.

- ``expand``: shard_expand, names with ranges in braces
- ``huggingface``: HuggingFaceHubReader, the rows of a data set of the hub
- ``sampler``: sampler, the indices that a sampler of torch draws
- ``wrapper``: IterableWrapper, a stream of what any iterable gives
"""
