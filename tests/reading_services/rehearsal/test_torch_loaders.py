"""Ranks that torchrun has started read our graphs by torch's DataLoader and torchdata's StatefulDataLoader."""

from __future__ import annotations

import json
import sys
from itertools import chain
from pathlib import Path
from typing import Any

from tests.reading_services.rehearsal import torch_loading
from tests.reading_services.rehearsal.programs import ended

RANKS = 2


def in_order(parts: list[list[list[list[int]]]]) -> list[int]:
    """All elements that the ranks have read, by the numbers that they have in the order of all ranks."""
    together = sorted(chain(*chain(*parts)))
    assert [number for number, _ in together] == list(range(torch_loading.LENGTH))
    return [element for _, element in together]


def test_all_ranks_read_one_order_and_go_on_in_mid_epoch(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    ended([*program, "-m", torch_loading.__name__, str(tmp_path)], seconds=500, OMP_NUM_THREADS="1")

    read: list[Any] = [json.loads((tmp_path / f"read-{rank}").read_text()) for rank in range(RANKS)]
    orders = [in_order(list(parts)) for parts in zip(*[of_rank["epochs"] for of_rank in read], strict=True)]
    orders.append(in_order([of_rank["taken"] + of_rank["rest"] for of_rank in read]))
    assert all(sorted(order) == list(range(torch_loading.LENGTH)) for order in orders)
    assert len({tuple(order) for order in orders}) == torch_loading.EPOCHS + 1
    for of_rank in read:
        assert len(of_rank["taken"]) == torch_loading.TAKEN
        assert of_rank["resumed"] == of_rank["rest"] != []
