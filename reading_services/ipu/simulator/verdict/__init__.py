"""Find the bottleneck: whether a loader keeps up with the simulated device, and what to change if it does not.

- ``bottleneck``: Verdict: the bottleneck, its figures, and what to change
- ``judging``: throughput of a loader on this computer, and the computation of a verdict
"""
