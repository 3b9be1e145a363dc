"""Lightning trains with a DataLoader2, saves where it is, and goes on from there with the batches that were left.

With and without workers, on one rank and on two, in the middle of an epoch and at its end.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_training_goes_on_with_the_batches_that_were_left(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.loader2.in_lightning", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
