"""Operators that list files, open, read, check and save them.

- ``atomic``: write a file completely or not at all
- ``hash``: check_hash, data that is what it should be
- ``hashed``: the hash that data must have
- ``lines``: readlines
- ``listing``: list_files
- ``locks``: locks between processes, and between threads, that die with their owner
- ``opening``: open_files
- ``pairs``: what stages that read and write files take: a name and what is in the file
- ``pieces``: what is in a file to be, piece by piece
- ``reading``: read_from_stream, a stream in pieces
- ``saving``: save_to_disk, and the paths that were written
- ``text_lines``: what all stages that read lines have in common
"""
