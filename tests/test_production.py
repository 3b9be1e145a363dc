"""The program of the page In production: stopped by a signal, it saves, and continues with exactly what was left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.test_house import ROOT

ROWS = 1_000_000  # more than fit into a pipe that is not read, so that the program waits for its reader


def stopped(folder: Path, send: Callable[[int], None]) -> list[str]:
    """Run the program until it has printed some batches, send a signal, and return all that it prints."""
    with (
        (folder / "errors.txt").open("w+") as errors,
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "program.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            first = [process.stdout.readline() for _ in range(5)]
            send(process.pid)
            rest = process.stdout.readlines()
            assert process.wait(60) == 0, (folder / "errors.txt").read_text()
        finally:
            process.kill()
    return [*first, *rest]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("whom", [os.kill, os.killpg])
def test_a_stopped_program_continues(tmp_path: Path, whom: Callable[[int, int], None], number: int) -> None:
    page = (ROOT / "docs" / "in-production.md").read_text("utf-8")
    found = re.search(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    (tmp_path / "program.py").write_text(found[1].replace("range(1000)", f"range({ROWS})"))
    seen = [line for _ in range(2) for line in stopped(tmp_path, lambda pid: whom(pid, number))]
    rows = IterableWrapper(range(ROWS)).shuffle().sharding_filter()
    graph = rows.map(float).batch(8).collate()
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(num_workers=2)) as dl:
        dl.seed(0)
        assert seen == [f"{batch.tolist()}\n" for batch in islice(dl, len(seen))]
