"""The Trainer of transformers and Accelerate train with a DataLoader2, and go on with the batches that were left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_training_goes_on_with_the_batches_that_were_left(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.loader2.in_hugging_face", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
