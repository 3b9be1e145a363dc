"""Readers of remote files, with one policy of timeouts and retries.

- ``body``: a readable HTTP body that resumes after a broken connection
- ``bounded_http``: HTTP connections with a deadline for each wait
- ``drive_page``: pages that Google Drive returns instead of a file: errors and confirmations
- ``filesystems``: file systems of fsspec with timeouts, retries and checked redirects
- ``object_stores``: objects of s3 and Azure read with obstore, if the extra ``fast`` is installed
- ``remote_file``: a readable file of such a file system
- ``transfer``: Transfer, the policy of timeouts and retries, and the clock that enforces it
- ``web``: requests over HTTP, with redirects checked
"""
