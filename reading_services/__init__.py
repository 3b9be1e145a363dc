"""Where a graph runs, and how its elements get home."""

from reading_services.in_process import InProcessReadingService
from reading_services.multi_process import MultiProcessingReadingService
from reading_services.sequential import SequentialReadingService
from reading_services.service import CheckpointableReadingServiceInterface, ReadingServiceInterface
from reading_services.threads import ThreadingReadingService
from reading_services.worker_info import WorkerInfo, get_worker_info
from reading_services.workers.failures import WorkerDied, WorkerError, WorkerTimeout

__all__ = [
    "CheckpointableReadingServiceInterface",
    "InProcessReadingService",
    "MultiProcessingReadingService",
    "ReadingServiceInterface",
    "SequentialReadingService",
    "ThreadingReadingService",
    "WorkerDied",
    "WorkerError",
    "WorkerInfo",
    "WorkerTimeout",
    "get_worker_info",
]
