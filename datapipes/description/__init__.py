"""Pipes and graphs as values: their attributes, parents, repr, copies and pickles.

- ``exports``: lazy imports of a package: a name is imported when it is first asked for
- ``given_sources``: lists and other iterables that a program gives an operator in place of a pipe
- ``indexed``: streams that can be read by position
- ``names``: names of chain methods: which are free, and to whom one belongs
- ``pipe``: IterDataPipe, MapDataPipe, operators as classes and as functions, users' fluent names
- ``passes``: how many plain iterations a pipe with a pinned seed has had
- ``parameters``: documentation of the parameters that many operators share
- ``plugins``: what installed distributions offer by entry points
- ``printing``: repr of a pipe: the call that makes it
- ``structure``: attributes and parents of a stage; walk, rewrite, unfold, pickle a graph; pure functions
- ``user_iter``: users' own ``__iter__`` and ``set_seed``, called on a pipe that no session has opened
"""
