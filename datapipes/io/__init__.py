"""Readers of archives and remote files, used by the operators on files.

- ``archives/``: readers of untrusted archives and compressed files
- ``remote/``: remote files, with one policy of timeouts and retries
"""
