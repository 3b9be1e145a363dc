"""check_service: faults that authors make in a reading service are each caught by the law that they break."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from datapipes.errors import BadArgumentType
from datapipes.graph import Pipe, find_dps, traverse_dps
from datapipes.iter import IterDataPipe, Shuffler
from datapipes.position.seeds import Run
from loader2.testing import LawBroken, check_service
from reading_services import (
    MultiProcessingReadingService,
    ReadingServiceInterface,
    ThreadingReadingService,
)

LEFT: list[Callable[[], Any]] = []
"""What culprits leave behind, as functions that take it away."""


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    while LEFT:
        LEFT.pop()()


class RunningAhead(ReadingServiceInterface):
    """It breaks no law."""

    def initialize(self, datapipe: Pipe) -> Pipe:
        return datapipe.prefetch(2)


class Stage(IterDataPipe[Any]):
    """A stage that a service puts behind a graph."""

    def __init__(self, source: Pipe) -> None:
        self.source = source


class Placing(ReadingServiceInterface):
    """It puts a stage behind the graph."""

    stage: type[Stage]

    def initialize(self, datapipe: Pipe) -> Pipe:
        return self.stage(datapipe)


class LosesAtErrors(Placing):
    """It loses the element behind one that fails."""

    class stage(Stage):
        def __iter__(self) -> Iterator[Any]:
            self.elements = iter(self.source)
            return self

        def __next__(self) -> Any:
            try:
                return next(self.elements)
            except ValueError:
                next(self.elements, None)
                raise


class Hides(Placing):
    """It leaves out what fails, and says nothing."""

    class stage(Stage):
        def __iter__(self) -> Iterator[Any]:
            self.elements = iter(self.source)
            return self

        def __next__(self) -> Any:
            while True:
                try:
                    return next(self.elements)
                except ValueError:
                    continue


class Doubles(Placing):
    """It gives the last element again when it is resumed."""

    class stage(Stage):
        last: tuple[Any, ...] = ()

        def __iter__(self) -> Iterator[Any]:
            yield from self.last
            for element in self.source:
                self.last = (element,)
                yield element

        def state_dict(self) -> dict[str, Any]:
            return {"last": self.last}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.last = tuple(state["last"])


class TurnsAround(Placing):
    """It gives the elements in another order."""

    class stage(Stage):
        def __iter__(self) -> Iterator[Any]:
            yield from reversed(list(self.source))


class LeavesOut(Placing):
    """It leaves out the first element."""

    class stage(Stage):
        def __iter__(self) -> Iterator[Any]:
            yield from islice(self.source, 1, None)


class IgnoresTheSeed(ReadingServiceInterface):
    """It has a seed of its own."""

    def initialize(self, datapipe: Pipe) -> Pipe:
        return datapipe

    def agree(self, run: Run, resumed: bool) -> Run:
        return replace(run, seed=5)


class IgnoresTheEpoch(IgnoresTheSeed):
    """All of its epochs are alike."""

    def agree(self, run: Run, resumed: bool) -> Run:
        return replace(run, epoch=0)


class OneOrder(IgnoresTheSeed):
    """It takes shuffling away."""

    def initialize(self, datapipe: Pipe) -> Pipe:
        for shuffler in find_dps(traverse_dps(datapipe), Shuffler):
            shuffler.set_shuffle(False)
        return datapipe


class LeavesAProcess(IgnoresTheSeed):
    """It starts a process that it does not end."""

    def initialize(self, datapipe: Pipe) -> Pipe:
        process = subprocess.Popen(["sleep", "60"])
        LEFT.extend([process.wait, process.kill])  # the last one first
        return datapipe

    def agree(self, run: Run, resumed: bool) -> Run:
        return run


class LeavesAThread(LeavesAProcess):
    """It starts a thread that it does not end."""

    def initialize(self, datapipe: Pipe) -> Pipe:
        done = threading.Event()
        LEFT.append(done.set)
        threading.Thread(target=done.wait, name="left alone").start()
        return datapipe


def _says_that_it_runs(runs: int) -> None:
    os.write(runs, b".")
    threading.Event().wait(60)  # up to a signal


class LeavesHandlers(LeavesAProcess):
    """It starts a process that handles signals as the program does."""

    def initialize(self, datapipe: Pipe) -> Pipe:
        waits, runs = os.pipe()
        self.process = multiprocessing.get_context("fork").Process(target=_says_that_it_runs, args=(runs,))
        self.process.start()
        assert os.read(waits, 1)
        os.close(waits)
        os.close(runs)
        return datapipe

    def finalize(self) -> None:
        self.process.kill()
        self.process.join()


class HandsOnTheOld(ReadingServiceInterface):
    """What it has made for an epoch that was left comes in the next one."""

    def initialize(self, datapipe: Pipe) -> Pipe:
        return Old(datapipe, [])


class Old(Stage):
    """It is one element ahead, and knows nothing of epochs."""

    def __init__(self, source: Pipe, held: list[Any]) -> None:
        super().__init__(source)
        self.held = held

    def __iter__(self) -> Iterator[Any]:
        for element in self.source:
            self.held.append(element)
            if len(self.held) > 1:
                yield self.held.pop(0)
        while self.held:
            yield self.held.pop()


class InPairs(ReadingServiceInterface):
    """It gives pairs, and says how many."""

    def initialize(self, datapipe: Pipe) -> Pipe:
        return datapipe.batch(2)

    planned = initialize


@pytest.mark.parametrize(
    ("law", "culprit", "where"),
    [
        ("same elements", LeavesOut, "epoch 0"),
        ("same elements", TurnsAround, "epoch 0"),
        ("same seed", IgnoresTheSeed, "three epochs, and those in this process"),
        ("same seed", IgnoresTheEpoch, "three epochs, and those in this process"),
        ("same seed", OneOrder, "three epochs, and those in this process"),
        ("quiet close", LeavesAProcess, "processes that run"),
        ("quiet close", LeavesAThread, "threads that run: left alone"),
        ("quiet close", HandsOnTheOld, "the epoch after one that was left"),
        ("signals", LeavesHandlers, "the program's handler of SIGTERM ran"),
        ("resume", Doubles, "epoch 0, after 1 elements: epoch 0 after loading"),
        ("errors", LosesAtErrors, "raises on 0: the elements delivered"),
        ("errors", Hides, "raises on 0: no exception"),
    ],
)
def test_a_fault_is_caught_by_its_law(law: str, culprit: type[ReadingServiceInterface], where: str) -> None:
    with pytest.raises(LawBroken) as caught:
        check_service(culprit)
    assert (caught.value.law, where in caught.value.where) == (law, True), caught.value


@pytest.mark.parametrize(
    "make",
    [
        RunningAhead,
        lambda: ThreadingReadingService(2),
    ],
)
def test_a_service_that_keeps_every_law_passes(make: Callable[[], ReadingServiceInterface]) -> None:
    check_service(make)


def test_worker_processes_give_what_this_process_gives() -> None:
    # The other laws are tried on them with the catalogue.
    check_service(lambda: MultiProcessingReadingService(2, "fork"), laws=["same elements", "honest len"])


def test_a_service_may_give_other_elements_on_purpose() -> None:
    check_service(InPairs, regroups=True)
    with pytest.raises(LawBroken, match="breaks the law 'same elements'"):
        check_service(InPairs)


def test_a_service_that_was_made_already_is_refused() -> None:
    made: Any = RunningAhead()
    with pytest.raises(BadArgumentType, match=r"check_service\(RunningAhead\), or a function"):
        check_service(made)


class FirstTen(ReadingServiceInterface):
    """It leaves out elements where there are many, and does not say so beforehand."""

    def initialize(self, datapipe: Pipe) -> Pipe:
        return datapipe.header(10)


class FirstTenAsPlanned(FirstTen):
    """It says so beforehand."""

    def planned(self, datapipe: Pipe) -> Pipe:
        return datapipe.header(10)


def test_a_service_that_cuts_long_streams_is_found() -> None:
    with pytest.raises(LawBroken) as caught:
        check_service(FirstTen)
    assert caught.value.law == "same elements"
    with pytest.raises(LawBroken) as caught:
        check_service(FirstTen, regroups=True)
    assert caught.value.law == "honest len"
    assert "planned()" in str(caught.value)
    check_service(FirstTenAsPlanned, regroups=True)
