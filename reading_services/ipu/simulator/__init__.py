"""The simulated device: models that run on it as they would on IPUs, with the same numbers and none of the speed.

- ``verdict/``: whether a loader keeps up with the simulated device, and what to change if it does not
- ``arguments``: the arguments of a call, by ``forward``'s signature
- ``compiling``: everything that is looked at once, before the first step
- ``cost``: the cost model: how long a step takes on the device, in modelled seconds
- ``counters``: performance counters in modelled time
- ``executor``: trainingModel, inferenceModel and the executors that they make: weights, devices, steps and their times
- ``ipus``: stages, the number of chips, and who holds which
- ``losses``: which tensor trains; identity_loss
- ``on_device``: the device's copy of a module, kept as it was compiled
- ``optim``: optimisers with PopTorch's arguments and torch's mathematics
- ``optimisers``: snapshots of optimisers, and those on the device
- ``outputs``: which outputs come back, and where each goes
- ``processes``: gradients of several processes
- ``profiling``: marks for a tracer that is not there
- ``program``: what the device does in one step: the loops of micro-batches
- ``randomness``: the device's own random numbers
- ``report``: what a device did: modelled time part by part, and apart from it what was measured
- ``rows``: which micro-batch has which rows
- ``timeline``: the picture of a modelled run, as SVG
"""
