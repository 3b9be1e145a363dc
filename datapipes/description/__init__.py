"""Pipes and graphs as values: their attributes, inputs, repr, copies and pickles.

- ``exports``: lazy imports: names of a package that are imported at first use
- ``given_sources``: lists and other iterables that a program passes to an operator in place of a pipe
- ``indexed``: streams that can be read by position
- ``names``: names of chain methods, and their owners
- ``pipe``: IterDataPipe, MapDataPipe, operators as classes and as functions, users' fluent names
- ``passes``: number of plain iterations of a pipe with a pinned seed
- ``parameters``: documentation of the parameters that many operators share
- ``plugins``: entry points of installed distributions
- ``printing``: repr of a pipe: the call that makes it
- ``renamed``: older names of parameters, accepted for two minor releases
- ``structure``: attributes and inputs of a stage; walk, rewrite, unfold, pickle a graph; pure functions
- ``user_code``: what the code of a user's class shows: a counted epoch, what it assigns first
- ``user_iter``: users' own ``__iter__`` and ``set_seed``, called on a pipe that no session has opened
"""
