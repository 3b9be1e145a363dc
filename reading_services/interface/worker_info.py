"""Worker info: this worker's index and the number of workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WorkerInfo:
    """The number of workers and this one's index, as ``init_fn`` and ``reset_fn`` are given them.

    Args:
        num_workers: The number of workers of the service; 1 where the graph runs in the loader's process.
        worker_id: The index of this worker among them, from 0 on.
    """

    num_workers: int
    worker_id: int


InitFn = Callable[[Any, WorkerInfo], Any]
"""Takes a graph and who runs it, once; returns the graph to use."""
EpochFn = Callable[[Any, WorkerInfo, Any], Any]
"""Takes a generator of seeds as well, at the start of each epoch."""


class _Here(threading.local):
    info: WorkerInfo | None = None


_here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """This worker's info, inside a worker of a reading service; None anywhere else.

    >>> get_worker_info() is None
    True
    """
    return _here.info


def set_worker_info(info: WorkerInfo) -> None:
    """Mark this thread as a worker's."""
    _here.info = info
