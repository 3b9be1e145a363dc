"""Reading archives and remote files, for the operators on files.

- ``archives/``: readers of untrusted archives and compressed files
- ``remote/``: remote files: one policy of timeouts and retries, and the few ways in which bytes arrive
"""
