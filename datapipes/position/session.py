"""Session, one opening of a plan: its iterators, its cells, and how to start again.

A session starts each stage of its plan, inputs first, and gets plain iterators; the last one is the stream. The stages
keep their positions in ``cells``, by place. An exception ends the generators, but not the cells: the stages start again
with these, at the element after the one that failed. The calls in each phase, and the phase afterwards:

======  =============================  ==================  ==================  =======  ======  =======
phase   meaning                        iterator()          table()             go_to()  fail()  close()
======  =============================  ==================  ==================  =======  ======  =======
NEW     no stage has started           starts: OPEN        starts: OPEN        OPEN     STUCK   ENDED
STUCK   a stage could not start        starts again: OPEN  starts again: OPEN  OPEN     STUCK   ENDED
OPEN    all stages have started        goes on: OPEN       goes on: OPEN       refused  FAILED  ENDED
FAILED  an exception ended the stream  starts again: OPEN  starts again: OPEN  refused  FAILED  ENDED
ENDED   at its end, or closed          at its end: ENDED   at its end: ENDED   refused  ENDED   ENDED
======  =============================  ==================  ==================  =======  ======  =======

If a stage cannot start, the call raises: NEW becomes STUCK. ``segment`` calls ``fail``, and ends the session at the end
of the stream. If ``go_to`` gets no table (None), it ends the session.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from enum import Enum
from functools import partial
from types import GeneratorType
from typing import Any

from datapipes.description import structure
from datapipes.errors import ForkedIteration, GraphError, StateError, consumes_element
from datapipes.messages.interrupts import CtrlCWaits, ShortInterrupts, cut
from datapipes.messages.warnings import warn
from datapipes.position import user_classes
from datapipes.position.cells import Cell, Table, held_in, unsavable
from datapipes.position.error_notes import add_note, note_opening
from datapipes.position.on_error import LeftOut, StepErrorsCell
from datapipes.position.opening import Opening
from datapipes.position.plan import Plan
from datapipes.position.seeds import Run
from datapipes.position.session_cells import SessionCells
from datapipes.position.steps import LONGEST, BatchFiller, Step, loop
from datapipes.position.user_positions import ReplayCell, close_unless_stuck

SessionPhase = Enum("SessionPhase", "NEW STUCK OPEN FAILED ENDED")

_AFTER_AN_ERROR = {SessionPhase.NEW: SessionPhase.STUCK, SessionPhase.OPEN: SessionPhase.FAILED}

# A nested stage takes up to three units of Python's recursion limit, and less than a kilobyte of a stack of 8 MiB.
_DEEPEST = 11_000
_UNITS = 3


class _StepChain:
    """Neighbouring steps, collected until another stage reads the last of them. Then they become one loop."""

    __slots__ = ("source", "stages", "steps")

    def __init__(self, source: Iterator[Any]) -> None:
        self.source = source
        self.steps: list[Step] = []
        self.stages: list[structure.Pipe] = []


class Session:
    """A session: one opening of a plan, and the position in it."""

    def __init__(self, plan: Plan, run: Run, saved: Table | None = None) -> None:
        self.plan = plan
        self.run = run
        self.cells = SessionCells(plan, saved)
        self.phase = SessionPhase.NEW
        self.opened: dict[int, Any] = {}  # the result of starting each stage, by its identity
        self.restarts = 0
        self.was_interrupted = False  # whether the last error was Ctrl-C, or another one that is no Exception
        self.asked = False  # whether an element was requested
        self.warns_if_unsavable = False  # whether to warn, at the first element, of a position that cannot be saved
        self.on_stop: Callable[[], object] | None = None  # called when the session ends or meets an exception
        self._refused: tuple[Any, ...] | None = None  # the arguments of the ForkedIteration that a forked process gets
        self._generators: dict[int, list[GeneratorType[Any, Any, Any]]] = {}  # by the identity of their stage
        self._iterator: Iterator[Any] = iter(())

    @classmethod
    def of(
        cls, graph: structure.Pipe, run: Run, saved: Table | None = None, before: Plan | None = None, **how: bool
    ) -> Session:
        """Make a session on a graph, with the plan of an earlier session (``before``) if that is still right."""
        within = run.within(held_in(saved))
        if before is not None and before.graph is graph and not run.hubs:
            return cls(before.again(within), within, saved)
        return cls(Plan(graph, within, run.hubs, **how), within, saved)

    @property
    def ended(self) -> bool:
        """Whether the session is at the end of its stream, or closed."""
        return self.phase is SessionPhase.ENDED

    @property
    def failed(self) -> bool:
        """Whether the stages have to be started again, because of an exception."""
        return self.phase in (SessionPhase.STUCK, SessionPhase.FAILED)

    # -- opening -------------------------------------------------------------------------------------------------------

    def iterator(self) -> Iterator[Any]:
        """Return the iterator over the stream from its position; see the table above."""
        if self._refused is not None:
            raise ForkedIteration(*self._refused)
        if self.phase in (SessionPhase.OPEN, SessionPhase.ENDED):
            return self._iterator
        if self.phase is not SessionPhase.NEW:
            self._close_generators()
            for cell in list(self.cells.values()):
                cell.settle()
            self.plan = self.plan.again(self.run)
            self.restarts += 1
        self._lose_stream()  # until all stages have started
        try:
            self._open_all()
        except BaseException:
            self._stop()
            raise
        self.phase = SessionPhase.OPEN
        return self._iterator

    def _lose_stream(self) -> None:
        self.phase = _AFTER_AN_ERROR.get(self.phase, self.phase)

    def _open_all(self) -> None:
        plan = self.plan
        plan.sources.begin()
        self.cells.begin(plan)
        self.opened = {}
        for stream in plan.read_by_key:  # a map-style pipe iterates it by itself, and has to do so in this run
            stream.__dict__["_run"] = self.run
        plan.seed_draws_by_number(self.run)
        for stage in plan.order:
            if id(stage) not in plan.shards:
                plan.find_shard(stage, self.run)
            try:
                self.opened[id(stage)] = self._open(stage)
            except Exception as error:
                note_opening(error, stage)
                raise
        self._iterator = self.read(plan.end, by=None)
        self._allow_depth()
        self.cells.complete()

    def _open(self, stage: structure.Pipe) -> Any:
        at, plan = Opening(self, stage), self.plan
        if structure.is_hub(stage) and structure.place_of(stage) in plan.enclosing:
            opened: Any = plan.enclosing[structure.place_of(stage)].queues
        elif not plan.is_native(stage):
            opened = user_classes.start(stage, at)
        elif (step := stage._step()) is None:
            opened = stage._open(at)
        else:
            source = plan.inputs(stage)[0]
            opened = self.opened[id(source)]
            if (
                not isinstance(opened, _StepChain)
                or len(opened.steps) == LONGEST
                or self.cells.put_back(stage) is not None
            ):
                opened = _StepChain(at.source(source))
            if stage.on_error != "raise":
                step = at.cell(partial(StepErrorsCell, stage)).tolerant(step)
            opened.steps.append(step)
            opened.stages.append(stage)
        return self._track(opened, stage)

    def elements_of(self, stage: structure.Pipe, groups: BatchFiller | None = None) -> Iterator[Any]:
        """Return the iterator of an opened stage, for its one reader; in batches, if ``groups`` are given."""
        opened = self.opened[id(stage)]
        if isinstance(opened, _StepChain):
            return self._track(loop(opened.source, opened.steps, opened.stages, groups), stage)
        return self._track(opened if groups is None else groups.batches(opened), stage)

    def read(self, stage: structure.Pipe, by: structure.Pipe) -> Iterator[Any]:
        """Return the elements of an opened stage for its one reader, after those that the reader has put back."""
        return self.cells.after_put_back(by, self.elements_of(stage))

    def _track(self, opened: Iterator[Any], stage: structure.Pipe) -> Iterator[Any]:
        """Register a generator of a stage for ``close`` and return it."""
        if isinstance(opened, GeneratorType):
            self._generators.setdefault(id(stage), []).append(opened)
        return opened

    def _allow_depth(self) -> None:
        """Let Python nest as many generators as this graph has stages; by default it stops at a thousand."""
        limit = sys.getrecursionlimit()
        if len(set(map(id, self.opened.values()))) * _UNITS + 600 <= limit:
            return
        depth: dict[int, int] = {}
        for stage in self.plan.order:
            inputs = self.plan.inputs(stage)
            is_joined = any(self.opened[id(each)] is self.opened[id(stage)] for each in inputs)
            nested = not structure.is_hub(stage) and not is_joined
            depth[id(stage)] = max((depth[id(each)] for each in inputs), default=0) + nested
        if (deepest := depth[id(self.plan.end)]) > _DEEPEST:
            raise GraphError(
                f"this graph nests {deepest} stages that each keep a position, more than a stack holds ({_DEEPEST}); "
                "do the work of several stages in one"
            )
        if deepest * _UNITS + 600 > limit:
            sys.setrecursionlimit(deepest * _UNITS + 1600)

    # -- saving and closing --------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """Return the position of every stage."""
        if self.phase is not SessionPhase.OPEN:
            self.iterator()
        return self.cells.table()

    def problem(self) -> str | None:
        """Return why the position cannot be saved, or None. Only a few of the buffered elements are tried."""
        return unsavable(self.cells.in_order)

    def warn_if_unsavable(self) -> None:
        """Warn if the elements in buffers cannot be saved."""
        self.warns_if_unsavable = False
        if (problem := self.problem()) is not None:
            warn(f"{problem}; until then state_dict() raises this, and nothing can be resumed")

    def go_to(self, run: Run, saved: Table | None) -> None:
        """Open at a saved position, or end if there is none; raise StateError if it does not fit the graph."""
        if self.phase not in (SessionPhase.NEW, SessionPhase.STUCK):
            raise StateError("a position can only be loaded before the first element is taken; make a new iterator")
        self.run = replace(run, held=held_in(saved))
        self.cells.saved = saved
        if saved is None:
            self.phase = SessionPhase.ENDED
        else:
            self.plan = self.plan.again(self.run)  # a plan depends on the stages in which a table has elements
            self.iterator()

    def errors(self) -> dict[str, int]:
        """Return the counts of tolerated errors, by the stage as it prints; stages without any are left out."""
        return dict(self.run.errors.counts)

    def close(self) -> None:
        """End all generators, threads and files of this session, the last stage first."""
        self.phase = SessionPhase.ENDED
        with ExitStack() as closing:
            closing.callback(self._stop)
            for iterator in list(self.run.iterators or ()):
                closing.callback(iterator.close)  # after the threads that may be reading from it
            cells = dict(self.cells)
            # Inputs first: the stages above a thread may include another thread.
            for place, cell in self.cells.at(self.plan.keys):
                if cell.above is not None:
                    above = self.plan.read_alone(place)
                    places = dict.fromkeys(place for place in map(structure.place_of, above) if place in cells)
                    self._close_in(cell.above, [cells.pop(place) for place in places], map(id, above))
            self._close_in(closing, cells.values(), list(self._generators))
        self.opened.clear()
        self._iterator = iter(())

    def _stop(self) -> None:
        if self.on_stop is not None:
            self.on_stop()

    def _close_generators(self) -> None:
        with ExitStack() as closing:
            self._close_in(closing, (), list(self._generators))

    def _close_in(self, closing: ExitStack, cells: Iterable[Cell], stages: Iterable[int]) -> None:
        """Register cells and the generators of some stages for closing: the last generator first, then the cells."""
        for cell in cells:
            closing.callback(cell.close)
        for stage in stages:
            for generator in self._generators.pop(stage, ()):
                closing.callback(close_unless_stuck, generator)

    # -- errors and interruptions --------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Add a note to an exception about its origin. The next element starts the stages again."""
        with CtrlCWaits():
            self._lose_stream()
            if isinstance(error, ForkedIteration):
                self._refused = error.args
            self.was_interrupted = not consumes_element(error)
            self.cells.interrupted(error)
        if isinstance(error, Exception):  # and not Ctrl-C, which comes from no stage
            raised = (cell.stage for cell in self.cells.values() if isinstance(cell, ReplayCell) and cell.raised)
            add_note(error, self.plan, self.cells, self.run, next(raised, None))
        self._stop()

    def passes_over(self, error: BaseException | None) -> bool:
        """Return whether to continue after an error without raising it, because it marks a call that is left out.

        If a user's class is about to run again, or to go back, it meets the call again: then the error is raised.
        """
        return isinstance(error, LeftOut) and not any(cell.raises_again for cell in self.cells.values())

    def take_back(self, element: Any) -> None:
        """Give an element again as the next one, for an interrupted stage that reads this session."""
        self.cells.give_back(None, element)
        self._lose_stream()


def segment(session: Session, passes_over: bool = False) -> Iterator[Any]:
    """Yield the elements up to the end of the stream, or up to an exception.

    With ``passes_over``, a call that is left out ends the segment without an exception.
    """
    session.asked = True
    with ShortInterrupts():
        elements = session.iterator()
    try:
        try:
            if session.warns_if_unsavable:
                for element in elements:
                    try:
                        session.warn_if_unsavable()
                    except BaseException:
                        session.cells.give_back(None, element)
                        raise
                    yield element
                    break
            for element in elements:
                yield element
        except GeneratorExit:
            raise
        except BaseException as error:
            session.fail(error)
            if passes_over and session.passes_over(error):
                return
            if isinstance(error, KeyboardInterrupt):
                cut(error)
            raise
    except BaseException as error:
        # If it is OPEN, a second Ctrl-C came before `fail` had begun.
        if session.phase is SessionPhase.OPEN and not isinstance(error, GeneratorExit):
            session.fail(error.__context__ or error)
        raise
    session.phase = SessionPhase.ENDED


def segments(session: Session) -> Iterator[Iterator[Any]]:
    """Return the segments of a stream that continues after its exceptions."""
    return unbroken(lambda _: None if session.ended else segment(session, passes_over=True), ExitStack())


def unbroken(next_part: Callable[[ExitStack], Iterator[Any] | None], closing: ExitStack) -> Iterator[Iterator[Any]]:
    """Return an iterator over the parts of a stream, for ``itertools.chain``. It never raises.

    A chain whose source raises is at its end. So if ``next_part`` raises, for example because of Ctrl-C, the next part
    is one that raises this exception. Then ``next_part`` is called again.

    Args:
        next_part: The function that makes a part. It gets ``closing`` and may add callbacks to it. It returns None at
            the end of the stream.
        closing: Closed at the end, or when the parts are dropped.
    """
    parts = _unbroken(next_part, closing)
    next(parts)  # enter the `try`, which has to catch every signal from now on
    return parts


def _unbroken(next_part: Callable[[ExitStack], Iterator[Any] | None], closing: ExitStack) -> Iterator[Iterator[Any]]:
    part: Iterator[Any] | None = iter(())
    with closing:
        while True:
            try:
                while part is not None:
                    yield part
                    part = next_part(closing)
                return
            except GeneratorExit:
                raise
            except BaseException as error:
                part = _raising(error)


def _raising(error: BaseException) -> Iterator[Any]:
    try:
        raise error
    finally:
        del error  # its traceback holds this frame
    yield
