"""Readers of archives, pictures and remote files, used by the operators on files.

- ``archives/``: readers of untrusted archives and compressed files
- ``fast``: the quicker libraries of the extra ``fast``, and whether they are used
- ``images``: pictures in files, as tensors: decoded, cut to a box, resized
- ``remote/``: remote files, with one policy of timeouts and retries
"""
