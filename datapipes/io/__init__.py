"""Bytes from archives and from elsewhere: what operators on files are made of.

- ``archives/``: what is inside archives and compressed files, read with nothing believed: see the files beside this one
- ``remote/``: reading from elsewhere: one policy of waiting and trying again, and the few ways in which bytes arrive
"""
