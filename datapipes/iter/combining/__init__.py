"""Operators that make one stream of several, or several of one.

- ``concat``: concat
- ``demux``: demux, round_robin_demux: each element to one of several
- ``fork``: fork, unzip
- ``hub``: what the children of one fork, demux or unzip share
- ``hub_apart``: the same where users' plain classes read the children, each in a session of its own
- ``inputs``: what stages with several inputs ask of them
- ``key_zipping``: zip_with_iter, zip_with_map: pairs by key
- ``mux``: mux, mux_longest
- ``random_split``: random_split, each element to one of several by weight
- ``sampling_mux``: SampleMultiplexer, which draws the next input by weight
- ``spill``: a queue that is bounded in memory, and keeps on disk what exceeds the bounds
- ``zipping``: zip, zip_longest
"""
