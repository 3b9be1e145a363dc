"""A class that is replayed gives what it gave; one that says where it is, is asked; and no state is taken on trust."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from datapipes.errors import StateError, UnsafeState
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe, Zipper
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from tests.datapipes.position.written_for_torchdata import Generator, ItsOwnIterator, OnlyNext, SaysWhereItIs

calls: list[int] = []


def noted(number: int) -> int:
    calls.append(number)
    return number


def but_for_two(number: int) -> int:
    if number == 2:
        raise ValueError(f"no {number}")
    return number


class FailsByItself(OnlyNext):
    """Raises at some elements, and can go on after that."""

    def __next__(self) -> Any:
        element = super().__next__()
        if element % 3 == 1:
            raise ValueError(f"no {element}")
        return element


def numbers(length: int = 6) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


def outcomes(loader: DataLoader2[Any], most: int | None = None) -> list[Any]:
    """The next elements of a loader, and the messages of the errors between them."""
    found: list[Any] = []
    iterator = iter(loader)
    while most is None or len(found) < most:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
        except ValueError as error:
            found.append(str(error))
    return found


def resumed(build: Callable[[], Pipe], after: int) -> tuple[DataLoader2[Any], list[Any]]:
    """A loader that goes on where another one stopped after some outcomes, and those outcomes."""
    loader: DataLoader2[Any] = DataLoader2(build())
    before = outcomes(loader, after)
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    calls.clear()
    again: DataLoader2[Any] = DataLoader2(build())
    again.load_state_dict(state)
    return again, before


@pytest.mark.parametrize("shape", [Generator, ItsOwnIterator, OnlyNext])
def test_a_plain_class_is_run_once_more(shape: Callable[[Pipe], Pipe]) -> None:
    loader, before = resumed(lambda: shape(numbers().map(noted)), 4)
    assert before == [0, 1, 2, 3]
    assert outcomes(loader) == [4, 5]
    assert calls == [0, 1, 2, 3, 4, 5]


def test_a_class_that_says_where_it_is_is_not_run_once_more() -> None:
    loader, before = resumed(lambda: SaysWhereItIs(numbers().map(noted)), 4)
    assert before == [0, 1, 2, 3]
    assert outcomes(loader) == [4, 5]
    assert calls == [4, 5]


@pytest.mark.parametrize("after", range(7))
@pytest.mark.parametrize(
    "build", [lambda: FailsByItself(numbers()), lambda: ItsOwnIterator(numbers().map(but_for_two))]
)
def test_an_iterator_that_outlives_its_errors_is_resumed_behind_them(build: Callable[[], Pipe], after: int) -> None:
    whole = outcomes(DataLoader2(build()))
    assert "no 4" in whole or "no 2" in whole
    assert [x for x in whole if isinstance(x, int)][-1] == 5
    loader, before = resumed(build, after)
    assert before + outcomes(loader) == whole


def test_an_error_that_does_not_come_again_makes_no_difference() -> None:
    loader: DataLoader2[Any] = DataLoader2(FailsByItself(numbers()))
    assert outcomes(loader, 3) == [0, "no 1", 2]
    again: DataLoader2[Any] = DataLoader2(OnlyNext(numbers()))
    state = loader.state_dict()
    state["stages"] = again.state_dict()["stages"]
    again.load_state_dict(sealed(state))
    assert outcomes(again) == [3, 4, 5]


def test_an_error_beside_a_class_that_has_not_begun_leaves_it_where_it_was() -> None:
    def build(fails: bool) -> Pipe:
        first = numbers().map(but_for_two if fails else abs)
        return Zipper(first, Generator(numbers()), ItsOwnIterator(numbers()))

    loader: DataLoader2[Any] = DataLoader2(build(fails=False))
    assert outcomes(loader, 2) == [(0, 0, 0), (1, 1, 1)]
    again: DataLoader2[Any] = DataLoader2(build(fails=True))
    again.load_state_dict(loader.state_dict())
    assert outcomes(again) == ["no 2", (3, 3, 3), (4, 4, 4), (5, 5, 5)]


def test_an_error_of_a_generator_ends_it_and_names_the_stage() -> None:
    class Failing(Generator):
        def __iter__(self) -> Iterator[Any]:
            for element in self.source_datapipe:
                yield but_for_two(element)

    iterator = iter(Failing(numbers()))
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(ValueError, match="no 2") as error:
        next(iterator)
    assert error.value.args == ("no 2",)
    (note,) = error.value.__notes__
    assert note.startswith("raised in stage ")
    assert "Failing(" in note
    # Such an iterator is over: the class is run again, up to where it failed.
    with pytest.raises(ValueError, match="no 2"):
        next(iterator)


def test_an_error_names_the_class_also_where_no_frame_of_it_is_left() -> None:
    class Handing(Generator):
        """Returns what knows nothing of it."""

        def __iter__(self) -> Iterator[Any]:
            return (but_for_two(element) for element in range(4))

    class Stopping(Generator):
        def __iter__(self) -> Iterator[Any]:
            return (next(iter(())) if element == 2 else element for element in range(4))

    class Mapping(Generator):
        def __iter__(self) -> Iterator[Any]:
            return map(but_for_two, range(4))

    belows: list[Callable[[Any], Pipe]] = [abs_of, lambda pipe: pipe.map(abs).batch(1), lambda pipe: pipe.shuffle()]
    for cls in (Handing, Stopping, Mapping):
        for below in belows:
            with pytest.raises((ValueError, RuntimeError)) as error:
                list(below(cls(numbers())))
            (note,) = error.value.__notes__
            assert f".{cls.__name__}(" in note.splitlines()[0]


def abs_of(pipe: Pipe) -> Pipe:
    return pipe.map(abs)


@pytest.mark.parametrize("shape", [Generator, ItsOwnIterator])
def test_a_class_that_gives_less_than_before_is_an_error(shape: Callable[[Pipe], Pipe]) -> None:
    loader: DataLoader2[Any] = DataLoader2(shape(numbers()))
    assert len(outcomes(loader, 5)) == 5
    again: DataLoader2[Any] = DataLoader2(shape(numbers(3)))
    again.load_state_dict(loader.state_dict(), strict=False)
    with pytest.raises(
        StateError, match=f"{shape.__name__}.*when it was replayed, it gave 2 elements fewer than before"
    ):
        next(iter(again))


HOSTILE: list[Any] = [
    -1,
    True,
    1.5,
    "3",
    [3],
    {"given": 3},
    {"given": 3, "faults": "no list"},
    {"given": 3, "faults": [-1]},
    {"given": 3, "faults": [4]},
    {"given": 3, "faults": [2, 1]},
    {"given": -3, "faults": []},
    {"given": 3, "faults": [], "more": 1},
]


@pytest.mark.parametrize("cell", HOSTILE, ids=repr)
def test_a_state_that_is_no_position_is_refused(cell: Any) -> None:
    loader: DataLoader2[Any] = DataLoader2(ItsOwnIterator(numbers()))
    outcomes(loader, 1)
    state = loader.state_dict()
    (place,) = state["cells"]
    state["cells"] = {place: cell}
    again: DataLoader2[Any] = DataLoader2(ItsOwnIterator(numbers()))
    with pytest.raises(StateError, match=r"ItsOwnIterator\(.*(expected|past the end)"):
        again.load_state_dict(sealed(state))


def test_what_a_class_remembers_is_loaded_as_plain_data() -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return calls.append, (-1,)

    loader: DataLoader2[Any] = DataLoader2(SaysWhereItIs(numbers()))
    outcomes(loader, 1)
    state = loader.state_dict()
    calls.clear()
    place = next(place for place, cell in state["cells"].items() if type(cell) is bytes)
    for evil in (pickle.dumps(Evil()), b"no pickle at all", 3):
        again: DataLoader2[Any] = DataLoader2(SaysWhereItIs(numbers()))
        with pytest.raises((StateError, UnsafeState), match="SaysWhereItIs"):
            again.load_state_dict(sealed({**state, "cells": {**state["cells"], place: evil}}))
    assert calls == []


def test_a_state_is_independent_of_what_comes_after_it() -> None:
    loader: DataLoader2[Any] = DataLoader2(FailsByItself(numbers()))
    outcomes(loader, 2)
    state = loader.state_dict()
    before = pickle.dumps(state)
    outcomes(loader)
    assert pickle.dumps(state) == before


def test_dropping_an_iterator_closes_the_generator() -> None:
    closed: list[str] = []

    class Careful(Generator):
        def __iter__(self) -> Iterator[Any]:
            try:
                yield from self.source_datapipe
            finally:
                closed.append("closed")

    iterator = iter(Careful(numbers()).map(abs))
    assert list(islice(iterator, 2)) == [0, 1]
    del iterator
    assert closed == ["closed"]
