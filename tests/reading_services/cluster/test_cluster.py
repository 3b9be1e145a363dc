"""A handful of the cases of a cluster; ``make cluster`` has all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FEW = ("states_move", "errors_of_users", "elements_are_yours", "large_graphs", "drivers_that_die")


@pytest.mark.timeout(1800)  # a minute on a quiet machine
def test_a_few_cases() -> None:
    root = Path(__file__).resolve().parents[3]
    program = [sys.executable, "-m", "tests.reading_services.cluster", *FEW]
    run = subprocess.run(program, cwd=root, capture_output=True, text=True, timeout=1700)
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-4000:]
    assert run.stdout.count("\nok ") + run.stdout.startswith("ok ") == len(FEW)
