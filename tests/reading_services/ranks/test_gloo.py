"""Why ranks do not talk by gloo's collectives; a test that fails here is a reason to decide anew (docs/ranks.md)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tests.many_ranks import on_ranks

LIMIT = timedelta(seconds=1)


def error_of(work: Any) -> str | None:
    try:
        work.wait()
    except RuntimeError as error:
        return str(error)
    return None


def reduced(group: Any) -> Any:
    return dist.all_reduce(torch.zeros(6, dtype=torch.int64), group=group, async_op=True)


def test_a_rank_that_is_late_once_breaks_the_group_for_good() -> None:
    def run(rank: int) -> Any:
        group = dist.new_group(backend="gloo", timeout=LIMIT)
        if rank == 1:
            dist.barrier()  # until the others have waited in vain
        first = error_of(reduced(group))
        if rank != 1:
            dist.barrier()
        dist.barrier()
        return first, error_of(reduced(group))

    for first, second in on_ranks(3, run):
        assert first is not None
        assert second is not None
        assert "rank 1" not in first + second, "now it says who was late"


def test_what_has_begun_is_not_taken_back() -> None:
    def run(rank: int) -> Any:
        group = dist.new_group(backend="gloo", timeout=LIMIT)
        error = None
        if rank == 0:
            work = reduced(group)
            group._get_backend(torch.device("cpu")).abort()
            error = error_of(work)
        dist.barrier()
        return error

    assert "Timed out waiting 1000ms" in (on_ranks(2, run)[0] or "it went well")
