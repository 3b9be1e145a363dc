"""The cells of one session: the position in it, with the elements that an interruption has put back.

The cells are found by place, and saved in the order in which the session's plan opens their stages. The elements that a
stage has put back are a cell of their own, above that of the stage (``cells.PutBackCell``). Only a stage that was
interrupted has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from datapipes.description import structure
from datapipes.errors import StateError, consumes_element
from datapipes.position.cells import Cell, PutBackCell, Table, table_of
from datapipes.position.plan import Plan, put_back_key
from datapipes.position.steps import interrupted_at


class SessionCells(dict[int, Cell]):
    """The cells of a session, by place; those of elements that were put back, by a key of their own.

    Args:
        saved: The position to start at, until the stages have started. None: the start.
    """

    def __init__(self, plan: Plan, saved: Table | None) -> None:
        super().__init__()
        self.plan = plan
        self.saved = saved
        self.in_order: list[tuple[int, Cell]] = []
        self._carries = False  # whether one of them carries positions
        self._has_put_back = False  # whether any stage was interrupted
        self._looked_at = 0  # identity of the last traceback that was examined

    def begin(self, plan: Plan) -> None:
        """Prepare for the start of the stages of a plan: load what they have put back."""
        self.plan = plan
        self._looked_at = 0  # the traceback may be gone, and another one have its identity
        if self.saved is None:
            return
        self.saved = _with_one_count(self.saved, plan.order)
        for stage in (*plan.order, None):
            if (key := put_back_key(stage)) in self.saved and key not in self:
                self._new_put_back(stage).load(self.saved[key])

    def complete(self) -> None:
        """Note that all stages have started; raise StateError if the saved position is that of another graph."""
        self._put_in_order()
        if self.saved is not None:
            saved, there = set(self.saved), {key for key, _ in self.in_order}
            if extra := sorted(saved - there):
                raise StateError(f"cells: there are positions for the stages {extra}, which keep none in this graph")
            if missing := sorted(key for key in there - saved if not isinstance(self[key], PutBackCell)):
                raise StateError(
                    f"cells: there are no positions for the stages {missing}, which keep one in this graph"
                )
        self.saved = None  # the cells have it now

    def _put_in_order(self) -> None:
        self.in_order = self.at(self.plan.keys)
        self._carries = any(cell.carries for _, cell in self.in_order)
        for key, cell in self.in_order:
            if isinstance(cell, PutBackCell):
                cell.below = self.plan.below(key)

    def at(self, keys: Iterable[int]) -> list[tuple[int, Cell]]:
        """Return the cells that there are at some keys, each with its key."""
        return [(key, self[key]) for key in keys if key in self]

    def above(self, place: int) -> list[tuple[int, Cell]]:
        """Return the cells of all stages above the one at a place, inputs first."""
        return self.at(self.plan.keys_above(place))

    def table(self) -> Table:
        """Return the position of every stage."""
        if self._carries:
            return table_of(self.in_order)
        return {key: cell.save() for key, cell in self.in_order}

    # -- elements that are taken again ---------------------------------------------------------------------------------

    def put_back(self, stage: structure.Pipe) -> PutBackCell | None:
        """Return the cell of the elements that a stage has put back; None if it was never interrupted."""
        return self.get(put_back_key(stage)) if self._has_put_back else None  # type: ignore[return-value]  # these keys have no others

    def _new_put_back(self, stage: structure.Pipe) -> PutBackCell:
        self._has_put_back = True
        cell = self[put_back_key(stage)] = PutBackCell()
        cell.stage = self.plan.end if stage is None else stage
        cell.reopening = self.plan.reopening
        return cell

    def give_back(self, stage: structure.Pipe, element: Any) -> None:
        """Put back an element of a stage, to be taken before the others of its input. None is the loop."""
        (self.put_back(stage) or self._new_put_back(stage)).add(element)
        self._put_in_order()

    def after_put_back(self, stage: structure.Pipe, elements: Iterator[Any]) -> Iterator[Any]:
        """Return the elements that a stage has put back, followed by ``elements``."""
        cell = self.put_back(stage)
        return elements if cell is None else chain(cell.again(), elements)

    def interrupted(self, error: BaseException) -> None:
        """Put back the elements that loops had taken, and not handed on, when an interruption came.

        An interruption of a thread is reported twice: there, and where the thread's consumer raises it.
        """
        first = traceback = None if consumes_element(error) else error.__traceback__
        while traceback is not None and id(traceback) != self._looked_at:
            found = interrupted_at(traceback)
            if found is not None and any(found[0] is stage for stage in self.plan.order):
                self.give_back(*found)
            traceback = traceback.tb_next
        self._looked_at = id(first)


def _with_one_count(saved: Table, opened: Sequence[structure.Pipe]) -> Table:
    """Return a saved table with one count for each stream that is read by position.

    0.1.0 kept a count for each input of a ``zip`` or an ``enumerate``, and one of the numbers of the latter.
    """
    saved = dict(saved)
    for reader in opened:
        if structure.is_native(reader) and (read := reader._read_by_position()) is not None:
            places = [structure.place_of(stage) for stage in structure.walk(read)]
            keys = [key for place in places for key in (place, structure.NO_CELL - 1 - place) if key in saved]
            if found := [saved.pop(key) for key in keys]:
                counts = [each for each in found if type(each) is int]
                saved[structure.place_of(read)] = max(counts, default=found[0])
    return saved
