"""Whether a loader keeps up with the simulated device, and what to change if it does not.

- ``bottleneck``: a verdict: who holds the device up, by which figures, and what to change
- ``judging``: how fast a loader is on this computer, and how one comes to a verdict
"""
