"""Opening, the context of a stage when it starts: its inputs, its cell, its seed, and the positions above it.

An ``Opening`` belongs to one stage in one session. After an exception the session starts its stages again. So ``_open``
gets a new cell, a cell that was loaded from a state, or its own cell from before the exception. It continues at the
cell's position in all three cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from datapipes.description import structure
from datapipes.errors import StateError, UnsavableElement, consumes_element
from datapipes.position import global_draws
from datapipes.position.cells import AT_START, Cell, Table, table_of, without_streams
from datapipes.position.seeds import Run

if TYPE_CHECKING:
    from datapipes.position.session import Session
    from datapipes.position.session_cells import SessionCells
    from datapipes.position.steps import BatchFiller

C = TypeVar("C", bound=Cell)


class Opening:
    """One stage's view of the session that opens it."""

    __slots__ = ("_session", "pipe", "place")

    def __init__(self, session: Session, pipe: structure.Pipe) -> None:
        self._session = session
        self.pipe = pipe
        self.place = structure.place_of(pipe)

    @property
    def run(self) -> Run:
        """Seed, epoch and shard of this pass."""
        return self._session.run

    def source(self, pipe: structure.Pipe) -> Iterator[Any]:
        """Return the elements of an input from its position on. Elements that this stage has put back come first."""
        return self._session.read(pipe, by=self.pipe)

    def after_put_back(self, elements: Iterator[Any]) -> Iterator[Any]:
        """Return the elements that this stage has put back, followed by ``elements``."""
        return self._session.cells.after_put_back(self.pipe, elements)

    def put_back(self, element: Any) -> None:
        """Put back an element of this stage's only input, to be taken again."""
        self._session.cells.give_back(self.pipe, element)

    def keep(self, element: Any, error: BaseException) -> None:
        """Put back an element of this stage's only input if ``error`` consumes no element."""
        if not (consumes_element(error) or isinstance(error, GeneratorExit)):
            self.put_back(element)

    def grouped(self, pipe: structure.Pipe, groups: BatchFiller) -> Iterator[Any]:
        """Return the elements of an input in batches. If the input is part of a loop, the loop fills the batches."""
        if self._session.cells.put_back(self.pipe) is not None:
            return groups.batches(self.source(pipe))
        return self._session.elements_of(pipe, groups)

    def hub(self, pipe: structure.Pipe) -> Any:
        """Return the opened form of a hub, such as the queues of a fork."""
        return self._session.opened[id(pipe)]

    def is_detached(self) -> bool:
        """Return whether this stage is a hub that several sessions read, with a session of its own for its source."""
        return self.place in self._session.plan.detached

    def enclosing_hub(self, pipe: structure.Pipe) -> Any:
        """Return the opened form of a hub that an enclosing session reads as well, or None."""
        return self._session.plan.enclosing.get(structure.place_of(pipe))

    def readers(self) -> list[structure.Pipe]:
        """Return the children of this stage, a hub, in all sessions."""
        return self._session.plan.children_of(self.pipe)

    def cell(self, make: Callable[[], C]) -> C:
        """Return this stage's cell: a new one, a loaded one, or the one that an exception has left.

        Args:
            make: A function, or a class of cells, that makes a new cell. It is called if there is none.
        """
        cells = self._session.cells
        cell = cells.get(self.place)
        if cell is None:
            cell = make()
            cell.stage = self.pipe
            cell.reopening = cells.plan.reopening
            if cells.saved is not None and self.place in cells.saved:
                saved = cells.saved[self.place]
                try:
                    if saved != AT_START:
                        cell.load(saved)
                except StateError as error:
                    raise StateError(f"the state does not fit stage {self.place}, {cell.label}: {error}") from error
            if cell.faults is not None:
                cell.faults.report_to(self.run.errors)
            cells[self.place] = cell
        return cell  # type: ignore[return-value]  # a place has one stage, and a stage one kind of cell

    @property
    def resumed(self) -> bool:
        """Whether the stage starts again after an exception in its session."""
        return self._session.restarts > 0

    def on_interruption(self, error: BaseException) -> None:
        """Put back the elements that stages had taken when an interruption came in a thread of this stage."""
        self._session.cells.interrupted(error)

    @property
    def interrupted(self) -> bool:
        """Whether the stage starts again after an interruption, which consumes no element."""
        return self._session.was_interrupted

    def closed(self) -> bool:
        """Return whether the session was closed, so that threads may stop their work."""
        return self._session.ended

    def seed(self, pinned: int | None = None) -> int:
        """Return this stage's seed: one derived from ``pinned``, which the user has set, or that of the run."""
        if pinned is not None:
            return self.run.pinned_seed(pinned, self.place)
        return self.run.stage_seed(self.place, self._session.plan.shards[id(self.pipe)])

    def is_private(self) -> bool:
        """Return whether all readers of the stages above are above this stage, too. Only a hub can make this False."""
        return self._session.plan.is_private(self.pipe)

    def above(self) -> PositionsAbove | None:
        """Return the positions of all stages above this one, or None if another stage reads them, too."""
        return PositionsAbove(self._session.cells, self.place) if self.is_private() else None

    def mark(self) -> Callable[[], Table] | None:
        """Return a function that takes a snapshot of the stages above, or None if another stage reads them, too.

        In a worker process the snapshot has the states of the global generators, too.
        """
        above = self.above()
        if above is None or self._session.plan.is_inner:  # an inner session loads no generators
            return None if above is None else above.now
        return lambda: {**above.now(), **global_draws.saved()}

    def is_last(self) -> bool:
        """Return whether a loop gets the elements of this stage unchanged, so that both have the same count."""
        return self._session.plan.is_last(self.pipe)

    def untouched(self) -> Any:
        """Return this stage before its inputs were opened, to be opened again in a session of its own."""
        return self._session.plan.untouched[self.place]

    def session(
        self,
        pipe: structure.Pipe,
        run: Run,
        saved: Table | None = None,
        shared: Any = None,
        is_rewritten: bool = False,
    ) -> Session:
        """Return another session on the stages above, for a stage that reads them more than once.

        Args:
            pipe: The input to read.
            run: Seed and epoch of that session. ``run.next_lap(n)`` gives a different run for each lap.
            saved: The table to start at. ``None``: the start.
            shared: The sources that the session shares with other lanes. ``None``: it shares none.
            is_rewritten: Whether the input is a part of this session's plan, already rewritten for the run.
        """
        run = run if run.shared is shared else replace(run, shared=shared)
        return type(self._session).of(pipe, run, saved, is_inner=True, is_rewritten=is_rewritten)


class PositionsAbove:
    """The positions of all stages above one stage."""

    __slots__ = ("_cells", "_found", "_known", "_loaded", "_place")

    def __init__(self, cells: SessionCells, place: int) -> None:
        self._cells = cells
        self._place = place
        self._loaded = cells.saved
        self._known = 0
        self._found: list[tuple[int, Cell]] | None = None

    def _all(self) -> list[tuple[int, Cell]]:
        if self._found is None or self._known != len(self._cells):
            self._known = len(self._cells)  # an interruption adds cells
            self._found = self._cells.above(self._place)
        return self._found

    def now(self) -> Table:
        """Return the present positions."""
        return table_of(self._all())

    def cheap_table(self) -> Table | None:
        """Return the present positions, or None if a stage above cannot be saved, or only at some expense."""
        try:
            with without_streams():
                return self.now()
        except UnsavableElement:
            return None

    def at_start(self) -> Table:
        """Return the positions at the opening of the session."""
        loaded = self._loaded or {}
        return {place: loaded.get(place, cell.at_start()) for place, cell in self._all()}
