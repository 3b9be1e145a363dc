"""Where a graph runs, and how its elements get home.

- ``interface/``: what a plugin implements to run a graph somewhere, and what it tells those who run it
- ``ipu/``: PopTorch's host side on a CPU: ``import reading_services.ipu as poptorch`` runs a data-loading script
  unchanged
- ``workers/``: workers: processes or threads that make the elements of a graph, and how those get home
- ``distributed``: DistributedReadingService, each rank of a process group on its part
- ``in_process``: InProcessReadingService, the graph in the loader's own process
- ``multi_process``: MultiProcessingReadingService, copies of the graph in worker processes
- ``sequential``: SequentialReadingService, several services as one
- ``stage_times``: which stage of a graph takes the time
- ``threads``: ThreadingReadingService, the same with threads
"""

from datapipes.errors import (
    PrefetchTimeoutError,
    RankDied,
    RankFailed,
    RankLeft,
    RanksDiffer,
    RanksError,
    UnevenRanks,
    WorkerDied,
    WorkerError,
    WorkerTimeout,
)
from datapipes.ranks.in_step import PADDING
from reading_services.distributed import DistributedReadingService
from reading_services.in_process import InProcessReadingService
from reading_services.interface.service import CheckpointableReadingServiceInterface, ReadingServiceInterface
from reading_services.interface.worker_info import WorkerInfo, get_worker_info
from reading_services.multi_process import MultiProcessingReadingService
from reading_services.sequential import SequentialReadingService
from reading_services.threads import ThreadingReadingService

__all__ = [
    "PADDING",
    "CheckpointableReadingServiceInterface",
    "DistributedReadingService",
    "InProcessReadingService",
    "MultiProcessingReadingService",
    "PrefetchTimeoutError",
    "RankDied",
    "RankFailed",
    "RankLeft",
    "RanksDiffer",
    "RanksError",
    "ReadingServiceInterface",
    "SequentialReadingService",
    "ThreadingReadingService",
    "UnevenRanks",
    "WorkerDied",
    "WorkerError",
    "WorkerInfo",
    "WorkerTimeout",
    "get_worker_info",
]
