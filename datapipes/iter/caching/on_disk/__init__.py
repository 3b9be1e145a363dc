"""File caches on disk: made once, read the next time.

- ``budget``: eviction of a cache's files, least recently used first
- ``listfile``: the list of the files that were made of one element
- ``production``: the cached files of one element, found or made
"""
