"""The simulated device: models run on it as they would on IPUs, with the same numbers, but not the same speed.

- ``verdict/``: whether a loader keeps up with the simulated device, and what to change if it does not
- ``arguments``: arguments of a call, compared with ``forward``'s signature and the first call
- ``compiling``: a model compiled for the device, before the first step, between the users' hooks
- ``cost``: the cost model: how long a step takes on the device, in modelled seconds
- ``counters``: performance counters in modelled time
- ``executor``: trainingModel, inferenceModel and their executors: weights, devices, steps and their times
- ``ipus``: stages, the number of chips, and the chips in use
- ``losses``: the loss tensor that trains; identity_loss
- ``on_device``: the device's copy of a module, kept as it was compiled
- ``optim``: optimisers with PopTorch's arguments and torch's mathematics
- ``optimisers``: snapshots of optimisers, and those on the device
- ``processes``: gradients summed over several processes
- ``profiling``: marks for a tracer, without effect
- ``program``: the loops of micro-batches in one step of the device
- ``randomness``: the device's own random number generator
- ``report``: report of modelled times, and separately of measured times
- ``rows``: rows of a step, cut into micro-batches, and the selection and place of its outputs
- ``timeline``: timeline of a modelled run, as SVG
"""
