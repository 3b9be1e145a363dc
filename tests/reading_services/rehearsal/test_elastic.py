"""A rank is killed in mid-epoch: the others are told within seconds, and torchrun's restart misses nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from loader2 import DataLoader2
from tests.reading_services.rehearsal import training
from tests.reading_services.rehearsal.programs import ended

RANKS = 2


def expected(rank: int) -> list[list[int]]:
    """Epoch, step and elements of all batches of a rank: the shuffled elements are dealt out to the workers of all."""
    rows = []
    for epoch in range(training.EPOCHS):
        with DataLoader2(training.graph()) as loader:
            loader.seed(epoch)
            order = [element for batch in loader for element in batch]
        shards = [order[shard :: RANKS * training.WORKERS] for shard in range(RANKS * training.WORKERS)]
        own = shards[rank * training.WORKERS : (rank + 1) * training.WORKERS]
        turns = range(0, len(own[0]), training.BATCH)
        batches = [shard[at : at + training.BATCH] for at in turns for shard in own if shard[at:]]
        rows += [[epoch, step, *batch] for step, batch in enumerate(batches)]
    return rows


def recorded(folder: Path, attempt: int, rank: int) -> list[list[int]]:
    lines = training.record(folder, attempt, rank).read_text().splitlines()
    return [[epoch, step, *batch] for epoch, step, batch in map(json.loads, lines)]


def test_torchrun_restarts_all_ranks_when_one_is_killed(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    ended(
        [*program, "--max-restarts=1", "-m", training.__name__, str(tmp_path)],
        seconds=500,
        OMP_NUM_THREADS="1",
        # Otherwise gloo finds the addresses of the ranks before the restart, and now and then connects to them.
        TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
    )

    error, seconds = json.loads((tmp_path / "error-0").read_text())
    assert "rank 1" in error
    assert seconds < 5

    saved = training.saved_by_all(tmp_path, RANKS)
    assert saved is not None
    for rank in range(RANKS):
        first, second = recorded(tmp_path, 0, rank), recorded(tmp_path, 1, rank)
        began = second[0][:2]
        assert [0, 0] < began <= list(training.KILLED)
        assert [row for row in first if row[:2] < began] + second == expected(rank)
        assert first == expected(rank)[: len(first)]
    everything = [element for rank in range(RANKS) for row in expected(rank) for element in row[2:]]
    assert sorted(everything) == sorted(training.EPOCHS * list(range(training.LENGTH)))
