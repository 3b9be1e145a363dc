"""A graph as a value: what one stage is, which stages are its parents, how it prints, copies and pickles.

- ``composed``: operators that are functions, which are looked for as a class is
- ``indexed``: streams that can be read by position
- ``parents``: what a stage holds: its attributes, and the pipes among them, which are its parents
- ``pickling``: how a pipe is pickled and copied, sources first where a graph is deep
- ``pipe``: IterDataPipe, MapDataPipe, ``functional_datapipe``
- ``placeholder``: a stage in place of what runs somewhere else, as one that asks for lengths sees it
- ``printing``: how a pipe prints: as the call that makes it
- ``registry``: who may be called as a method of a pipe
- ``structure``: find parents, walk, rewrite, unfold; pure functions
- ``user_iter``: users' own ``__iter__`` and ``set_seed``, called on a pipe that no session has opened
"""
