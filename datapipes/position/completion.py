"""Completion of a stream without a known length: of the elements of its source, or of those of a stage.

A stage that knows its count and its total, such as a list of files, has a completion. It stands for all stages below:
if three of ten files were opened, the stream has read about a quarter, because the current element counts as half. The
completion may be asked for in another thread than the one that reads.
"""

from __future__ import annotations

from datapipes.description import structure
from datapipes.position.cells import Completion, together
from datapipes.position.session import Session


class StreamCompletion:
    """Completion of a session's stream. Create it in the reading thread: it calls ``__len__`` of users' classes."""

    def __init__(self, session: Session) -> None:
        self._cells = session.cells
        stages, inputs, place = session.plan.order, session.plan.inputs, structure.place_of
        self._stages = [(id(stage), place(stage), list(map(id, inputs(stage)))) for stage in stages]
        self._lengths = {place(stage): _length(stage) for stage in stages}

    def part(self) -> Completion | None:
        """Return the completion of the stages nearest to the end of the graph that have one, or None."""
        parts: dict[int, Completion | None] = {}
        part = None
        for stage, place, sources in self._stages:
            cell, length = self._cells.get(place), self._lengths[place]
            part = None if cell is None else cell.part()
            if part is None and cell is not None and length is not None and (done := cell.done()) is not None:
                part = done, length
            if part is None and sources:
                part = together([parts.get(source) for source in sources])
            parts[stage] = part
        return part


def fraction_done(part: Completion | None) -> float | None:
    """Return the fraction that was read, or None if the completion says nothing, as with a single folder of files.

    >>> fraction_done((3, 10)), fraction_done((10, 10)), fraction_done((0, 10)), fraction_done((1, 1))
    (0.25, 0.95, None, None)
    """
    return None if part is None or not part[0] or part[1] < 2 else (min(part) - 0.5) / part[1]


def _length(stage: structure.Pipe) -> int | None:
    try:
        return len(stage)
    except (TypeError, NotImplementedError, RecursionError):  # the last two: of a user's class, or of a long chain
        return None
