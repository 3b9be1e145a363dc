"""Connections among the ranks of a process group: a tree of sockets.

No collective is used, so these connections cannot interfere with the user's collectives.

- ``rendezvous``: rendezvous of ranks: a tree of sockets
- ``tree``: one rank's node in the tree: its connections and its listening thread
"""
