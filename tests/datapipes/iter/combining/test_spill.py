"""Buffers of fork and its kin are bounded in elements and bytes, or go to disk and come back in their order."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datapipes.errors import BadArgument, UnsavableElement
from datapipes.iter import IterableWrapper
from datapipes.iter.combining.spill import BufferBounds, SpillQueue
from datapipes.position.position_history import Lost
from tests.datapipes.iter.mishaps import failing_at, outcomes

SHARED_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


class Unsavable:
    """A class that is not allowed in a state."""


def texts(length: int) -> Any:
    return IterableWrapper(["x" * 1000 + str(x) for x in range(length)])


def spilled(folder: Path) -> list[int]:
    """The sizes of the files in a folder that this process holds open, with a name or without."""
    sizes = []
    for descriptor in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{descriptor}"
        if os.path.lexists(path) and os.readlink(path).startswith(str(folder)):
            sizes.append(os.stat(path).st_size)
    return sizes


# A step puts in an element of so many letters; takes one out; or puts in one that cannot be on disk.
LOST = Lost(ValueError())
STEPS = st.lists(st.one_of(st.integers(0, 400), st.just("take"), st.just("unsavable"), st.just("kept")), max_size=60)


@SHARED_FOLDER
@given(STEPS, st.integers(0, 4), st.one_of(st.none(), st.integers(1, 1000)))
def test_it_is_a_queue(tmp_path: Path, steps: list[Any], most: int, most_bytes: int | None) -> None:
    room = BufferBounds(most, most_bytes, str(tmp_path), "a test")
    queue, naive = SpillQueue(room), deque[Any]()
    peak = 0
    for number, step in enumerate(steps):
        if step != "take":
            element = Unsavable() if step == "unsavable" else (number, "x" * step) if type(step) is int else LOST
            naive.append(element)
            queue.append(element)
            if number % 2:
                queue.settle()
        elif naive:
            assert queue.popleft() == naive.popleft()
        assert list(queue) == list(naive)
        assert (len(queue), bool(queue)) == (len(naive), bool(naive))
        assert room.elements <= most
        assert most_bytes is None or room.bytes <= most_bytes
        assert (queue.refusal is not None) <= any(type(x) is Unsavable for x in naive)
        peak = max(peak, sum(len(x[1]) + 100 for x in naive if type(x) is tuple))
        assert sum(spilled(tmp_path)) <= 2 * peak
    while naive:
        assert queue.popleft() == naive.popleft()
    with pytest.raises(IndexError):
        queue.popleft()
    assert sum(spilled(tmp_path)) == 0, "what was read takes no space"
    queue.clear()
    assert spilled(tmp_path) == []
    assert (room.elements, room.bytes, queue.refusal) == (0, 0, None)


@SHARED_FOLDER
@given(
    length=st.integers(0, 15),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    bounds=st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(1, 200))),
    dealt=st.booleans(),
    copy=st.sampled_from([None, "deep"]),
    saved=st.integers(0, 12),
)
def test_spilling_changes_nothing(
    tmp_path: Path, length: int, sizes: tuple[int, int], bounds: Any, dealt: bool, copy: Any, saved: int
) -> None:
    def joined(**bounds: Any) -> Any:
        source = IterableWrapper(range(length)).map(failing_at(length // 2))
        a, b = source.round_robin_demux(2, **bounds) if dealt else source.fork(2, copy=copy, **bounds)
        return a.batch(sizes[0]).mux_longest(b.batch(sizes[1]))

    expected = outcomes(joined())
    bounded = joined(buffer_size=bounds[0], buffer_bytes=bounds[1], spill_dir=tmp_path)
    assert outcomes(bounded) == expected
    it, again = iter(bounded), iter(bounded)
    assert outcomes(it, most=saved) == expected[:saved]
    again.load_state_dict(pickle.loads(pickle.dumps(it.state_dict())))
    for follows in (outcomes(again), outcomes(it)):
        assert [str(x).split("ValueError")[-1] for x in follows] == [
            str(x).split("ValueError")[-1] for x in expected[saved:]
        ], "a state can only tell of an error that a child was still to meet"
    del it, again
    assert (spilled(tmp_path), os.listdir(tmp_path)) == ([], [])


def test_elements_come_back_equal(tmp_path: Path) -> None:
    elements: list[dict[str, Any]] = [
        {"image": torch.full((3,), i), "name": f"{i}", "box": (i, None, 1.5)} for i in range(6)
    ]
    a, b = IterableWrapper(elements).fork(2, buffer_size=0, spill_dir=str(tmp_path))
    found = list(a.concat(b))
    for one, other in zip(found[:6], found[6:], strict=True):
        assert one["image"].equal(other["image"])
        assert (one["name"], one["box"]) == (other["name"], other["box"])


def test_memory_holds_what_it_may(tmp_path: Path) -> None:
    a, b = texts(50).fork(2, buffer_bytes=10_000, spill_dir=tmp_path)
    it = iter(a.concat(b))
    for _ in range(9):
        next(it)
    assert spilled(tmp_path) == []
    for _ in range(21):
        next(it)
    assert 20_000 < sum(spilled(tmp_path)) < 25_000, "all but the last one, which has just come"
    assert os.listdir(tmp_path) == [], "the file has no name"
    assert [x[1000:] for x in it] == [str(x) for x in [*range(30, 50), *range(50)]]
    assert spilled(tmp_path) == []


def test_a_lag_that_lasts_takes_no_more_and_more_space(tmp_path: Path) -> None:
    a, b = IterableWrapper(range(2000)).map(str).map(lambda x: x * 300).fork(2, buffer_size=1, spill_dir=tmp_path)
    lag = 20
    shifted = IterableWrapper([None] * lag).concat(b)
    peak = 0
    for i, (x, y) in enumerate(a.zip(shifted)):
        assert (x, y) == (str(i) * 300, None if i < lag else str(i - lag) * 300)
        peak = max(peak, sum(spilled(tmp_path)))
    assert 0 < peak < 3 * lag * 4 * 300


@pytest.mark.parametrize("leave", ["an exception", "close", "drop"])
def test_nothing_is_left_behind(tmp_path: Path, leave: str) -> None:
    a, b = texts(10).map(failing_at("x" * 1000 + "9")).fork(2, buffer_size=1, spill_dir=tmp_path)
    it: Any = iter(a.concat(b))
    for _ in range(9):
        next(it)
    assert spilled(tmp_path) != []
    if leave == "an exception":
        found = [x[-5:] for x in outcomes(it)]
        assert found == ["s bad", *(f"xxxx{x}" for x in range(9)), "s bad"]
    elif leave == "close":
        it.close()
    del it
    assert (spilled(tmp_path), os.listdir(tmp_path)) == ([], [])


KILLED = """
import os, signal, sys
from datapipes.iter import IterableWrapper
a, b = IterableWrapper(range(1000)).fork(2, buffer_size=1, spill_dir=sys.argv[1])
it = iter(a.concat(b))
for _ in range(500): next(it)
files = [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]
print(sum(os.readlink(f"/proc/self/fd/{fd}").startswith(sys.argv[1]) for fd in files), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_left_behind_by_a_process_that_is_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, timeout=500, check=False
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "1\n"), done.stderr
    assert os.listdir(tmp_path) == []


def test_an_element_that_cannot_be_on_disk_stops_who_is_ahead(tmp_path: Path) -> None:
    odd = Unsavable()
    a, b = IterableWrapper([1, 2, odd, 4, 5], deepcopy=False).fork(2, buffer_size=1, spill_dir=tmp_path)
    it = iter(a.batch(4).zip(b.batch(4)))
    with pytest.raises(
        UnsavableElement, match=r"that \.fork\(2, buffer_size=1, .* spills to disk.*Unsavable"
    ) as caught:
        next(it)
    assert "no further one is taken before it is read: read the children in step" in str(caught.value)
    # zip has given up that row: the other child was read up to its end, and nothing was lost.
    assert next(it) == ([1, 2, odd, 4], [5])


def test_a_full_disk_stops_who_is_ahead_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = BufferBounds(1, None, str(tmp_path), ".fork(2)")
    queue = SpillQueue(room)
    for x in range(3):
        queue.append(x)
    queue.settle()
    write = os.pwrite

    def half(fd: int, data: Any, at: int) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data[:10], at)

    monkeypatch.setattr(os, "pwrite", half)
    queue.append(3)
    queue.settle()
    assert queue.refusal is not None
    with pytest.raises(OSError, match=r"No space left on device, while \.fork\(2\) spilled an element") as caught:
        raise queue.refusal()
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    queue.append(4)
    assert [queue.popleft() for _ in range(4)] == [0, 1, 2, 3]
    assert queue.refusal is None
    assert queue.popleft() == 4
    queue.clear()


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    a, b = IterableWrapper(range(9)).fork(2, buffer_size=1, spill_dir=folder)
    folder.rmdir()
    found = outcomes(a.concat(b), most=3)
    assert found[:2] == [0, 1]
    assert found[2].startswith("FileNotFoundError")
    assert str(folder) in found[2]


def test_children_in_threads_spill_too(tmp_path: Path) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        a, b = IterableWrapper(range(2000)).fork(2, buffer_size=1, spill_dir=tmp_path)
        assert list(a.prefetch(40).zip(b.prefetch(50))) == [(x, x) for x in range(2000)]
        a, b = IterableWrapper(range(2000)).demux(2, lambda x: x % 2, buffer_size=1, spill_dir=tmp_path)
        assert list(a.prefetch(40).zip(b.prefetch(50))) == [(x, x + 1) for x in range(0, 2000, 2)]
    finally:
        sys.setswitchinterval(interval)


def test_bytes_bound_what_waits() -> None:
    a, b = texts(20).fork(2, buffer_bytes=5000)
    found = outcomes(a.concat(b), most=7)
    assert len([x for x in found if x.startswith("x")]) == 5
    assert found[5].startswith(
        "BufferError: fork buffer overflow: .fork(2, buffer_bytes=5000) keeps up to 1000 elements"
    )
    assert "and 5000 bytes, and child 1 lags behind by 5 elements (52" in found[5]
    assert "raise buffer_size or buffer_bytes, or set spill_dir=" in found[5]
    a, b = texts(20).fork(2, buffer_bytes=5000, buffer_size=-1)
    assert len(list(a.batch(4).zip(b.batch(4)))) == 5


def test_bytes_bound_all_that_demux_keeps() -> None:
    a, b, c = texts(20).demux(3, lambda x: int(x[1000:]) % 3, buffer_bytes=5000)
    found = outcomes(a.concat(b, c), most=9)
    assert [x[1000:] for x in found if x.startswith("x")] == ["0", "3", "6"]
    assert "demux buffer overflow" in found[3]
    assert "and 5000 bytes, and child 1 lags behind by 3 elements (31" in found[3]


def test_unzip_spills_rows(tmp_path: Path) -> None:
    a, b = IterableWrapper([(x, str(x)) for x in range(9)]).unzip(2, buffer_size=2, spill_dir=tmp_path)
    assert list(b.concat(a)) == [*map(str, range(9)), *range(9)]


def test_refused_arguments(tmp_path: Path) -> None:
    source = IterableWrapper(range(3))
    with pytest.raises(BadArgument, match="`buffer_bytes` must be positive, or None for no limit, got 0"):
        source.fork(2, buffer_bytes=0)
    with pytest.raises(BadArgument, match=r"`spill_dir` is not an existing folder: .*nowhere"):
        source.demux(2, int, spill_dir=tmp_path / "nowhere")
    a, _ = source.fork(2, spill_dir="tests")
    assert repr(a) == "IterableWrapper(range(0, 3)).fork(2, spill_dir='tests')[0]"
