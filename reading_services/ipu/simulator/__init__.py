"""The simulated device: models that run on it as they would on IPUs, with the same numbers and none of the speed.

- ``verdict/``: whether a loader keeps up with the simulated device, and what to change if it does not
- ``arguments``: arguments of a call, matched to ``forward``'s signature
- ``compiling``: a model compiled for the device, before the first step, between the users' hooks
- ``cost``: the cost model: how long a step takes on the device, in modelled seconds
- ``counters``: performance counters in modelled time
- ``executor``: trainingModel, inferenceModel and the executors that they make: weights, devices, steps and their times
- ``ipus``: stages, the number of chips, and who holds which
- ``losses``: the loss tensor that trains; identity_loss
- ``on_device``: the device's copy of a module, kept as it was compiled
- ``optim``: optimisers with PopTorch's arguments and torch's mathematics
- ``optimisers``: snapshots of optimisers, and those on the device
- ``processes``: gradients summed over several processes
- ``profiling``: marks for a tracer that is not there
- ``program``: what the device does in one step: the loops of micro-batches
- ``randomness``: the device's own random number generator
- ``report``: report of modelled time part by part, and apart from it what was measured
- ``rows``: rows of a step, cut into micro-batches, and its outputs: selection, and the place of each
- ``timeline``: timeline of a modelled run, as SVG
"""
