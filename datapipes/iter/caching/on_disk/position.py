"""Position of an ``end_caching``: the files at hand, and the errors that the stages in between have let pass.

The stages in between begin anew for each element, but their limits (``max_errors``) are for the whole stream. So their
counts are kept here, by the stages' places, and handed from one element to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from datapipes.description.pipe import IterDataPipe
from datapipes.description.printing import stage as printed
from datapipes.description.structure import Pipe, place_of
from datapipes.errors import StateError
from datapipes.iter.caching.on_disk.production import Production
from datapipes.operators.flattening_position import Inner
from datapipes.position.cells import count, fields, table


class Making(Inner):
    """The position of one ``end_caching``."""

    def __init__(self, pipe: IterDataPipe[Any], let_go: Callable[[Any], None]) -> None:
        super().__init__(pipe, let_go)
        self._counts: dict[int, list[int]] = {}
        self._is_news = False  # whether these were loaded, and the run does not know of them
        self._production: Production | None = None

    def by(self, production: Production, between: list[Pipe], errors: Counter[str]) -> None:
        """Find or make files so; the stages in between are given for their errors, which the run counts."""
        self.let_go()
        self._production = production
        stages = {place_of(stage): stage for stage in between}
        if extra := self._counts.keys() - stages.keys():
            raise StateError(f"between: there are counts of errors for {sorted(extra)}, which are no stages in between")
        if self._is_news:
            self._is_news = False
            errors.update({printed(stages[place]): errors for place, (errors, _) in self._counts.items() if errors})

    def paths(self, element: Any) -> list[str]:
        """The files of the next element."""
        if self._production is None:
            raise StateError(f"{self.label} was not opened")
        return self._production.paths(element, self._counts)

    def let_go(self) -> None:
        """Let the files at hand be removed, where there are too many."""
        if self._production is not None:
            self._production.let_go()

    def save(self) -> dict[str, Any]:
        return {"at": super().save(), "between": {place: list(counts) for place, counts in self._counts.items()}}

    def load(self, saved: Any) -> None:
        at, between = fields(saved, "at", "between")
        if table(between) is None:
            raise StateError("between: expected counts of errors by place, found None")
        for place, counts in between.items():
            if not (type(counts) is list and len(counts) == 2):
                raise StateError(f"between: expected two counts, found {counts!r:.80}")
            self._counts[place] = [count(one, "between") for one in counts]
        self._is_news = True
        super().load(at)

    def close(self) -> None:
        self.let_go()
        super().close()
