"""Operators that read and write files elsewhere: HTTP, Google Drive, s3, AIStore, fsspec, iopath.

- ``ais``: list_files_by_ais, load_files_by_ais
- ``fsspec_files``: list_files_by_fsspec, open_files_by_fsspec, save_by_fsspec
- ``gdrive``: read_from_gdrive, past the page that asks first
- ``http``: read_from_http
- ``iopath_files``: list_files_by_iopath, open_files_by_iopath, save_by_iopath
- ``online``: read_from_remote, whichever of the two it is
- ``s3``: list_files_by_s3, load_files_by_s3
"""
