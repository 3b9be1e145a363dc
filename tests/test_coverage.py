"""The table of ``tests.coverage``, a process group at a time, and what it says where elements are lost or doubled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reading_services import PADDING
from tests.coverage import WORLDS, Given, cases, complaints_of, expected_lengths, tried, wrong_with


@pytest.mark.parametrize("world", [world for world in WORLDS if world != 4])  # which the table has, and nothing new
def test_every_element_once(world: int) -> None:
    complaints = complaints_of(world, tried(world, cases(world)))
    assert not complaints, "\n".join(complaints)


def test_what_is_wrong_is_found() -> None:
    own = expected_lengths(2, 1, 5)
    assert own == [3, 2]
    good = [Given([[0, 2]] * 3, dropped=1), Given([[1, 3]] * 3)]
    assert wrong_with("drop", 5, own, good) == []
    for bad in (
        replace(good[0], dropped=0),
        replace(good[0], epochs=[[0, 1]] * 3),
        replace(good[0], epochs=[[0, 2, 4]] * 3),
        replace(good[0], epochs=[[0, 7]] * 3),
        replace(good[0], epochs=[[0, 2], [0, 2], [2, 0]]),
        replace(good[0], epochs=[[0, PADDING]] * 3),
        replace(good[0], raised=["RankDied: "]),
    ):
        assert wrong_with("drop", 5, own, [bad, good[1]]) != [], bad
    full, short = Given([[0, 2, 4]] * 3), Given([[1, 3]] * 3)
    filled, again = Given([[1, 3, PADDING]] * 3), Given([[1, 3, 1]] * 3)
    for policy, last, holds in (
        ("pad", filled, True),
        ("pad", again, False),
        ("pad", short, False),
        ("repeat", again, True),
        ("repeat", filled, False),
        ("error", short, False),
        ("error", Given(raised=["UnevenRanks: "] * 3), False),
    ):
        assert (wrong_with(policy, 5, own, [full, last]) == []) is holds, (policy, last)  # type: ignore[arg-type]  # they are policies
    assert wrong_with("drop", 200, [100, 100], [Given([[*range(r, 200, 2)]] * 3) for r in (0, 1)]) != [], "no new order"
