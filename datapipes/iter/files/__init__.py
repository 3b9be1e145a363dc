"""Operators that list files, open, read, check and save them.

- ``atomic``: write a file completely or not at all
- ``hashed``: a running hash, compared with the expected one
- ``locks``: locks between processes, and between threads, that die with their owner
- ``pairs``: pairs of a name and data or a stream, as stages that read and write files take them
- ``pieces``: data of a file to be written, piece by piece
- ``text_lines``: lines of one file: decoding, counting, errors with line numbers
"""
