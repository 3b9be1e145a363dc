"""Operators that read archives and compressed files.

- ``decompress``: decompress, extract, load_from_bz2, load_from_xz
- ``members``: what a member may be called, and the stream that is given for it
- ``rar``: load_from_rar
- ``tar``: load_from_tar
- ``zip``: load_from_zip
"""
