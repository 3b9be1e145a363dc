"""The data loading tutorial prints what PopTorch's does, in its order, and says which figures are modelled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.preloaded import Preloaded

ROOT = Path(__file__).resolve().parents[3]
LINES = r"""SYNTHETIC DATA.*
mini-batch size: 16
 replication factor: {replicas}
 device-iterations: 50
 workers: \d+
 --> Global batch size: {global_batch}
Dataset size:  10000
Evaluating Dataloader:  {steps} steps
Total execution Time: \d+\.\d+ s
DataLoader throughput: \d+\.\d+ items/s
Compiling \+ Warmup \.\.\.
Evaluating:  {steps} steps of  {items}  items
Total execution Time: \d+\.\d+ s
IPU throughput: (\d+\.\d+) items/s
"""
PUBLISHED = 136_452  # items/s of 4 replicas on synthetic data


def test_it_prints_its_lines_in_order(preloaded: Preloaded) -> None:
    replicas, steps = 4, 3
    program, arguments = ROOT / "tutorials/tuto_data_loading.py", ("--synthetic-data", "--replicas", str(replicas))
    run = preloaded.ran(program, *arguments, cwd=ROOT, seconds=500, strict=True, env={"PATH": ""})
    assert run.code == 0, run.err
    numbers = {"replicas": replicas, "global_batch": 16 * replicas, "steps": steps, "items": 800 * replicas}
    found = re.fullmatch(LINES.format(**numbers), run.out)
    assert found, run.out
    assert float(found[1]) == pytest.approx(PUBLISHED, rel=0.1)
    assert "modelled, not measured" in run.err
