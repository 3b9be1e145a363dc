"""Share of a stream that was read, for one whose length is not known: of its source's elements, or of those of a stage.

A stage that knows how many elements it has given, and how many it will give, tells how far all that is behind it has
come: of files that are listed, how many were opened. The element that is being read counts as half. Who asks may be
another thread than the one that reads.
"""

from __future__ import annotations

from datapipes.description import structure
from datapipes.position.cells import Part, together
from datapipes.position.session import Session


class Share:
    """How far a session has come. It is made by who reads, since lengths are asked of users' classes, too."""

    def __init__(self, session: Session) -> None:
        self._cells = session.cells
        stages, inputs, place = session.plan.order, session.plan.inputs, structure.place_of
        self._stages = [(id(stage), place(stage), list(map(id, inputs(stage)))) for stage in stages]
        self._lengths = {place(stage): _length(stage) for stage in stages}

    def part(self) -> Part | None:
        """The elements that were read, of those nearest to the end of the stream that can be counted."""
        parts: dict[int, Part | None] = {}
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


def share_of(part: Part | None) -> float | None:
    """The share that was read; None of what tells nothing, as a single folder of files.

    >>> share_of((3, 10)), share_of((10, 10)), share_of((0, 10)), share_of((1, 1))
    (0.25, 0.95, None, None)
    """
    return None if part is None or not part[0] or part[1] < 2 else (min(part) - 0.5) / part[1]


def _length(stage: structure.Pipe) -> int | None:
    try:
        return len(stage)
    except (TypeError, NotImplementedError, RecursionError):  # the last two of a user's class, or of a long chain
        return None
