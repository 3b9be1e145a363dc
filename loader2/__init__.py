"""DataLoader2: iterate a graph epoch by epoch, with seeds, saving and resuming.

- ``__main__``: the command ``python -m loader2``
- ``adapters``: changes that a loader makes to its copy of a graph
- ``demo``: the tour that ``python -m loader2 demo`` gives
- ``epochs``: number and seed of the epoch that comes next
- ``graph``: ``datapipes.graph`` under torchdata's name
- ``iteration``: the iterator of a loader, with ``limit`` and ``resume``
- ``loader``: DataLoader2
- ``migrating/``: migration of programs written for torchdata: ``python -m loader2 migrate``
- ``new_plugin``: the files of a new plugin: ``python -m loader2 new-plugin``
- ``nodes``: PipeNode, a graph of pipes as a node of torchdata's
- ``old_functions``: functions that only torchdata's tests, forks and other people's pipes used
- ``old_modules``: tables of torchdata's, torch's and PopTorch's modules: where what was in them is here
- ``old_names``: torchdata's, torch's and PopTorch's modules, meaning this library's while somebody asks for it
- ``poptorch_names``: import it to have PopTorch's names mean this library's
- ``progress``: progress of an epoch: a bar, or lines in a log
- ``random``: SeedGenerator, seeds that ranks and workers share or have for themselves
- ``rank_states``: one checkpoint of all ranks, gathered and scattered
- ``service_run``: the reading service of one loader, and the graph as the service has changed it
- ``state``: the saved state of a loader, field by field
- ``stubs``: stubs of installed plugins' methods, for type checkers: ``python -m loader2 stubs``
- ``testing/``: the laws of pipes and services, as a kit for those who write their own
- ``torch_arguments``: arguments of torch's DataLoader that a DataLoader2 does not take
- ``torchdata_names``: import it to have torchdata's names mean this library's
"""

from loader2 import adapters, graph, random, state
from loader2.iteration import DataLoader2Iterator
from loader2.loader import DataLoader2
from loader2.rank_states import gather, scatter

__version__ = "0.1.0"
"""The one place where the number stands; the build reads it here."""

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
