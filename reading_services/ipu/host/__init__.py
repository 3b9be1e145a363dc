"""The host's side of the IPU: combined batches, the loader, the accessor and the reading service.

- ``accessor``: AsynchronousDataAccessor
- ``arithmetic``: batch sizes: number of rows of a step, and their division among replicas and processes
- ``combined``: the stage that makes combined batches of micro-batches
- ``feed``: the owner's side of the loading process: it starts, receives from and ends the process
- ``feeding``: the loop of the loading process, and the transfer of its dataset
- ``loader``: DataLoader, the validation of its arguments, and its warnings
- ``micro_batches``: batch stage and batch size of a graph
- ``partition``: partition of a dataset among several processes
- ``rebatching``: rows regrouped, and batches joined
- ``service``: IPUReadingService, which gives any graph as combined batches
- ``sources``: source of an accessor, one iterator for each epoch
"""
