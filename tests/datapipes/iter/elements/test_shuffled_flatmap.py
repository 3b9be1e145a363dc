"""shuffled_flatmap: several iterables mixed at random, each in its own order, resumed exactly."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, StateError
from datapipes.iter import IterableWrapper, IterDataPipe, ShuffledFlatMapper
from datapipes.position.plain_data import sealed
from tests.datapipes.iter.mishaps import outcomes


def of(iterables: Any, fn: Callable[[Any], Any] | None = None, size: int = 100, seed: int = 0) -> Any:
    return IterableWrapper(iterables).shuffled_flatmap(fn, buffer_size=size).set_seed(seed)


class Counted(IterDataPipe[str]):
    """A class that says how much it has given."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.given = 0

    def __iter__(self) -> Iterator[str]:
        for element in self.source:
            self.given += 1
            yield f"{element}{self.given}"

    def state_dict(self) -> int:
        return self.given

    def load_state_dict(self, given: int) -> None:
        self.given = given


def generated(elements: Any) -> Iterator[Any]:
    yield from elements


LISTS = st.lists(st.integers(0, 4), max_size=7).map(
    lambda lengths: [[(which, i) for i in range(length)] for which, length in enumerate(lengths)]
)
FUNCTIONS = st.sampled_from([None, list, tuple, generated])


@settings(deadline=None)
@given(LISTS, FUNCTIONS, st.integers(1, 8), st.integers(0, 99), st.data())
def test_a_mixture_within_the_buffer(lists: Any, fn: Any, size: int, seed: int, data: Any) -> None:
    whole = list(of(lists, fn, size, seed))
    assert sorted(whole) == [pair for one in lists for pair in one], "each element once"
    for one in lists:
        assert [pair for pair in whole if pair in one] == one, "each iterable in its own order"
    for k, (which, _) in enumerate(whole):
        unfinished = [one[0][0] for one in lists if one and one[-1] not in whole[:k]]
        assert which in unfinished[:size]
    taken = data.draw(st.integers(0, len(whole)))
    it: Any = iter(of(lists, fn, size, seed))
    assert [next(it) for _ in range(taken)] == whole[:taken]
    again: Any = iter(of(lists, fn, size, seed))
    again.load_state_dict(it.state_dict())
    assert list(again) == list(it) == whole[taken:]


def test_every_live_iterable_is_as_likely() -> None:
    firsts = Counter(next(iter(of([["a"] * 9, ["b"], ["c"] * 2], seed=seed))) for seed in range(600))
    assert set(firsts) == set("abc")
    assert min(firsts.values()) > 150


def test_one_at_a_time_is_a_flatmap() -> None:
    words = ["abc", "", "de", "f"]
    assert list(of(words, size=1)) == list("abcdef")
    assert list(of(words).set_shuffle(False)) == list("abcdef")
    assert sorted(of(words).set_shuffle(False).set_shuffle()) == list("abcdef")


def test_arguments_and_columns() -> None:
    assert isinstance(of(["a"]), ShuffledFlatMapper)
    with pytest.raises(BadArgument, match=r"larger than 0, in \.shuffled_flatmap\(buffer_size=0\)"):
        of(["a"], size=0)
    rows = IterableWrapper([(1, "ab"), (2, "cd")])
    assert sorted(rows.shuffled_flatmap(input_col=1)) == ["a", "b", "c", "d"]
    assert sorted(rows.shuffled_flatmap(lambda n, word: n * word, input_col=[0, 1])) == list("abccdd")
    assert outcomes(of([5])) == ["TypeError: 'int' object is not iterable"]


def test_length() -> None:
    assert len(of(["abc", [], (1, 2)])) == 5
    unsized: list[Any] = [of(["abc"], list), IterableWrapper(["a"]).filter(bool).shuffled_flatmap(), of([5])]
    for unknown in unsized:
        with pytest.raises(TypeError):
            len(unknown)
    with pytest.raises(TypeError, match="ShuffledFlatMapper's length relies on the output of its function"):
        len(of(["abc"], list))
    with pytest.raises(TypeError):
        len(IterableWrapper(["a"]).cycle().shuffled_flatmap())


def test_what_becomes_of_errors() -> None:
    def pieces(x: int) -> Iterator[int]:
        yield x
        yield 10 // x

    dp = IterableWrapper(range(4)).shuffled_flatmap(pieces, on_error="skip", max_errors=0.3)
    it: Any = iter(dp)
    with pytest.warns(UserWarning, match="goes on after ZeroDivisionError"):
        assert sorted(it) == [0, 1, 2, 3, 3, 5, 10]
    assert list(it.errors.values()) == [1]
    dp = IterableWrapper(range(4)).shuffled_flatmap(lambda x: [10 // x], on_error=lambda error, x: "lost")
    with pytest.warns(UserWarning, match="goes on after ZeroDivisionError"):
        assert Counter(dp) == Counter(["lost", 10, 5, 3])


def test_open_files_are_opened_again_where_they_were(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).write_text("".join(f"{name}{i}\n" for i in range(3)))

    def lines(row: tuple[str, Any]) -> Iterator[str]:
        for line in row[1]:
            yield line.rstrip()

    def build() -> Any:
        paths = IterableWrapper([str(tmp_path / name) for name in "abcd"])
        return paths.open_files().shuffled_flatmap(lines, buffer_size=3).set_seed(3)

    whole = list(build())
    assert sorted(whole) == [f"{name}{i}" for name in "abcd" for i in range(3)]
    it: Any = iter(build())
    for done in range(13):
        again: Any = iter(build())
        again.load_state_dict(it.state_dict())
        twice: Any = iter(build())
        twice.load_state_dict(again.state_dict())
        assert list(again) == list(twice) == whole[done:]
        next(it, None)
    again = iter(build())
    next(again)
    state = again.state_dict()
    for name in "abcd":
        (tmp_path / name).unlink()
    gone: Any = iter(build())
    gone.load_state_dict(state)
    found = outcomes(gone)
    assert found
    assert all(str(one).startswith("FileNotFoundError") for one in found), "and it ends"


def test_what_a_class_gave_is_taken_again_from_one_that_was_not_used() -> None:
    def opened(text: str) -> tuple[str, Any]:
        return text, StreamWrapper(io.StringIO("\n".join(text)))  # which cannot be opened again by its name

    def lines(row: tuple[str, Any]) -> Iterator[str]:
        for line in row[1]:
            yield line.rstrip()

    def build() -> Any:
        return Counted(IterableWrapper(["ab", "cde", "fg", "hij"])).map(opened).shuffled_flatmap(lines, buffer_size=3)

    it: Any = iter(build().set_seed(3))
    whole = list(build().set_seed(3))
    for done in range(len(whole) + 1):
        again: Any = iter(build().set_seed(3))
        again.load_state_dict(it.state_dict())
        assert list(again) == whole[done:]
        next(it, None)


@pytest.mark.parametrize(
    "change",
    [
        {"size": 7},
        {"draws": -1},
        {"lives": 5},
        {"lives": [[{"given": 1}, None]]},
        {"lives": [[None, None]]},
        {"lives": [[{"rest": b""}, None]]},
        {"errors": [0, 0]},
    ],
)
def test_a_state_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    it: Any = iter(of(["abc", "de"], size=3))
    next(it)
    state = it.state_dict()
    place = next(place for place, cell in state["cells"].items() if isinstance(cell, dict) and "draws" in cell)
    state["cells"][place].update(change)
    with pytest.raises(StateError, match=r"\.shuffled_flatmap"):
        iter(of(["abc", "de"], size=3)).load_state_dict(sealed(state))


def test_across_blocks_of_draws() -> None:
    words = [[(w, i) for i in range(300)] for w in range(10)]
    it: Any = iter(of(words, generated, size=4))
    taken = [next(it) for _ in range(1030)]
    again: Any = iter(of(words, generated, size=4))
    again.load_state_dict(it.state_dict())
    assert sorted(taken + list(again)) == sorted(pair for word in words for pair in word)
