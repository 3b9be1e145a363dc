"""Operators that list files, open, read, check and save them.

- ``atomic``: writing of a file completely or not at all
- ``contents``: names and data of files as stages take them: pairs, pieces of data, and a running hash
- ``locks``: file locks between processes and threads that end with their owner
"""
