"""Operators that join streams into one, or split one into several.

- ``hub``: the shared source and the queues of the children of one fork, demux or unzip
- ``detached_hub``: a detached hub, whose children are read in several sessions
- ``inputs``: checks and lengths of stages with several inputs
- ``spill``: a queue with bounds in memory that writes the rest to disk
"""
