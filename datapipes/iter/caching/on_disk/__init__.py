"""Caches on disk: what was made once is read the next time.

- ``budget``: which files of a cache make room for new ones
- ``listfile``: the list of the files that were made of one element
- ``position``: where an end_caching is
- ``production``: the files of one element of a cache, found or made
"""
