"""The data loading tutorial prints what PopTorch's does, in its order, and says which figures are modelled."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_it_prints_its_lines_in_order() -> None:
    replicas, steps = 4, 3
    program = [sys.executable, "-W", "error", "tutorials/tuto_data_loading.py"]
    arguments = ["--synthetic-data", "--replicas", str(replicas)]
    command, env = [*program, *arguments], {"PYTHONPATH": str(ROOT), "PATH": ""}
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=50)
    assert run.returncode == 0, run.stderr
    numbers = {"replicas": replicas, "global_batch": 16 * replicas, "steps": steps, "items": 800 * replicas}
    found = re.fullmatch(LINES.format(**numbers), run.stdout)
    assert found, run.stdout
    assert float(found[1]) == pytest.approx(PUBLISHED, rel=0.1)
    assert "modelled, not measured" in run.stderr
