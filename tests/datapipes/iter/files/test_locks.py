"""A lock keeps others out, and dies with its owner."""

from __future__ import annotations

import multiprocessing
import os
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from datapipes.errors import GraphError, LockTimeout
from datapipes.iter.files.locks import lock_of, locked, sweep
from tests.datapipes.iter.files.killed import PATIENCE, killed_at

FORK = multiprocessing.get_context("fork")


def lock_once(path: str) -> None:
    with locked(path, PATIENCE):
        pass


def test_an_owner_that_is_killed_anywhere_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    for call in count():
        if not killed_at(call, lambda: lock_once(path)):
            break
        with locked(path, timeout=0):
            assert os.listdir(tmp_path) == [".a.loader2-lock"]
        assert os.listdir(tmp_path) == [], f"killed at call {call}"
    assert call >= 4


def add_ones(path: str, rounds: int) -> None:
    for _ in range(rounds):
        with locked(path, PATIENCE):
            number = int(Path(path).read_text())
            Path(path).write_text(str(number + 1))


@pytest.mark.parametrize("kind", [FORK.Process, threading.Thread])
def test_one_at_a_time(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "number"
    path.write_text("0")
    workers = [kind(target=add_ones, args=(str(path), 25)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    assert path.read_text() == "100"
    assert os.listdir(tmp_path) == ["number"]


def test_waiting_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    found: list[str] = []

    def wait(**how: Any) -> None:
        try:
            with locked(path, **how):
                found.append("locked")
        except LockTimeout as error:
            found.append(str(error))

    with locked(path, 0):
        waits: list[dict[str, Any]] = [{"timeout": 0.01, "why": "so: "}, {"timeout": PATIENCE, "stopped": lambda: True}]
        for how in waits:
            thread = threading.Thread(target=wait, kwargs=how)
            thread.start()
            thread.join(PATIENCE)
    timed_out, closed = found
    assert timed_out.startswith(
        f"so: {path!r} is locked by another process or thread, and was not released within 0.01"
    )
    assert closed == f"{path!r} was waited for, and the iteration was closed"


def test_who_would_wait_for_itself_is_told(tmp_path: Path) -> None:
    with locked(str(tmp_path / "a"), 0), pytest.raises(GraphError, match="would wait for itself"):
        lock_once(str(tmp_path / "a"))
    assert os.listdir(tmp_path) == []


def test_a_forked_child_keeps_no_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    reading, writing = FORK.Pipe(duplex=False)
    with locked(path, 0):
        child = FORK.Process(target=reading.poll, args=(PATIENCE,))
        child.start()
    try:
        with locked(path, 0):
            pass
        assert os.listdir(tmp_path) == []
    finally:
        writing.send(None)
        child.join(PATIENCE)


def leave(block: Any) -> None:
    block.__exit__(None, None, None)


def test_a_child_that_leaves_the_block_leaves_the_lock_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    with locked(path, 0), locked(str(tmp_path / "b"), 0):
        block = locked(str(tmp_path / "c"), 0)
        block.__enter__()
        child = FORK.Process(target=leave, args=(block,))
        child.start()
        child.join(PATIENCE)
        assert child.exitcode == 0
        assert len(os.listdir(tmp_path)) == 3
        block.__exit__(None, None, None)
    assert os.listdir(tmp_path) == []


def test_a_lock_of_somebody_who_was_killed_is_swept_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    with locked(path, 0):
        sweep(lock_of(path))
        assert os.path.exists(lock_of(path))
    Path(lock_of(path)).touch()
    sweep(lock_of(path))
    sweep(lock_of(path))
    assert os.listdir(tmp_path) == []
