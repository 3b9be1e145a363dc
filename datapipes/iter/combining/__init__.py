"""Operators that make one stream of several, or several of one.

- ``hub``: what the children of one fork, demux or unzip share
- ``hub_apart``: the same where users' plain classes read the children, each in a session of its own
- ``inputs``: what stages with several inputs ask of them
- ``spill``: a queue that is bounded in memory, and keeps on disk what exceeds the bounds
"""
