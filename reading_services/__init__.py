"""Where a graph runs, and how its elements get home."""

from reading_services.in_process import InProcessReadingService
from reading_services.service import CheckpointableReadingServiceInterface, ReadingServiceInterface
from reading_services.worker_info import WorkerInfo

__all__ = [
    "CheckpointableReadingServiceInterface",
    "InProcessReadingService",
    "ReadingServiceInterface",
    "WorkerInfo",
]
