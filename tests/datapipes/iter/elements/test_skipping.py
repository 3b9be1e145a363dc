"""take is header; skip makes nothing that it passes over where that can be avoided, and counts what cannot be made."""

from __future__ import annotations

import pytest

from datapipes.errors import BadArgument, LengthUnknown
from datapipes.graph import Pipe, find_dps, traverse_dps
from datapipes.iter import Header, IterableWrapper, Taker
from tests.datapipes.iter.mishaps import failing_at, outcomes
from tests.datapipes.rewriting.sharded_graphs import Costly
from tests.specimens.specimen import numbers, unseekable


def test_take_is_header() -> None:
    dp = numbers(9).take(3)
    assert (list(dp), repr(dp), len(dp)) == ([0, 1, 2], "IterableWrapper(range(0, 9)).header(limit=3)", 3)
    assert isinstance(dp, Header)
    assert find_dps(traverse_dps(dp.map(str)), Taker) == [dp]


@pytest.mark.parametrize("n", [0, 2, 5, 9])
def test_skip(n: int) -> None:
    for source in (numbers(5), IterableWrapper(list(range(5))), unseekable(5), numbers(5).map(int)):
        assert list(source.skip(n)) == list(range(n, 5))
    assert len(numbers(5).skip(n)) == max(5 - n, 0)
    assert list(numbers(5).skip(1).skip(n)) == list(range(n + 1, 5))


def test_what_is_passed_over_is_not_made() -> None:
    source = Costly(20)
    for graph in (source.to_iter_datapipe(), source.shuffle(), source.to_iter_datapipe().shuffle(buffer_size=5)):
        source.asked.clear()
        assert len(list(graph.map(int).prefetch(2).skip(15))) == len(source.asked) == 5
    made: list[int] = []

    def seen(x: int) -> int:
        made.append(x)
        return x

    assert list(unseekable(9).map(seen, on_error="retry(2)").prefetch(2).skip(6)) == made == [6, 7, 8]


def test_a_range_is_read_from_there() -> None:
    rows = numbers(10**15).skip(10**14).map(int).enumerate(starting_index=10**14)
    assert list(rows.skip(9 * 10**14 - 1)) == [(10**15 - 1, 10**15 - 1)]


@pytest.mark.parametrize("source", [unseekable(6).filter(lambda x: x < 9), unseekable(6)])
def test_an_element_that_cannot_be_made_is_counted(source: Pipe) -> None:
    read = source.map(failing_at(1, 3)).filter(lambda x: True)
    assert outcomes(read.skip(3)) == ["ValueError: 1 is bad", "ValueError: 3 is bad", 4, 5]
    assert outcomes(source.map(failing_at(1, 3)).skip(2)) == [2, "ValueError: 3 is bad", 4, 5]


def test_skip_needs_a_count() -> None:
    with pytest.raises(BadArgument, match=r"not below 0, got -1, in \.skip\(-1\)"):
        numbers(3).skip(-1)
    with pytest.raises(LengthUnknown, match="skip"):
        len(numbers(3).filter(bool).skip(1))
