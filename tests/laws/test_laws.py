"""Every operator keeps every law, one case each; and every law is seen to fail on a stage that breaks it."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import pytest

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.cells import Cell
from datapipes.position.opening import Opening
from datapipes.position.trail import Looking
from tests.laws.position import Broken
from tests.laws.table import LAWS, broken
from tests.specimens.catalogue import SPECIMENS, operators, specimens_of
from tests.specimens.specimen import Specimen, Tap, folder, numbers, shuffled, unseekable


def tried_together() -> dict[str, list[Specimen]]:
    """The specimens of an operator are one case, but for those that open processes or connections: each is one alone.

    So no case takes long on a machine that is at rest, and a limit of time finds nothing but what hangs.
    """
    together: dict[str, list[Specimen]] = {}
    for specimen in SPECIMENS:
        is_slow = specimen.service is not None or specimen.stops is not None
        together.setdefault(str(specimen) if is_slow else specimen.operator, []).append(specimen)
    return together


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("specimens", tried_together().values(), ids=tried_together())
def test_law(specimens: list[Specimen], law: str) -> None:
    if wrong := broken(specimens, law):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("looks", ["always", "never"])
@pytest.mark.parametrize("law", ["resume", "errors"])
@pytest.mark.parametrize("operator", ["iter.prefetch", "iter.threadpool_map"])
def test_law_whether_or_not_positions_are_looked_at(
    operator: str, law: str, looks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Looking, "is_cheap", lambda self: looks == "always")
    if wrong := broken(specimens_of(operator), law):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("operator", operators())
def test_operator_has_specimens(operator: str) -> None:
    quiet = [specimen for specimen in specimens_of(operator) if not specimen.raises]
    assert len(quiet) > 1 or operator.startswith("map."), f"give {operator} specimens in tests/specimens/"
    assert quiet, f"give {operator} a specimen in tests/specimens/"


def test_specimens_are_told_apart_and_belong_to_an_operator() -> None:
    names = [str(specimen) for specimen in SPECIMENS]
    assert sorted(set(names)) == sorted(names)
    assert {specimen.operator for specimen in SPECIMENS} == set(operators())


class Operator(IterDataPipe[Any]):
    """An operator as in the library, with one source."""

    def __init__(self, source: Pipe) -> None:
        self.source = source

    def _open(self, at: Opening) -> Iterator[Any]:
        return self._elements(at.source(self.source))

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        yield from source


class Honest(Operator):
    """Breaks no law."""


class Forgetful(Operator):
    """Keeps its position to itself."""

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        yield from enumerate(source)


class Unplain(Operator):
    """Saves what is no plain data."""

    def _open(self, at: Opening) -> Iterator[Any]:
        at.cell(ManyKept)
        return at.source(self.source)


class ManyKept(Cell):
    """Saves a set."""

    def save(self) -> Any:
        return {1, 2}

    def load(self, saved: Any) -> None:
        pass


class Rewritten(Operator):
    """Changes states that it has given away."""

    def _open(self, at: Opening) -> Iterator[Any]:
        cell = at.cell(Diary)
        return map(partial(Diary.note, cell), at.source(self.source))


class Diary(Cell):
    """Gives away the list that it goes on writing."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def note(self, element: Any) -> Any:
        self.entries.append(repr(element))
        return element

    def save(self) -> Any:
        return self.entries

    def load(self, saved: Any) -> None:
        self.entries = saved


class Shared(Operator):
    """Has one iterator for all openings."""

    open_now: Iterator[Any] | None = None

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        yield from source
        type(self).open_now = None

    def _open(self, at: Opening) -> Iterator[Any]:
        if type(self).open_now is None:
            type(self).open_now = self._elements(at.source(self.source))
        yield from type(self).open_now or ()


class Guilty(Operator):
    """Writes what it has seen into a list that all copies of it share."""

    def __init__(self, source: Pipe) -> None:
        super().__init__(source)
        self.seen: list[Any] = []

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        for element in source:
            self.seen.append(element)
            yield element


class Unpicklable(Operator):
    """Loses a parameter when it is pickled."""

    def __init__(self, source: Pipe, times: int = 1) -> None:
        super().__init__(source)
        self.times = times

    def __getstate__(self) -> Any:
        return {"source": self.source, "times": 1}

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        for element in source:
            yield element * self.times


class Leaking(Operator):
    """Leaves a file open for whoever made the graph."""

    def __init__(self, source: Pipe) -> None:
        super().__init__(source)
        self.files: list[Any] = []

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        self.files.append((folder() / "a.csv").open())
        LEFT.append(self.files[-1].close)
        yield from source


class Lingering(Operator):
    """Leaves a thread running."""

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        done = threading.Event()
        threading.Thread(target=done.wait).start()
        LEFT.append(done.set)
        yield from source


class Talkative(Operator):
    """Raises when it is closed."""

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from source
        finally:
            raise ValueError("closed")


class Boastful(Operator):
    """Claims an element more than it has."""

    def __len__(self) -> int:
        return len(self.source) + 1


class Unsized(Operator):
    """Has no length, and says so by the wrong exception."""

    def __len__(self) -> int:
        raise AttributeError("length")


class Moody(Operator):
    """Draws from a generator that all share."""

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        for element in source:
            yield element, random.random()


class Greedy(Operator):
    """Loses the first of two elements if the second one fails."""

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        while pair := list(islice(source, 2)):
            yield from pair


class Deaf(Operator):
    """Swallows exceptions."""

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield next(source)
            except (StopIteration, ValueError):
                return


class Wrapping(Operator):
    """Turns exceptions into another type."""

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from source
        except ValueError as error:
            raise LookupError("somewhere") from error


LEFT: list[Any] = []
"""What culprits leave behind, as functions that take it away."""


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    while LEFT:
        LEFT.pop()()


def over_five(operator: type[Operator], tap: Tap) -> Pipe:
    return operator(tap(numbers(5)))


def over_seven_unseekable(operator: type[Operator], tap: Tap) -> Pipe:
    return operator(tap(unseekable(7)))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("build", [over_five, over_seven_unseekable])
def test_an_honest_operator_keeps_every_law(law: str, build: Any) -> None:
    LAWS[law](Specimen("test", "honest", partial(build, Honest)))


@pytest.mark.parametrize(
    ("law", "culprit", "error", "says"),
    [
        ("resume", Forgetful, Broken, "after loading"),
        ("resume", Unplain, Broken, "no plain data: set"),
        ("resume", Rewritten, Broken, "the state changed after it was taken"),
        ("independence", Shared, Broken, "of two openings"),
        ("innocence", Guilty, Broken, "changed the graph"),
        ("quiet close", Leaking, Broken, "files that are open"),
        ("quiet close", Lingering, Broken, "threads that go on"),
        ("quiet close", Talkative, ValueError, "closed"),
        ("honest len", Boastful, Broken, "there are 5 elements"),
        ("honest len", Unsized, AttributeError, "length"),
        ("same seed", Moody, Broken, "with the same seed"),
        ("errors", Greedy, Broken, "the elements delivered"),
        ("errors", Deaf, Broken, "the elements delivered"),
        ("errors", Wrapping, LookupError, "somewhere"),
    ],
)
def test_a_law_is_seen_to_fail(law: str, culprit: type[Operator], error: type[BaseException], says: str) -> None:
    with pytest.raises(error, match=says):
        LAWS[law](Specimen("test", "culprit", partial(over_five, culprit)))


def test_the_law_of_pickling_is_seen_to_fail() -> None:
    with pytest.raises(Broken, match="pickled: the print"):
        LAWS["pickling"](Specimen("test", "culprit", lambda tap: Unpicklable(tap(numbers(5)), 3)))


def test_the_law_of_seeds_is_seen_to_fail_where_nothing_is_random() -> None:
    with pytest.raises(Broken, match="epochs are alike"):
        LAWS["same seed"](shuffled("test", "culprit", lambda tap: IterableWrapper(range(5))))
    with pytest.raises(Broken, match="nothing is random"):
        LAWS["same seed"](Specimen("test", "culprit", lambda tap: numbers(9).shuffle()))
