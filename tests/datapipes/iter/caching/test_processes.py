"""Several processes use one cache: each file is made once, and a process that dies does no harm to others."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from datapipes.errors import LockTimeout
from tests.datapipes.iter.caching.producers import left_in, make, note, noted, one_each, place, read_all, several_each
from tests.datapipes.iter.files.killed import PATIENCE, killed_at

FORK = multiprocessing.get_context("fork")
SEVERAL = [f"{name}{part}" for name in "ab" for part in "xyz"]
LISTS = [f"{name}.torchdata_list" for name in "ab"]


def joined(processes: list[Any]) -> list[int | None]:
    for process in processes:
        process.join(PATIENCE)
        if process.exitcode is None:
            process.kill()
            process.join(PATIENCE)
    return [process.exitcode for process in processes]


@pytest.mark.parametrize("build", [one_each, several_each])
def test_processes_that_build_the_cache_separately_make_each_file_once(tmp_path: Path, build: Any) -> None:
    spawn = multiprocessing.get_context("spawn")
    names = list(range(40))
    kinds: list[Any] = [spawn, FORK, FORK, FORK, FORK]
    processes = [kind.Process(target=read_all, args=(build, tmp_path, names)) for kind in kinds]
    for process in processes:
        process.start()
    assert joined(processes) == [0] * len(processes)
    assert sorted(noted(tmp_path), key=int) == [str(name) for name in names]
    assert len(left_in(tmp_path)) == (len(names) if build is one_each else 4 * len(names))


@pytest.mark.parametrize(("build", "complete"), [(one_each, ["a", "b"]), (several_each, sorted(SEVERAL + LISTS))])
def test_a_process_that_is_killed_anywhere_leaves_nothing_half_done(
    tmp_path: Path, build: Callable[..., Any], complete: list[str]
) -> None:
    for call in count():
        folder = tmp_path / str(call)
        folder.mkdir()
        killed = killed_at(call, lambda folder=folder: list(build(folder, "ab")))  # type: ignore[misc]  # a lambda's default has no type
        paths = list(build(folder, "ab", timeout=0))
        expected = ["a", "b"] if build is one_each else SEVERAL
        assert [os.path.basename(path) for path in paths] == expected, f"after a process killed at call {call}"
        for path in paths:
            assert Path(path).read_bytes() in (b"made of %b" % Path(path).name.encode(), b"part %b" % path[-1].encode())
        assert left_in(folder) == complete, f"left by a process that was killed at call {call}"
        times = noted(folder)
        assert all(times.count(name) <= 2 for name in "ab")
        assert len(times) <= 3, f"what was complete when the process was killed at call {call} was made again: {times}"
        if not killed:
            break
    assert call > 20


def make_and_wait(folder: str, name: object) -> tuple[object, bytes]:
    note(folder, name)
    os.kill(os.getpid(), signal.SIGSTOP)
    return name, b"made of %s" % str(name).encode()


def read_slowly(folder: Path) -> None:
    from datapipes.iter import IterableWrapper

    held = IterableWrapper(["a"]).on_disk_cache(partial(place, str(folder)))
    list(held.map(partial(make_and_wait, str(folder))).end_caching(same_filepath_fn=True, skip_read=True))


def test_a_producer_that_hangs_is_waited_for_and_one_that_is_killed_is_replaced_at_once(tmp_path: Path) -> None:
    producer = FORK.Process(target=read_slowly, args=(tmp_path,))
    producer.start()
    assert producer.pid is not None
    os.waitid(os.P_PID, producer.pid, os.WSTOPPED)
    with pytest.raises(LockTimeout, match=r"OnDiskCache Exception: .*cache/a' is locked .* within 0.05 seconds"):
        list(one_each(tmp_path, "a", timeout=0.05))
    waiting = FORK.Process(target=read_all, args=(one_each, tmp_path, "a"))
    waiting.start()
    os.kill(producer.pid, signal.SIGKILL)
    assert joined([producer, waiting]) == [-signal.SIGKILL, 0]
    assert noted(tmp_path) == ["a", "a"]
    assert left_in(tmp_path) == ["a"]
    assert make(str(tmp_path), "b")[1] == b"made of b"


def test_a_producer_that_goes_on_serves_those_who_wait(tmp_path: Path) -> None:
    producer = FORK.Process(target=read_slowly, args=(tmp_path,))
    producer.start()
    assert producer.pid is not None
    os.waitid(os.P_PID, producer.pid, os.WSTOPPED)
    waiting = [FORK.Process(target=read_all, args=(one_each, tmp_path, "a")) for _ in range(3)]
    for process in waiting:
        process.start()
    os.kill(producer.pid, signal.SIGCONT)
    assert joined([producer, *waiting]) == [0] * 4
    assert noted(tmp_path) == ["a"]
