"""How the ranks of a process group keep in step: who they are, a tree of sockets, and what is said over it.

No collective is used, so nothing here can come between those of the user's. What is said is plain data.
"""
