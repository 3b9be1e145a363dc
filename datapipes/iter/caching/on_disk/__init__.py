"""Caches of files on disk: made once, then read.

- ``budget``: eviction of a cache's files, least recently used first
- ``listfile``: the list of the files made from one element
- ``production``: finder and maker of one element's files
"""
