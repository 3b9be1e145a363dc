"""Readers of archives and remote files, used by the operators on files.

- ``archives/``: readers of untrusted archives and compressed files
- ``fast``: the quicker libraries of the extra ``fast``, and whether they are used
- ``remote/``: remote files, with one policy of timeouts and retries
"""
