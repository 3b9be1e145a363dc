"""Remote files: one policy of timeouts and retries, and the few ways in which bytes arrive.

- ``body``: a readable HTTP body that resumes after a broken connection
- ``bounded_http``: HTTP connections whose every wait is bounded by a deadline
- ``drive_page``: Google Drive's pages in place of a file: errors and confirmation
- ``filesystems``: file systems of fsspec with timeouts, retries and checked redirects
- ``remote_file``: a readable file of such a file system: all of it, or an error
- ``transfer``: Transfer, the policy of timeouts and retries, and the clock that keeps it
- ``web``: requests over HTTP, with redirects checked
"""
