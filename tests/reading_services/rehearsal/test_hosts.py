"""The rehearsal of several nodes: ranks on two hosts, each with its torchrun, that meet over a wire between them."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader2.testing.ending import ended
from tests.reading_services.rehearsal import plays
from tests.reading_services.rehearsal.hosts import needs_hosts, played
from tests.reading_services.rehearsal.programs import ROOT


@pytest.mark.parametrize("play", ["covers", "cut", "narrow"])
def test_on_two_hosts(play: str, tmp_path: Path) -> None:
    played(plays.__name__, play, str(tmp_path), seconds=500)


def test_nothing_is_left_of_the_hosts_when_a_test_is_killed(tmp_path: Path) -> None:
    needs_hosts()
    mark = uuid.uuid4().hex
    test = (
        f"from {played.__module__} import played; played({plays.__name__!r}, 'forever', {str(tmp_path)!r}, seconds=300)"
    )
    killed = subprocess.Popen([sys.executable, "-c", test], cwd=ROOT, env={**os.environ, "MARK": mark})
    try:
        plays.wait_until((tmp_path / "begun").exists, 60)
    finally:
        processes = list(marked(mark))
        killed.kill()
        killed.wait()
    assert len(processes) > 3, "the test, the play, and a program on each host"
    assert all(ended(pid, 20) for pid in processes)


def marked(mark: str) -> Iterator[int]:
    """The processes with this mark in their environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                yield int(folder.name)
        except OSError:  # it has ended meanwhile
            continue
