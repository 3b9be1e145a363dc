"""Who runs a graph: one of how many."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerInfo:
    """The number of workers and this one's index, as ``init_fn`` and ``reset_fn`` are given them."""

    num_workers: int
    worker_id: int
