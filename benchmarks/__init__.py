"""The same work done by this library, by hand, and by its peers, in one run.

A speed alone says little: every requirement is a ratio between contenders that took turns on the same machine
in the same minutes. `python -m benchmarks --list` says what there is.
"""
