"""Operators that read and write files elsewhere: HTTP, Google Drive, s3, AIStore, fsspec, iopath."""
