"""Operators that cache elements: in memory, and on disk.

- ``on_disk/``: file caches on disk: made once, read the next time
"""
