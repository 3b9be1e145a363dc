"""How the ranks of a process group keep in step: who they are, a tree of sockets, and what is said over it.

No collective is used, so nothing here can come between those of the user's. What is said is plain data.

- ``blocks``: what one rank has read ahead, and where it was read
- ``in_step``: one rank's stream, kept in step with those of the others
- ``meeting``: how ranks find each other: a tree of sockets
- ``news``: bad news of a rank, and the errors that they become
- ``topics``: what ranks tell each other, and what follows from it; pure functions
- ``tree``: one rank's place in the tree: what it says, what it is told, and a thread that listens
"""
