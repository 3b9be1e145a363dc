"""Operators that read archives and decompress files.

- ``members``: checked paths of an archive's members, and their streams
"""
