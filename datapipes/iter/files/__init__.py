"""Operators that list files, open, read, check and save them.

- ``atomic``: write a file completely or not at all
- ``hashed``: the hash that data must have
- ``locks``: locks between processes, and between threads, that die with their owner
- ``pairs``: what stages that read and write files take: a name and what is in the file
- ``pieces``: what is in a file to be, piece by piece
- ``text_lines``: what all stages that read lines have in common
"""
