"""The phases of a session: each call in each phase does what the table in the head of the module says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from datapipes.description.pipe import operator
from datapipes.errors import StateError
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position import session as module
from datapipes.position.cells import Table
from datapipes.position.iterator import iterate
from datapipes.position.opening import Opening
from datapipes.position.seeds import Run
from datapipes.position.session import Session, SessionPhase, segment

CALLS = ("iterator", "table", "go_to", "fail", "close")
ROW = re.compile(rf"^({'|'.join(phase.name for phase in SessionPhase)}) ", re.MULTILINE)


def table() -> dict[tuple[SessionPhase, str], str]:
    """Return the cells of the table by phase and call."""
    assert module.__doc__ is not None
    head = next(line for line in module.__doc__.splitlines() if line.startswith("phase "))
    assert re.findall(r"(\w+)\(\)", head) == list(CALLS)
    rows = [re.split(r" {2,}", line) for line in module.__doc__.splitlines() if ROW.match(line)]
    return {(SessionPhase[row[0]], call): cell for row in rows for call, cell in zip(CALLS, row[2:], strict=True)}


@operator
class Failing(IterDataPipe[int]):
    """The same elements; for each moment in ``fails``, "start" or an element, the first try raises."""

    source_datapipe: IterDataPipe[int]
    fails: set[object]

    def _open(self, at: Opening) -> Iterator[int]:
        self.raise_at("start")
        return map(self.made, at.source(self.source_datapipe))

    def made(self, number: int) -> int:
        self.raise_at(number)
        return number

    def raise_at(self, moment: object) -> None:
        if moment in self.fails:
            self.fails.remove(moment)
            raise OSError(f"at {moment}")


def numbers(fails: set[object]) -> IterDataPipe[int]:
    return Failing(IterableWrapper(range(4)), fails)


def session_in(phase: SessionPhase) -> tuple[Session, set[object], list[int]]:
    """Return a session in a phase, what fails in its graph, and the elements that are left."""
    fails: set[object] = {"start"} if phase is SessionPhase.STUCK else {1} if phase is SessionPhase.FAILED else set()
    session = Session.of(numbers(fails), Run(seed=0))
    if phase is SessionPhase.STUCK:
        with pytest.raises(OSError, match="at start"):
            session.iterator()
    elif phase is SessionPhase.OPEN:
        assert next(session.iterator()) == 0
    elif phase is SessionPhase.FAILED:
        with pytest.raises(OSError, match="at 1"):
            list(segment(session))
    elif phase is SessionPhase.ENDED:
        assert len(list(segment(session))) == 4
    assert session.phase is phase
    left = {SessionPhase.OPEN: [1, 2, 3], SessionPhase.FAILED: [2, 3], SessionPhase.ENDED: []}
    return session, fails, left.get(phase, [0, 1, 2, 3])


POSITION: Table = iterate(numbers(set())).state_dict()["cells"]


def call(session: Session, name: str) -> object:
    calls: dict[str, Callable[[], Any]] = {
        "iterator": session.iterator,
        "table": session.table,
        "go_to": lambda: session.go_to(session.run, POSITION),
        "fail": lambda: session.fail(OSError("elsewhere")),
        "close": session.close,
    }
    return calls[name]()


def test_each_phase_has_a_row() -> None:
    assert {phase for phase, _ in table()} == set(SessionPhase)


@pytest.mark.parametrize(("phase", "name"), table(), ids=lambda value: getattr(value, "name", value))
def test_a_call_does_what_the_table_says(phase: SessionPhase, name: str) -> None:
    says = table()[phase, name]
    session, _, left = session_in(phase)
    started, restarts = session.opened, session.restarts
    if says == "refused":
        with pytest.raises(StateError, match="before the first element"):
            call(session, name)
        assert session.phase is phase
    else:
        call(session, name)
        what, _, after = says.rpartition(": ")
        assert session.phase is SessionPhase[after]
        if what:
            assert session.restarts - restarts == (what == "starts again")
            assert (session.opened is started) == (what in ("goes on", "at its end"))
    assert list(session.iterator()) == ([] if session.ended else left)
    session.close()


@pytest.mark.parametrize("name", ["iterator", "table", "go_to"])
@pytest.mark.parametrize("phase", [SessionPhase.NEW, SessionPhase.STUCK, SessionPhase.FAILED])
def test_a_stage_that_cannot_start(phase: SessionPhase, name: str) -> None:
    if table()[phase, name] == "refused":
        return
    session, fails, left = session_in(phase)
    fails.add("start")
    with pytest.raises(OSError, match="at start"):
        call(session, name)
    assert session.phase is (SessionPhase.STUCK if phase is SessionPhase.NEW else phase)
    assert list(session.iterator()) == left
    session.close()


def test_the_end_of_the_stream_or_no_position_ends_a_session() -> None:
    session = Session.of(IterableWrapper(range(2)), Run(seed=0))
    assert list(segment(session)) == [0, 1]
    assert session.phase is SessionPhase.ENDED
    session = Session.of(IterableWrapper(range(2)), Run(seed=0))
    session.go_to(session.run, None)
    assert session.phase is SessionPhase.ENDED
    assert list(segment(session)) == []


def test_a_session_that_is_closed_in_mid_stream_has_ended() -> None:
    session = Session.of(IterableWrapper(range(2)), Run(seed=0))
    elements = segment(session)
    next(elements)
    session.close()
    session.fail(OSError())
    assert session.phase is SessionPhase.ENDED
    assert list(session.iterator()) == []
