"""Operators that read archives and compressed files.

- ``members``: what a member may be called, and the stream that is given for it
"""
