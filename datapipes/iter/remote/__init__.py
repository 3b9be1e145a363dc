"""Operators that read and write remote files: HTTP, Google Drive, s3, AIStore, fsspec, iopath.

- ``ahead``: reading ahead over files
"""
