"""Operators that cache elements: in memory, and on disk.

- ``on_disk/``: caches of files on disk
"""
