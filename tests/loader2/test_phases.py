"""The tables of phases at the head of the loader and of its service's run: each call does what its cell says."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any, ClassVar

import pytest

from datapipes.description import structure
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2, DataLoader2Iterator, loader, service_run
from loader2.epochs import Epochs
from loader2.loader import LoaderPhase
from loader2.service_run import ServicePhase, ServiceRun
from reading_services import CheckpointableReadingServiceInterface

Elements = DataLoader2Iterator[int]


def table_of(module: ModuleType) -> list[tuple[str, str, str]]:
    """Return the phase, the call and the text of each cell, but for those of the meaning."""
    _, head, rows, *_ = re.split(r"\n=[= ]+\n", module.__doc__ or "")
    names = re.split(r"\s{2,}", head.strip())
    cells = [dict(zip(names, re.split(r"\s{2,}", row), strict=True)) for row in rows.split("\n")]
    return [(row["phase"], name, row[name]) for row in cells for name in names if name not in ("phase", "meaning")]


def graph() -> IterDataPipe[int]:
    return IterableWrapper(range(6)).shuffle()


# -- the loader --------------------------------------------------------------------------------------------------------


def loader_in(phase: LoaderPhase) -> tuple[DataLoader2[int], Elements]:
    """Return a loader in a phase, and its latest iterator."""
    made = DataLoader2(graph())
    state = made.state_dict()
    elements = iter(made)
    match phase:
        case LoaderPhase.NEW:
            made.load_state_dict(state)
        case LoaderPhase.RUNNING | LoaderPhase.CUT:
            next(elements)
        case LoaderPhase.ENDED | LoaderPhase.CLOSED:
            list(elements)
    if phase in (LoaderPhase.CLOSED, LoaderPhase.CUT):
        made.shutdown()
    assert made.phase is phase
    return made, elements


def do_iter(made: DataLoader2[int], elements: Elements) -> str:
    before = made._session
    iter(made)
    assert made.phase is LoaderPhase.READY
    return "stays" if made._session is before else "opens"


def do_next(made: DataLoader2[int], elements: Elements) -> str:
    try:
        next(elements)
    except StopIteration:
        return "ends"
    assert made.phase is LoaderPhase.RUNNING
    return "gives"


def do_seed(made: DataLoader2[int], elements: Elements) -> str:
    before = made.phase
    made.seed(7)
    assert made.phase is before
    if before in (LoaderPhase.CLOSED, LoaderPhase.CUT):
        return "later"
    seeded = DataLoader2(graph())
    seeded.seed(7)
    assert list(made) == list(seeded)
    return "later"


def do_set_epoch(made: DataLoader2[int], elements: Elements) -> str:
    before = made.phase
    made.set_epoch(4)
    assert made.phase is before
    if made.epoch == 4:
        return "moves"
    if before not in (LoaderPhase.CLOSED, LoaderPhase.CUT):
        assert [made.epoch for _ in made] == [4] * 6
    return "later"


def do_state_dict(made: DataLoader2[int], elements: Elements) -> str:
    return "position" if made.state_dict()["status"] == "running" else "between"


def do_load_state_dict(made: DataLoader2[int], elements: Elements) -> str:
    for phase, expected in ((LoaderPhase.RUNNING, LoaderPhase.READY), (LoaderPhase.ENDED, LoaderPhase.NEW)):
        made.load_state_dict(loader_in(phase)[0].state_dict())
        assert made.phase is expected
    return "loads"


def do_shutdown(made: DataLoader2[int], elements: Elements) -> str:
    made.shutdown()
    return made.phase.name


OF_THE_LOADER = table_of(loader)
CALLS = {
    "iter": do_iter,
    "next": do_next,
    "seed": do_seed,
    "set_epoch": do_set_epoch,
    "state_dict": do_state_dict,
    "load_state_dict": do_load_state_dict,
    "shutdown": do_shutdown,
}


def test_the_table_of_the_loader_is_complete() -> None:
    assert {(phase, call) for phase, call, _ in OF_THE_LOADER} == {
        (phase.name, call) for phase in LoaderPhase for call in CALLS
    }


@pytest.mark.parametrize(("phase", "call", "expected"), OF_THE_LOADER)
def test_a_call_of_the_loader_does_what_the_table_says(phase: str, call: str, expected: str) -> None:
    made, elements = loader_in(LoaderPhase[phase])
    if expected == "refused":
        with pytest.raises(RuntimeError, match=r"shut down|invalidated|already been asked"):
            CALLS[call](made, elements)
        assert made.phase is LoaderPhase[phase]
    else:
        assert CALLS[call](made, elements) == expected


def test_an_epoch_without_elements_ends_when_the_first_one_is_asked_for() -> None:
    made: DataLoader2[int] = DataLoader2(IterableWrapper([]))
    assert (made.phase, list(made), made.phase) == (LoaderPhase.NEW, [], LoaderPhase.ENDED)


# -- its service -------------------------------------------------------------------------------------------------------


class Recorded(CheckpointableReadingServiceInterface):
    """A service that lists its calls."""

    calls: ClassVar[list[str]] = []
    fails = False

    def initialize(self, datapipe: Any) -> Any:
        self.calls.append("initialize")
        if self.fails:
            raise OSError("no workers")
        return datapipe

    def restore(self, datapipe: Any, serialized_state: bytes) -> Any:
        self.calls.append("restore")
        return datapipe

    def planned(self, datapipe: Any) -> Any:
        self.calls.append("planned")
        return datapipe

    def checkpoint(self) -> bytes:
        return b"1"

    def finalize_iteration(self) -> None:
        self.calls.append("finalize_iteration")

    def finalize(self) -> None:
        self.calls.append("finalize")
        if self.fails:
            raise AttributeError("workers")


def service_in(phase: ServicePhase) -> ServiceRun:
    """Return the run of a service in a phase."""
    run = ServiceRun(structure.walk(graph()), Recorded())
    if phase is ServicePhase.STARTING:
        run.service.fails = True  # type: ignore[union-attr]  # it is a Recorded
        with pytest.raises(OSError, match="no workers"):
            run.open(Epochs().following(), None, False)
    elif phase is ServicePhase.STARTED:
        run.open(Epochs().following(), None, False)
    assert run.phase is phase
    Recorded.calls.clear()
    return run


def call_planned(run: ServiceRun) -> str:
    run.planned()
    return "asks" if Recorded.calls == ["planned"] else "graph"


def call_open(run: ServiceRun) -> str:
    run.service.fails = False  # type: ignore[union-attr]  # it is a Recorded
    run.open(Epochs().following(), None, False)
    assert run.phase is ServicePhase.STARTED
    return "starts" if Recorded.calls == ["initialize"] else "opens"


def call_load(run: ServiceRun) -> str:
    before = run.phase
    run.load(None)
    assert (run.phase, Recorded.calls) == (before, [])
    if before is ServicePhase.STARTED:
        run.load(b"1")
        assert (run.phase, Recorded.calls) == (before, [])
    else:
        assert run.state() == b"1"
    run.service.fails = False  # type: ignore[union-attr]  # it is a Recorded
    run.load(b"2")
    assert (run.phase, run.state()) == (ServicePhase.NEW, b"2")
    return "resets" if Recorded.calls == ["finalize"] else "keeps"


def call_finalize(run: ServiceRun) -> str:
    run.finalize()
    if run.phase is ServicePhase.STARTED:
        run.service.fails = True  # type: ignore[union-attr]  # it is a Recorded
        with pytest.raises(AttributeError, match="workers"):
            run.finalize()
    return {0: "nothing", 2: "tolerates", 4: "ends"}[len(Recorded.calls)]


OF_THE_SERVICE = table_of(service_run)
SERVICE_CALLS = {"planned": call_planned, "open": call_open, "load": call_load, "finalize": call_finalize}


def test_the_table_of_the_service_is_complete() -> None:
    assert {(phase, call) for phase, call, _ in OF_THE_SERVICE} == {
        (phase.name, call) for phase in ServicePhase for call in SERVICE_CALLS
    }


@pytest.mark.parametrize(("phase", "call", "expected"), OF_THE_SERVICE)
def test_a_call_of_the_service_does_what_the_table_says(phase: str, call: str, expected: str) -> None:
    assert SERVICE_CALLS[call](service_in(ServicePhase[phase])) == expected
