"""Operators that group elements, take groups apart, or change their order.

- ``batch``: batch
- ``buckets``: bucketbatch, max_token_bucketize: batches of what is alike in length
- ``groupby``: groupby, lists of what has one key
- ``in_batch_shuffle``: in_batch_shuffle, an order drawn for each batch
- ``paragraphs``: lines_to_paragraphs, neighbouring lines joined
- ``shuffle``: shuffle
- ``unbatch``: unbatch
"""
