"""Synchronization of the ranks of a process group, over a tree of sockets.

No collective is used, so nothing here can come between those of the user's. What is said is plain data.

- ``blocks``: read-ahead of one rank in blocks, and its positions
- ``in_step``: one rank's stream, synchronized with those of the other ranks
- ``meeting``: rendezvous of ranks: a tree of sockets
- ``topics``: protocol of reports, verdicts and bad news among ranks; pure functions
- ``tree``: one rank's node in the tree: its connections, and a thread that listens
"""
