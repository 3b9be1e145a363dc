"""Pipes and graphs as values: their attributes, parents, repr, copies and pickles.

- ``composed``: operators that are functions, which are looked for as a class is
- ``indexed``: streams that can be read by position
- ``parameters``: documentation of the parameters that many operators share
- ``parents``: attributes of a stage, and its parents, the pipes among them
- ``pickling``: pickling and copying of pipes, sources first where a graph is deep
- ``pipe``: IterDataPipe, MapDataPipe, ``functional_datapipe``
- ``placeholder``: placeholder stage for what runs somewhere else, as one that asks for lengths sees it
- ``printing``: repr of a pipe: the call that makes it
- ``registry``: registry of fluent names, the methods of pipes
- ``structure``: find parents, walk, rewrite, unfold; pure functions
- ``user_iter``: users' own ``__iter__`` and ``set_seed``, called on a pipe that no session has opened
"""
