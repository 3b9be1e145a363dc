"""The host's side of the IPU: batches of a step, the loader, the accessor and the reading service.

- ``accessor``: AsynchronousDataAccessor
- ``aliasing``: a guard on steps that were only lent
- ``arithmetic``: how many rows a step has, and which of them goes where
- ``combined``: the stage that makes them of micro-batches
- ``feed``: the process that it has, started, listened to and ended
- ``feeding``: what happens in that process
- ``loader``: DataLoader
- ``micro_batches``: what a graph says about its own batches
- ``partition``: which part of the data is this process's
- ``rebatching``: rows regrouped, and batches put together
- ``service``: IPUReadingService, any graph as combined batches
- ``sources``: what that process reads, epoch by epoch
"""
