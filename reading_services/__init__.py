"""Where a graph runs, and how its elements get home."""

from datapipes.errors import PrefetchTimeoutError, RankDied, RankFailed, RankLeft, RanksDiffer, RanksError, UnevenRanks
from datapipes.ranks.in_step import PADDING
from reading_services.distributed import DistributedReadingService
from reading_services.in_process import InProcessReadingService
from reading_services.multi_process import MultiProcessingReadingService
from reading_services.sequential import SequentialReadingService
from reading_services.service import CheckpointableReadingServiceInterface, ReadingServiceInterface
from reading_services.threads import ThreadingReadingService
from reading_services.worker_info import WorkerInfo, get_worker_info
from reading_services.workers.failures import WorkerDied, WorkerError, WorkerTimeout

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
