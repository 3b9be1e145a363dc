"""DataLoader2: iterate a graph epoch by epoch, with seeds, saving and resuming.

- ``__main__``: the command ``python -m loader2``
- ``adapters``: changes that a loader makes to its copy of a graph
- ``commands/``: a tour, new plugins, stubs of plugins
- ``epochs``: number and seed of the next epoch
- ``graph``: ``datapipes.graph`` under torchdata's name
- ``iteration``: the iterator of a loader, with ``limit`` and ``resume``
- ``loader``: DataLoader2
- ``nodes``: PipeNode, a graph of pipes as a node of torchdata's
- ``poptorch_names``: import it to make PopTorch's names mean this library's
- ``old_names``: the switch of torchdata's and PopTorch's names, for a block of code
- ``porting/``: programs written for torchdata, torch's pipes or PopTorch
- ``progress``: progress of an epoch: a bar, or lines in a log
- ``random``: SeedGenerator: seeds that ranks and workers share, and seeds of their own
- ``rank_states``: one checkpoint of all ranks, gathered and scattered
- ``service_run``: the reading service of one loader, and the graph as the service has changed it
- ``state``: the saved state of a loader, field by field
- ``testing/``: the laws of pipes and services, as a test kit for your own
- ``torch_arguments``: arguments of torch's DataLoader that a DataLoader2 does not take
- ``torchdata_names``: import it to make torchdata's names mean this library's
"""

from loader2 import adapters, graph, random, state
from loader2.iteration import DataLoader2Iterator
from loader2.loader import DataLoader2
from loader2.rank_states import gather, scatter

__version__ = "0.1.0"
"""The version of this library. The build reads it here."""

__all__ = [
    "DataLoader2",
    "DataLoader2Iterator",
    "__version__",
    "adapters",
    "gather",
    "graph",
    "random",
    "scatter",
    "state",
]
