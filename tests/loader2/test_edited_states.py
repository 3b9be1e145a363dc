"""A state that was edited is refused, or it is the same position: no edit gives other elements.

``python -m tests.loader2.test_edited_states 2800`` tries that many edits.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any

import pytest

from datapipes.errors import GraphError, StateError
from datapipes.iter import IterableWrapper
from datapipes.position.iterator import iterate
from loader2 import DataLoader2
from reading_services import ThreadingReadingService
from tests.loader2.graphs import GRAPHS, State, as_0_1_0, shown, states_of, what_follows

EDITS = 1000

Load = Callable[[State], list[str]]


def by_loader(graph: Any, state: State) -> list[str]:
    loader = DataLoader2(graph())
    loader.load_state_dict(state)
    return what_follows(loader)


def by_iterator(graph: Any, state: State) -> list[str]:
    iterator = iterate(graph())
    iterator.load_state_dict(state)
    return shown(iterator)


def sharded() -> Any:
    return IterableWrapper(range(40)).shuffle(buffer_size=7).sharding_filter().batch(3)


def by_threads(graph: Any, state: State) -> list[str]:
    with DataLoader2(graph(), reading_service=ThreadingReadingService(2)) as loader:
        loader.load_state_dict(state)
        return what_follows(loader)


@cache
def states() -> list[tuple[State, Load, list[str]]]:
    """States of loaders and iterators, how each is loaded, and what follows."""
    found: list[tuple[State, Load, list[str]]] = []
    for graph in GRAPHS:
        for state, expected in states_of(graph)[::3]:
            found.append((state, partial(by_loader, graph), expected))
        iterator = iterate(graph())
        next(iterator)
        state = iterator.state_dict()
        found.append((state, partial(by_iterator, graph), shown(iterator)))
    with DataLoader2(sharded(), reading_service=ThreadingReadingService(2)) as loader:
        loader.seed(1)
        begun = iter(loader)
        next(begun)
        state = loader.state_dict()
        expected = shown(begun) + shown(loader)
    found.append((state, lambda state: by_threads(sharded, state), expected))
    return found


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """The containers in a state, each with a key or an index in it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


def other_than(value: Any, draw: random.Random) -> Any:
    """Another value, as a slip of the hand or a flipped bit makes one."""
    if type(value) is int:
        return draw.choice([value + draw.choice([-1, 1, 2, 100]), value ^ (1 << draw.randrange(40)), bool(value), None])
    if type(value) is bytes and value:
        at = draw.randrange(len(value))
        changed = value[:at] + bytes([value[at] ^ (1 << draw.randrange(8))]) + value[at + 1 :]
        return draw.choice([changed, value[:at], value + b"x", None])
    if type(value) is str and value:
        at = draw.randrange(len(value))
        return draw.choice([value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :], value[:at], None])
    if type(value) in (list, tuple) and value:
        return draw.choice([value[1:], value[::-1], [*value, value[0]]])
    return draw.choice([0, 1, True, False, "", b"", [], {}, None])


def edited(state: State, draw: random.Random) -> State:
    """A copy of a state with one thing in it replaced, taken out, moved or exchanged."""
    state = copy.deepcopy(state)
    within, key = draw.choice(list(places(state)))
    kind = draw.choice(["replace", "replace", "replace", "take out", "move", "exchange"])
    if kind == "take out":
        del within[key]
    elif kind == "move" and isinstance(within, dict):
        within[other_than(key, draw)] = within.pop(key)
    elif kind == "exchange":
        other = draw.choice(list(within) if isinstance(within, dict) else range(len(within)))
        within[key], within[other] = within[other], within[key]
    else:
        within[key] = other_than(within[key], draw)
    return state


def loaded_as_others(edits: int, seed: int) -> list[str]:
    """The edits that were not refused, and gave other elements."""
    draw = random.Random(seed)
    wrong = []
    for number in range(edits):
        state, load, expected = draw.choice(states())
        other = edited(state, draw)
        try:
            found = load(other)
        except StateError:
            continue
        if found != expected:
            wrong.append(f"edit {number}: {other}")
    return wrong


def test_no_edit_gives_other_elements() -> None:
    assert loaded_as_others(EDITS, seed=0) == []


def test_without_the_checksum_some_would() -> None:
    """The edits prove something: states of the version without checksums do not notice all of them."""
    draw = random.Random(0)
    went_through = []
    for _ in range(EDITS):
        state, load, expected = draw.choice(states())
        # An edit may raise anything here: nothing but the checksum keeps it from the stages.
        with suppress(StateError, TypeError, ValueError, LookupError, AttributeError, GraphError, OverflowError):
            went_through.append(load(edited(as_0_1_0(state), draw)) != expected)
    assert any(went_through)


@pytest.mark.parametrize("number", range(4))
def test_json_is_named_as_the_reason(number: int) -> None:
    graph = IterableWrapper(range(100)).shuffle().batch(3)
    loader, iterator = DataLoader2(graph), iterate(graph)
    for _ in zip(range(number), loader, iterator, strict=False):
        pass
    for state, other in ((loader.state_dict(), DataLoader2(graph)), (iterator.state_dict(), iterate(graph))):
        if state["cells"]:
            with pytest.raises(
                StateError, match=r"^(cells|sources): .* went through JSON, .* torch\.save\(\) or pickle"
            ):
                other.load_state_dict(json.loads(json.dumps(state)))


if __name__ == "__main__":
    sys.exit("\n".join(loaded_as_others(int(sys.argv[1]), seed=1)) or None)
