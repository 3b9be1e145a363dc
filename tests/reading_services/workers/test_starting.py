"""Workers that cannot start: the caller gets the reason, whatever else happens meanwhile."""

from __future__ import annotations

import errno
import multiprocessing
import os
import select
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest

from datapipes.errors import WorkerDied, WorkerTimeout
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from datapipes.position.seeds import Run
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, WorkerInfo
from reading_services.workers.dispatched import DispatchClient
from reading_services.workers.pool import MemberHost, Number, Pool
from reading_services.workers.process.host import ProcessHost
from reading_services.workers.process.main import could_not_start
from reading_services.workers.process.members import FILES_OF_A_WORKER
from reading_services.workers.restarts import error_of
from reading_services.workers.transport.protocol import Started, ToConsumer, ToProducer, Window, WorkerEnd
from reading_services.workers.worker import Order, PoolSpec
from tests.reading_services.workers.in_turn import HANGS, processes


class LongInEnding(MemberHost):
    """Workers that all say that they cannot start, and take their time to end: they still take messages."""

    members: ClassVar[str] = "workers of a test"

    def __init__(self) -> None:
        self.started = 0
        self._here: list[tuple[Number, ToConsumer]] = []

    def start(self, numbers: Collection[int]) -> None:
        self.started += 1
        for number in numbers:
            error = LookupError(f"worker {number} finds nothing, start {self.started}")
            self._here.append((number, could_not_start(number, f"worker {number}", error)))

    def they_end(self) -> None:
        """Have all end without another frame."""
        self._here = [(number, WorkerEnd(number, f"worker {number}", "left with exit code 0")) for number in (0, 1)]

    def send(self, number: int, frame: ToProducer) -> None:
        pass

    def wait(self, seconds: float | None) -> list[tuple[Number, ToConsumer]] | None:
        came, self._here = self._here, []
        assert came or seconds is not None, "nothing will come any more"
        return came or None

    def wake(self) -> None:
        pass

    def was_woken(self) -> None:
        pass

    def give_up_dispatcher(self) -> list[tuple[Number, ToConsumer]]:
        raise AssertionError

    def stacks_of(self, number: int) -> str:
        raise AssertionError

    def end(self, farewells: Sequence[tuple[int, ToProducer]]) -> None:
        self._here = []

    def close(self) -> None:
        pass


@pytest.fixture
def pool() -> Pool:
    return Pool(PoolSpec(IterableWrapper([]), 2, Window(items=1)), LongInEnding())


ORDERS = [Order(Run(0)), Order(Run(0))]


def test_it_is_told_once_and_tried_again(pool: Pool) -> None:
    for start in (1, 2):
        pool.open(ORDERS)
        end = pool.next_frame([0])
        assert isinstance(end, WorkerEnd)
        assert str(error_of(end)) == f"worker 0 finds nothing, start {start}"
        with pytest.raises(LookupError, match=f"worker 1 finds nothing, start {start}"):
            pool.open(ORDERS)


@pytest.mark.parametrize("ends", [False, True])
def test_another_opening_does_not_cover_it(pool: Pool, ends: bool) -> None:
    """Worker 1 has reported it, and the end of worker 0 was handed on, when the opening is left."""
    pool.open(ORDERS)
    end = pool.next_frame([0])
    assert isinstance(end, WorkerEnd)
    assert end.number == 0
    pool.stop()
    if ends:
        assert isinstance(pool._host, LongInEnding)
        pool._host.they_end()
    with pytest.raises(LookupError, match="worker 1 finds nothing, start 1"):
        pool.open(ORDERS)


class FailsOnce:
    """Sets up a worker; the first one does not come about at its first attempt."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, graph: Any, info: WorkerInfo) -> Any:
        if info.worker_id == 0 and not self.path.exists():
            self.path.touch()
            raise LookupError("not yet")
        return graph


def test_no_element_is_lost_by_it(tmp_path: Path) -> None:
    service = MultiProcessingReadingService(2, "fork", worker_init_fn=FailsOnce(tmp_path / "tried"))
    with DataLoader2(IterableWrapper("abcd").sharding_filter(), reading_service=service) as loader:
        iterator = iter(loader)
        with pytest.raises(LookupError, match="not yet"):
            next(iterator)
        assert list(iterator) == list("abcd")


class NotForTheDispatcher:
    """A function that cannot be unpickled there; it tells at the other end of a pipe which process that is."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, x: int) -> int:
        return x

    def __setstate__(self, state: dict[str, Any]) -> None:
        if multiprocessing.current_process().name == "loader2 dispatcher":
            Path(state["path"]).write_text(str(os.getpid()))
            raise LookupError("no such thing here")
        vars(self).update(state)


class AfterItsEnd:
    """Sets up a worker when the dispatcher has ended, so that this is seen at home before anything that is said."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, graph: Any, info: WorkerInfo) -> Any:
        told = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        assert select.select([told], [], [], 60)[0]
        try:
            ended = os.pidfd_open(int(os.read(told, 20)))
        except ProcessLookupError:
            return graph
        assert select.select([ended], [], [], 20)[0]
        return graph


def test_a_dispatcher_that_cannot_start_says_why(tmp_path: Path) -> None:
    path = str(tmp_path / "told")
    os.mkfifo(path)
    graph = IterableWrapper(range(4)).map(NotForTheDispatcher(path)).sharding_round_robin_dispatch()
    service = MultiProcessingReadingService(1, "forkserver", worker_init_fn=AfterItsEnd(path))
    with DataLoader2(graph, reading_service=service) as loader, pytest.raises(LookupError, match="no such thing here"):
        list(loader)


def leaves(graph: Any, info: WorkerInfo) -> Any:
    os._exit(3)


def test_one_that_has_never_spoken_has_not_begun() -> None:
    service = MultiProcessingReadingService(1, "fork", worker_init_fn=leaves)
    graph = IterableWrapper(range(4)).sharding_filter()
    with DataLoader2(graph, reading_service=service) as loader, pytest.raises(WorkerDied, match="before its first"):
        list(loader)


def starts_too_many() -> str:
    """Start 40 workers with files for fewer, and return why that fails."""
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    graph = IterableWrapper(range(10)).sharding_filter()
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(40)) as loader:
        with pytest.raises(OSError, match="to start") as error:
            list(loader)
        return f"{error.value.errno == errno.EMFILE}: {error.value}"


def test_too_few_files_for_the_workers_are_told_with_the_limit() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        said = process.submit(starts_too_many).result(timeout=300)
    assert said.startswith("True: ")
    assert "to start 40 workers: each needs 7 files in this process, which may have 100 of them (`ulimit -n`)" in said
    assert "Raise that limit, as by `ulimit -n 4096`, or start fewer workers" in said


def test_too_many_processes_are_told_with_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr("reading_services.workers.process.host.begin", refuse)
    graph = IterableWrapper(range(10)).sharding_filter()
    with (
        DataLoader2(graph, reading_service=MultiProcessingReadingService(2)) as loader,
        pytest.raises(BlockingIOError, match=r"no further process for 2 workers\. Look at .*`ulimit -u`.*pids\.max"),
    ):
        list(loader)


def test_a_worker_needs_as_many_files_as_are_told() -> None:
    graph = IterableWrapper(range(10)).sharding_filter()
    used = []
    for workers in (1, 9):
        with DataLoader2(graph, reading_service=MultiProcessingReadingService(workers)) as loader:
            next(iter(loader))
            used.append(len(os.listdir("/proc/self/fd")))
    assert used[1] - used[0] == 8 * FILES_OF_A_WORKER


def stuck(x: int) -> int:
    threading.Event().wait(HANGS)  # an element that hangs
    return x


@pytest.mark.parametrize("dispatched", [False, True])
def test_an_element_that_hangs_is_told_when_the_worker_has_started(
    dispatched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProcessHost, "to_start", 2 * HANGS)
    source = IterableWrapper(range(4))
    graph = source.map(stuck).sharding_round_robin_dispatch() if dispatched else source.sharding_filter().map(stuck)
    with DataLoader2(graph, reading_service=processes(2, timeout=0.2)) as loader:
        for _ in range(2):
            with pytest.raises(WorkerTimeout, match="has sent nothing for"):
                next(iter(loader))


def slowly(pipe: Pipe, info: WorkerInfo) -> Pipe:
    threading.Event().wait(1)  # a start that takes long
    return pipe


def test_a_worker_that_starts_slowly_has_time_for_it() -> None:
    service = processes(2, timeout=0.5, worker_init_fn=slowly)
    with DataLoader2(IterableWrapper(range(4)).sharding_filter(), reading_service=service) as loader:
        assert list(loader) == [0, 1, 2, 3]


class Link:
    """The end of a link with a dispatcher that gives these messages and ends."""

    def __init__(self, *frames: ToConsumer) -> None:
        self.frames = list(frames)

    def send(self, frame: ToProducer) -> None:
        raise AssertionError(frame)

    def receive(self) -> ToConsumer:
        if not self.frames:
            raise EOFError
        return self.frames.pop(0)


def test_a_worker_has_started_when_its_dispatcher_has() -> None:
    asking = DispatchClient()
    asking.wait_for_start()
    for link in (Link(Started()), Link()):
        asking.link = link
        asking.wait_for_start()
        assert link.frames == []
