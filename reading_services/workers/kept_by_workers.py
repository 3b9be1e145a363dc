"""State that users' classes keep on ``self`` from epoch to epoch, as sent between a worker and home.

It goes on in the worker by itself, whatever it is. Home knows as much of it as a state may hold
(``datapipes.position.kept``), for states and for the worker that takes this one's place. The message that ends an
opening says what the classes keep after it. An opening that is left before its end says nothing: then the first message
of the next one says what that began with. Orders tell what home knows; a new worker begins with it.
"""

from __future__ import annotations

from contextlib import suppress

from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.messages.warnings import warn
from datapipes.position import kept
from datapipes.position.cells import Table
from datapipes.position.seeds import Run


class Keeping:
    """State that the classes in the graph of a worker, or of the dispatcher, keep."""

    def __init__(self) -> None:
        self._stages: dict[int, Pipe] = {}
        self._epoch: object = None
        self._began: dict[int, kept.KeptValues] = {}  # what the classes had when the epoch began
        self._after: Table | None = None  # by the last message of the opening before, which home may have dropped
        self._news: Table = {}  # what home was not told
        self._dealt_after: Table = {}  # what the dispatcher's classes keep after this opening, told when it ends here

    def begin(self, graph: Pipe, number: int, run: Run, known: Table | None) -> None:
        """Begin an epoch of the classes; if it is opened again, after an error, with what they had at its start."""
        kept.prepare(graph)
        # Copies share what is kept, and have places, which what a user's function has added to the graph has not.
        self._stages = kept.keeping(structure.unfold(graph)) if any(map(kept.keeps, structure.walk(graph))) else {}
        epoch, known = (number, run.key, run.lap), known or {}
        if self._epoch is None:
            kept.fill(self._stages, {place: known[place] for place in known if place in self._stages})
        elif epoch == self._epoch:
            for place, values in self._began.items():
                if place in self._stages:
                    kept.keep(self._stages[place], values)
        self._began = {place: dict(kept.kept_by(stage)) for place, stage in self._stages.items()}
        now = self._now() if self._after is None else self._after
        self._news = {place: data for place, data in now.items() if known.get(place) != data}
        self._epoch, self._after, self._dealt_after = epoch, None, {}

    def add(self, told: Table | None, at_end: bool = False) -> None:
        """Add the dispatcher's classes' state to what is told next; ``at_end``: with the last message, as it was told.

        The dispatcher is ahead: until home has had all elements, a state is to hold what the classes began with.
        """
        news = self._dealt_after if at_end else self._news
        news |= told or {}

    def news(self) -> Table | None:
        """Kept state to be told to home with the next message, if any."""
        news, self._news = self._news, {}
        return news or None

    def after(self) -> Table | None:
        """The same with the last message of an opening, whose session has been closed."""
        self._after = self._now()
        self._news |= self._after | self._dealt_after
        return self.news()

    def _now(self) -> Table:
        at_work = {place: {**kept.generators(stage), **kept.kept_by(stage)} for place, stage in self._stages.items()}
        return {place: kept.packed(self._stages[place], at_work[place], _tell) for place in at_work if at_work[place]}


def _tell(refusal: str) -> None:
    with suppress(UserWarning):  # where warnings are errors, nobody is there to catch one
        warn(refusal)
