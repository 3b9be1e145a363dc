"""Pipes and graphs as values: their attributes, parents, repr, copies and pickles.

- ``indexed``: streams that can be read by position
- ``pickling``: pickling and copying of pipes, sources first where a graph is deep
- ``pipe``: IterDataPipe, MapDataPipe, operators as classes and as functions, users' fluent names
- ``printing``: repr of a pipe: the call that makes it
- ``structure``: attributes and parents of a stage; walk, rewrite, unfold; pure functions
- ``user_iter``: users' own ``__iter__`` and ``set_seed``, called on a pipe that no session has opened
"""
