"""A program's handlers of signals run in the program alone; the law of services sends the signals themselves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from datapipes.errors import WorkerDied
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, WorkerInfo
from tests.interruptions import Sender, ignored
from tests.reading_services.workers.in_turn import processes
from tests.reading_services.workers.signal_handlers import HANDLED, Dispositions, of_the_program, program_handles

LOADERS, EPOCHS = 10, 20
STARTING, OPENING = 0.03, 0.003  # seconds of the first epoch and of the next ones, on a quiet machine
METHODS = ("fork", "spawn", "forkserver")
DEFAULT = ("SIG_DFL", "SIG_DFL")


@pytest.mark.parametrize("method", METHODS)
def test_workers_and_the_dispatcher_have_the_defaults(method: str) -> None:
    tells = Dispositions()
    graph = IterableWrapper(range(2)).map(tells).sharding_round_robin_dispatch().map(lambda seen: (seen, tells(seen)))
    service = MultiProcessingReadingService(1, method)
    with program_handles(), DataLoader2(graph, reading_service=service) as dl:
        for dispatcher, worker in dl:
            assert (dispatcher[:2], worker[:2]) == (DEFAULT, DEFAULT)
            # Modules that are imported there may handle what does not end a process.
            assert method != "fork" or (dispatcher[2], worker[2]) == ("SIG_IGN", "SIG_IGN")


def test_what_the_program_ignores_on_purpose_stays_ignored_but_for_sigterm() -> None:
    graph = IterableWrapper([0]).sharding_filter().map(Dispositions())
    with program_handles(signal.SIG_IGN), DataLoader2(graph, reading_service=_one_worker()) as dl:
        assert list(dl) == [("SIG_DFL", "SIG_IGN", "SIG_IGN")]


def _handles_sigterm(graph: Any, info: WorkerInfo) -> Any:
    signal.signal(signal.SIGTERM, of_the_program)
    return graph


def test_a_handler_of_worker_init_fn_stays() -> None:
    graph = IterableWrapper([0]).sharding_filter().map(Dispositions())
    service = _one_worker(worker_init_fn=_handles_sigterm)
    with program_handles(), DataLoader2(graph, reading_service=service) as dl:
        assert list(dl) == [("of_the_program", "SIG_DFL", "SIG_IGN")]


def _one_worker(**options: Any) -> MultiProcessingReadingService:
    return MultiProcessingReadingService(1, "fork", **options)


def test_the_program_hears_signals_again_when_a_worker_has_started() -> None:
    graph = IterableWrapper(range(4)).sharding_filter()
    with DataLoader2(graph, reading_service=_one_worker()) as dl:
        list(dl)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()).isdisjoint({signal.SIGINT, *HANDLED})


def _is_told_in_a_fork() -> None:
    if _tells_forks:
        os.kill(os.getpid(), _tells_forks[-1])


_tells_forks: list[signal.Signals] = []
os.register_at_fork(after_in_child=_is_told_in_a_fork)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_right_after_the_fork(number: signal.Signals) -> None:
    """Before a line of the worker's main function has run."""
    graph = IterableWrapper(range(4)).sharding_filter()
    _tells_forks.append(number)
    try:
        died = pytest.raises(WorkerDied, match=f"was ended by {number.name}")
        with program_handles(), DataLoader2(graph, reading_service=_one_worker()) as dl, died:
            next(iter(dl))
    finally:
        _tells_forks.clear()


class Stuck:
    """A function that hangs from an element on."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, x: int) -> int:
        if x:
            self.path.touch()
            threading.Event().wait()
        return x


def test_ending_a_worker_that_hangs_leaves_the_programs_checkpoint(tmp_path: Path) -> None:
    model, checkpoint = ["as it was at the fork"], tmp_path / "checkpoint"

    def save(*_: object) -> None:
        checkpoint.write_text(model[0])

    graph = IterableWrapper(range(4)).sharding_filter().map(Stuck(tmp_path / "stuck"))
    with program_handles(save):
        dl = DataLoader2(graph, reading_service=_one_worker(timeout=60))
        assert next(iter(dl)) == 0
        model[0] = "trained"
        save()
        dl.shutdown()
    assert checkpoint.read_text() == "trained"


def test_ctrl_c_while_workers_begin_opens_none_of_them_twice() -> None:
    """Before, at and after the first element; it costs none."""
    random, came = Random(0), 0
    graph = IterableWrapper(range(60)).sharding_filter()
    with Sender() as sender:
        for _ in range(LOADERS):
            with DataLoader2(graph, reading_service=processes(2)) as dl:
                for longest in (STARTING, *[OPENING] * EPOCHS):
                    iterator, given = iter(dl), list[int]()
                    came += _interrupted(sender, random.uniform(0, longest), iterator, given)
                    given.extend(iterator)
                    assert given == list(range(60))
    assert came > 0


def _interrupted(sender: Sender, after: float, iterator: Iterator[int], given: list[int]) -> bool:
    """Whether Ctrl-C came before all was given."""
    before = signal.signal(signal.SIGINT, ignored)
    sender.send(after)
    try:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            given.extend(iterator)
        finally:
            signal.signal(signal.SIGINT, ignored)
    except KeyboardInterrupt:
        return True
    finally:
        sender.wait()
        signal.signal(signal.SIGINT, before)
    return False


def test_a_worker_does_not_wake_the_programs_event_loop() -> None:
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    os.set_blocking(writes, False)
    before = signal.set_wakeup_fd(writes)
    try:
        graph = IterableWrapper(range(4)).sharding_filter().map(_signals_itself)
        with DataLoader2(graph, reading_service=_one_worker()) as dl:
            assert list(dl) == [-1] * 4
        woken_by = b""
        with suppress(BlockingIOError):
            woken_by = os.read(reads, 100)
        assert signal.SIGUSR2 not in woken_by
    finally:
        signal.set_wakeup_fd(before)
        os.close(reads)
        os.close(writes)


def _signals_itself(x: int) -> int:
    signal.signal(signal.SIGUSR2, lambda *_: None)
    signal.raise_signal(signal.SIGUSR2)
    return signal.set_wakeup_fd(-1)
