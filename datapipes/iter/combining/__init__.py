"""Operators that join streams into one, or split one into several.

- ``hub``: the shared source and the queues of one fork's, demux's or unzip's children
- ``hub_apart``: a hub that several sessions read: users' plain classes read its children
- ``inputs``: checks and lengths of stages with several inputs
- ``spill``: a queue that is bounded in memory, and keeps on disk what exceeds the bounds
"""
