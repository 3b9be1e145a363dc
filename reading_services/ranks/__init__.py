"""Connections among the ranks of a process group: a tree of sockets.

No collective is used, so nothing here can come between those of the user's.

- ``meeting``: rendezvous of ranks: a tree of sockets
- ``tree``: one rank's node in the tree: its connections, and a thread that listens
"""
