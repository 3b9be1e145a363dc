"""A detached hub, whose children are read in several sessions: a user's plain class reads one of them.

Such a class reads each input in a session of its own, which starts again whenever the class does. The source of a
detached hub is a session that belongs to the hub, and all readers take from the same queues. A replay of the class does
not move the hub back. The hub counts the elements and errors that it gave to each reader in another session. A session
that starts again gets these from a second opening of the child, which is closed when it has caught up, and then
continues with the hub. Such a replay runs the graph above that one child, like a replay of any plain class. It does not
move other readers.

An error of the source that ended a user's generator is not raised again: it would end the next generator, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from datapipes.description import structure
from datapipes.description.printing import stage as printed
from datapipes.errors import GraphError, StateError, consumes_element
from datapipes.position import own_generators
from datapipes.position.cells import Cell, Table, count, fields, table
from datapipes.position.session import Session, segments
from datapipes.position.user_classes import must_start_anew

if TYPE_CHECKING:
    from datapipes.iter.combining.hub import Child, Hub, HubCell
    from datapipes.position.opening import Opening

_END: Any = object()


class DetachedHubCell(Cell):
    """Position of a detached hub: its queues, the position above it, and the progress of its readers."""

    def __init__(self, queues: HubCell) -> None:
        self.queues = queues
        self._session: Session | None = None
        self._elements: Iterator[Any] = iter(())
        self._loaded: Table | None = None
        self._progress: dict[int, ReaderProgress] = {}

    def opened(self, hub: Hub, at: Opening) -> HubCell:
        """Return the queues, with an entry for each reader."""
        if self._session is None:
            session = at.session(hub.datapipe, at.run, self._loaded)
            if self._loaded is not None:
                session.iterator()  # raises now if the state does not fit
            self.queues.stage = hub
            elements = _elements(session)
            self._session, self._elements = session, elements  # nothing is called in between
        self.queues.put_back = at.put_back
        self.queues.reading(at.after_put_back(self._elements), goes_on=True)
        for child in at.readers():
            self.queues.of_reader(structure.place_of(child), child.instance_id)
        at.run.hubs[at.place] = self
        return self.queues

    def progress_of(self, place: int, elements: Iterator[Any]) -> ReaderProgress:
        """Return the progress of the reader at a place in another session, which takes ``elements`` from now on."""
        progress = self._progress.setdefault(place, ReaderProgress())
        progress.elements = elements
        return progress

    def restart_readers(self, places: set[int]) -> None:
        """Prepare readers for a replay: the generators at these places ended with an error and will be run again."""
        for place in places & self._progress.keys():
            self._progress[place].pass_over()

    def in_step(self) -> bool:
        return self.queues.in_step()

    def save(self) -> dict[str, Any]:
        inside = self._loaded if self._session is None else self._session.table()
        readers = [[place, each.given, list(each.errors), each.raised] for place, each in self._progress.items()]
        return {"waiting": self.queues.save(), "inside": inside, "told": readers}

    def load(self, saved: Any) -> None:
        waiting, inside, readers = fields(saved, "waiting", "inside", "told")
        self._loaded = table(inside)
        if type(readers) is not list or not all(type(entry) is list and len(entry) == 4 for entry in readers):
            raise StateError(f"told: expected [place, given, errors, raised] for each reader, found {readers!r:.80}")
        for place, given, errors, raised in readers:
            if type(errors) is not list:
                raise StateError(f"told: expected a list of counts, found {errors!r:.80}")
            one = self._progress[count(place, "told")] = ReaderProgress()
            one.given, one.raised = count(given, "told"), count(raised, "told")
            one.errors = [count(error, "told", most=one.given) for error in errors]
        self.queues.stage = self.stage
        self.queues.load(waiting)

    def close(self) -> None:
        self.queues.close()
        if self._session is not None:
            self._session.close()


class ReaderProgress:
    """Progress of one reader in another session: the elements and errors given to it."""

    def __init__(self) -> None:
        self.given = 0
        self.errors: list[int] = []  # the number of elements before each error that a replay raises again
        self.raised = 0  # number of all errors
        self.elements: Iterator[Any] = iter(())

    def pass_over(self) -> None:
        """Exclude the last error from a replay, if no element came after it."""
        if self.errors and self.errors[-1] == self.given:
            self.errors.pop()


class ReaderCell(Cell):
    """Position of one session that reads a detached hub."""

    def __init__(self) -> None:
        self._given = 0
        self._errors = 0
        self._again: Session | None = None  # repeats what was given before this session began
        self._elements: Iterator[Any] = iter(())
        self._ahead = 0  # number of elements taken from the repeating session
        self._raised = 0

    def along(self, child: Child[Any], at: Opening, progress: ReaderProgress) -> Iterator[Any]:
        """Yield the elements of a child from this position on: first those given before, then new ones."""
        while True:
            if self._errors < len(progress.errors) and progress.errors[self._errors] == self._given:
                self._errors += 1
                self._raise_again(child, at)
            if self._given < progress.given:
                element = self._given_before(child, at, progress)
            else:
                self._let_go()
                try:
                    for element in progress.elements:  # noqa: B007  # used below: a signal may arrive right after next() returns
                        progress.given += 1
                        break
                    else:
                        return
                except Exception as error:
                    if consumes_element(error):
                        progress.errors.append(progress.given)
                        progress.raised += 1
                        self._errors += 1
                    raise
            self._given += 1
            yield element

    def _given_before(self, child: Child[Any], at: Opening, progress: ReaderProgress) -> Any:
        self._open_again(child, at)
        while True:
            try:
                element = next(self._elements, _END)
            except Exception as error:
                self._raised += consumes_element(error)
                if self._raised > progress.raised or not consumes_element(error):
                    raise
                continue
            if element is _END:
                raise StateError(
                    f"{self.label}: the stages above were run again and gave {progress.given - self._ahead} elements "
                    "less than before; a source that can be read only once cannot be replayed"
                )
            self._ahead += 1
            if self._ahead > self._given:
                return element

    def _raise_again(self, child: Child[Any], at: Opening) -> None:
        self._open_again(child, at)
        while self._ahead < self._given:
            self._ahead += 1
            next(self._elements, None)
        if next(self._elements, _END) is not _END:
            self._ahead += 1
        raise GraphError(f"{self.label} raised an error here before, but not when the stages above were run again")

    def _open_again(self, child: Child[Any], at: Opening) -> None:
        if self._again is None:
            must_start_anew(child)
            if at.run.plain and (drawing := own_generators.advancing(child)) is not None:
                raise StateError(
                    f"{printed(child)} has to be run again, and {printed(drawing)} above it draws from generators that "
                    "have moved on since: give its class a set_seed, or iterate in a DataLoader2, which seeds them"
                )
            self._again = at.session(structure.unfold(child), at.run.alone())
            self._elements = _elements(self._again)
            self._ahead = self._raised = 0

    def _let_go(self) -> None:
        again, self._again = self._again, None
        if again is not None:
            again.close()
            self._elements = iter(())

    def save(self) -> list[int]:
        return [self._given, self._errors]

    def load(self, saved: Any) -> None:
        if type(saved) is not list or len(saved) != 2:
            raise StateError(f"expected [given, errors], found {saved!r:.80}")
        self._given, self._errors = (count(number) for number in saved)

    def done(self) -> int:
        return self._given

    def close(self) -> None:
        self._let_go()


def _elements(session: Session) -> Iterator[Any]:
    """Return the elements of a session, which continues after its errors."""
    return chain.from_iterable(segments(session))
