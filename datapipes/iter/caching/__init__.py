"""Operators that remember elements: in memory, and on disk.

- ``on_disk/``: caches on disk: what was made once is read the next time
- ``in_memory``: in_memory_cache, elements that are made once
- ``memory_cell``: memory_cell, which remembers the last elements
"""
