"""Operators that list files, open, read, check and save them.

- ``atomic``: write a file completely or not at all
- ``contents``: names and data of files, as stages take them: pairs, pieces of data, and a running hash
- ``locks``: locks between processes, and between threads, that die with their owner
"""
