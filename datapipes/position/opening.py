"""Opening, the context of a stage when it starts: its sources, its cell, its seed, and the positions above it.

One ``Opening`` belongs to one stage in one session. After an exception the session starts its stages again with the
cells that they left behind, so ``_open`` finds either a new cell, one that a state was loaded into, or its own from
before the exception, and goes on from there in all three cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from datapipes.description import structure
from datapipes.errors import StateError, UnsavableElement, consumes_element
from datapipes.position import global_draws
from datapipes.position.cells import AT_START, Cell, Table, table_of, without_streams
from datapipes.position.seeds import Run

if TYPE_CHECKING:
    from datapipes.position.session import Session
    from datapipes.position.session_cells import SessionCells
    from datapipes.position.steps import Groups

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
        """The elements of a parent, from its position on; first those that this stage has put back."""
        return self._session.read(pipe, by=self.pipe)

    def after_put_back(self, elements: Iterator[Any]) -> Iterator[Any]:
        """The elements that this stage has put back, and then others."""
        return self._session.cells.after_put_back(self.pipe, elements)

    def put_back(self, element: Any) -> None:
        """Have this stage take an element of its only source again."""
        self._session.cells.give_back(self.pipe, element)

    def keep(self, element: Any, error: BaseException) -> None:
        """Have this stage take an element of its only source again, if ``error`` is one that costs no element."""
        if not (consumes_element(error) or isinstance(error, GeneratorExit)):
            self.put_back(element)

    def grouped(self, pipe: structure.Pipe, groups: Groups) -> Iterator[Any]:
        """The elements of a parent in batches, filled where they are made if the parent is part of a loop."""
        if self._session.cells.put_back(self.pipe) is not None:
            return groups.batches(self.source(pipe))
        return self._session.elements_of(pipe, groups)

    def hub(self, pipe: structure.Pipe) -> Any:
        """The opened form of a shared parent (the container behind fork's children)."""
        return self._session.opened[id(pipe)]

    def is_apart(self) -> bool:
        """Whether this stage, a hub, is read in more than one session, and has one of its own for its source."""
        return self.place in self._session.plan.detached

    def joined(self, pipe: structure.Pipe) -> Any:
        """The opened form of a shared parent in an enclosing session, which reads it as well; None if none does."""
        return self._session.plan.enclosing.get(structure.place_of(pipe))

    def readers(self) -> list[structure.Pipe]:
        """The children of this stage, a hub, in whatever session they are read."""
        return self._session.plan.children_of(self.pipe)

    def cell(self, make: Callable[[], C]) -> C:
        """This stage's cell: new, or as it was loaded, or as it was left by an exception.

        Args:
            make: A function, or a class of cells, that makes a new one. It is called unless there is one already.
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
        """Whether the stage starts again after an exception somewhere in its session."""
        return self._session.restarts > 0

    def on_interruption(self, error: BaseException) -> None:
        """Put back what stages had taken when an interruption came in a thread of this stage."""
        self._session.cells.interrupted(error)

    @property
    def interrupted(self) -> bool:
        """Whether the stage starts again after an interruption, which costs no element."""
        return self._session.was_interrupted

    def closed(self) -> bool:
        """Whether the session was closed, so that nobody waits for what a thread is still at work on."""
        return self._session.ended

    def seed(self, pinned: int | None = None) -> int:
        """This stage's seed; the one that its user pinned, if any, else that of the run."""
        if pinned is not None:
            return self.run.pinned_seed(pinned, self.place)
        return self.run.stage_seed(self.place, self._session.plan.shards[id(self.pipe)])

    def is_private(self) -> bool:
        """Whether nobody outside reads what is above this stage: no fork has one child there and another elsewhere."""
        return self._session.plan.is_private(self.pipe)

    def above(self) -> Above | None:
        """The positions of everything above this stage; None if somebody else reads there as well."""
        return Above(self._session.cells, self.place) if self.is_private() else None

    def mark(self) -> Callable[[], Table] | None:
        """The function that looks at the positions above this stage, if nobody else reads there.

        In a worker process the table has the global generators, too, as they were at that moment.
        """
        above = self.above()
        if above is None or self._session.plan.is_inner:  # which loads no generators
            return None if above is None else above.now
        return lambda: {**above.now(), **global_draws.saved()}

    def is_last(self) -> bool:
        """Whether a loop gets what this stage hands on, as it is: both have then counted the same."""
        return self._session.plan.is_last(self.pipe)

    def untouched(self) -> Any:
        """This stage before what is above it was opened here: for who opens that again in a session of its own."""
        return self._session.plan.untouched[self.place]

    def session(self, pipe: structure.Pipe, run: Run, saved: Table | None = None) -> Session:
        """Another session on what is above this stage, for a stage that reads it more than once.

        Args:
            pipe: The parent to read.
            run: Seed and epoch of that session; ``run.next_lap(n)`` is another one for each time.
            saved: The positions to go on from. ``None``: the start.
        """
        return type(self._session).of(pipe, run, saved, is_inner=True)


class Above:
    """The positions of everything above one stage."""

    __slots__ = ("_cells", "_found", "_known", "_loaded", "_place")

    def __init__(self, cells: SessionCells, place: int) -> None:
        self._cells = cells
        self._place = place
        self._loaded = cells.saved
        self._known = 0
        self._found: list[tuple[int, Cell]] | None = None

    def _all(self) -> list[tuple[int, Cell]]:
        if self._found is None or self._known != len(self._cells):
            self._known = len(self._cells)  # an interruption adds some
            self._found = self._cells.above(self._place)
        return self._found

    def now(self) -> Table:
        """The positions as they are now."""
        return table_of(self._all())

    def kept(self) -> Table | None:
        """The present positions; None if something above cannot be saved, or only at some expense."""
        try:
            with without_streams():
                return self.now()
        except UnsavableElement:
            return None

    def at_start(self) -> Table:
        """The positions as they were when the session was opened."""
        loaded = self._loaded or {}
        return {place: loaded.get(place, cell.at_start()) for place, cell in self._all()}
