"""Operators on one element at a time, on several at once, and on how many there are.

- ``async_batches``: async_map_batches, in an event loop of its own
- ``batch_mapping``: map_batches, a function of several elements at once
- ``columnar``: rows2columnar, a batch of rows as one dict of columns
- ``cycle``: cycle, the whole stream again
- ``filtering``: filter
- ``flatmap``: flatmap
- ``length``: set_length, where nobody can count
- ``mapping``: map, collate
- ``numbering``: enumerate, add_index, header, repeat
- ``selecting``: drop, slice, flatten: other columns of each element
- ``shuffled_flatmap``: shuffled_flatmap, several iterables mixed at random
- ``threadpool``: threadpool_map, a function called in several threads, its results in order
"""
