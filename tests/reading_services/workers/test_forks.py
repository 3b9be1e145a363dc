"""A fork of the process that iterates is refused, and disturbs nothing, whatever it does and however it ends.

Each test runs a program of its own, because a fork of a process with threads is no place for a test runner.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from datapipes.errors import WorkersLeft
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import ThreadingReadingService
from tests.preloaded import Preloaded

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import gc, os, sys, warnings
warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)  # that is what it tries
import torch
import torch.distributed as dist
from datapipes.errors import ForkedIteration
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import DistributedReadingService, MultiProcessingReadingService, ThreadingReadingService
from reading_services.ipu import AsynchronousDataAccessor, SharingStrategy


def full(x):
    return torch.full((20_000,), x)


async def later(x):
    return x


def same(x):
    return x


def beside_another():
    # whose position cannot be looked at in between
    ahead, other = IterableWrapper(range(LENGTH)).map(full).fork(2)
    return ahead.prefetch(10).zip(other).map(lambda pair: pair[0])


def numbers(stream):
    return [int(x[0]) for x in stream]


def refused(begin):
    seen = []
    for _ in range(2):
        try:
            stream = begin()
            for _ in range(200):
                seen.append(next(stream))
        except ForkedIteration:
            continue
        raise AssertionError("nothing was refused")
    assert seen == [] or not in_threads


def goes_on():
    refused(lambda: it)


def begins_anew():
    if kind in PIPES:
        assert numbers(loaded) == list(range(LENGTH))
    else:
        refused(lambda: iter(loaded))


def saves_and_closes():
    if kind == "accessor":
        loaded.terminate()
    elif kind in PIPES:
        try:
            state = it.state_dict()
        except ForkedIteration:
            state = None
        it.close()
        if state is not None:
            again = iter(loaded)
            again.load_state_dict(state)
            assert numbers(again) == list(range(LENGTH))[len(kept):]
    else:
        loaded.state_dict()
        loaded.shutdown()


def drops():
    global it, loaded, kept
    del it, loaded, kept
    gc.collect()


def only_leaves():
    pass


LENGTH = 100
PIPES = {
    "prefetch": lambda: IterableWrapper(range(LENGTH)).map(full).prefetch(10),
    "prefetch beside another reader": beside_another,
    "timeout": lambda: IterableWrapper(range(LENGTH)).map(full).timeout(60),
    "threadpool_map": lambda: IterableWrapper(range(LENGTH)).map(full).threadpool_map(same, max_workers=2),
    "async_map_batches": lambda: IterableWrapper(range(LENGTH)).map(full).async_map_batches(later, batch_size=1),
}
kind, meeting = sys.argv[1:]
in_threads = kind in PIPES or kind == "ranks"
graph = IterableWrapper(range(LENGTH)).sharding_filter().map(full)
other = None
if kind in PIPES:
    loaded = PIPES[kind]()
elif kind == "accessor":
    loaded = AsynchronousDataAccessor([full(x) for x in range(LENGTH)], sharing_strategy=SharingStrategy.Fork)
elif kind == "ranks":
    warnings.filterwarnings("ignore", "a graph without sharding_filter")
    other = os.fork()
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=int(other == 0), world_size=2)
    loaded = DataLoader2(IterableWrapper(range(LENGTH)).map(full), reading_service=DistributedReadingService(30))
else:
    service = ThreadingReadingService(2) if kind == "threads" else MultiProcessingReadingService(2, "fork")
    loaded = DataLoader2(graph, reading_service=service)
it = iter(loaded)
kept = []
for what in (goes_on, begins_anew, saves_and_closes, drops, only_leaves) if other != 0 else ():
    kept.append(next(it))
    if (child := os.fork()) == 0:
        what()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0, what
while (element := next(it, None)) is not None:  # `for` would begin an accessor anew
    kept.append(element)
assert numbers(kept) == list(range(LENGTH)) == [int(x[-1]) for x in kept]
if other is not None:
    loaded.shutdown()
    dist.destroy_process_group()
if other:
    assert os.waitpid(other, 0)[1] == 0
"""

KINDS = [
    "processes",
    "threads",
    "accessor",
    "prefetch",
    "prefetch beside another reader",
    "timeout",
    "threadpool_map",
    "async_map_batches",
    "ranks",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_disturbs_nothing(kind: str, tmp_path: Path, preloaded: Preloaded) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ended = preloaded.ran(program, kind, str(tmp_path / "meeting"), cwd=ROOT, seconds=500)
    assert (ended.code, ended.err) == (0, "")


SERVER = """
import multiprocessing
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from reading_services.ipu import AsynchronousDataAccessor, SharingStrategy
from torch import tensor


def nothing():
    pass


class Loaded:
    def __len__(self):
        return 4

    def __iter__(self):
        graph = IterableWrapper(range(4)).sharding_filter().map(tensor)
        with DataLoader2(graph, reading_service=MultiProcessingReadingService(2)) as loader:
            yield from loader


if __name__ == "__main__":
    multiprocessing.set_start_method("forkserver")
    process = multiprocessing.Process(target=nothing)
    process.start()
    process.join()
    accessor = AsynchronousDataAccessor(Loaded(), sharing_strategy=SharingStrategy.Fork, load_indefinitely=False)
    assert [int(x) for x in accessor] == [0, 1, 2, 3]
    accessor.terminate()
"""


def test_a_fork_with_workers_has_a_fork_server_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SERVER)
    ran = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_whoever_waits_for_a_thread_is_told_when_the_loader_is_shut_down() -> None:
    reached, release = threading.Event(), threading.Event()
    found: list[BaseException] = []

    def stuck(x: int) -> int:
        reached.set()
        release.wait(30)
        return x

    loader = DataLoader2(
        IterableWrapper(range(4)).sharding_filter().map(stuck), reading_service=ThreadingReadingService(2)
    )
    crew_of = loader.reading_service
    iterator = iter(loader)

    def take() -> None:
        try:
            next(iterator)
        except BaseException as error:
            found.append(error)

    taker = threading.Thread(target=take)
    taker.start()
    reached.wait(30)
    vars(crew_of)["_pool"].close()
    taker.join(300)
    release.set()
    assert not taker.is_alive()
    assert [type(error) for error in found] == [WorkersLeft]
    loader.shutdown()
