"""Operators that remember elements: in memory, and on disk.

- ``on_disk/``: caches on disk: what was made once is read the next time
"""
