"""Random graphs of operators give what a naive interpreter says, and can be saved and resumed anywhere.

What is random is the graph, the seed, where it is saved, and in which turns two openings are read. Every run of the
tests draws the same.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datapipes.errors import GraphError, StateError
from datapipes.graph import Pipe
from loader2 import DataLoader2
from loader2.adapters import Shuffle
from loader2.testing.comparing import taken
from tests.naive_functions import as_text, tagged
from tests.naive_graphs import KINDS, MOST_ELEMENTS, Graph, Joined, Source, Split, Stepped, Steps, TooMany
from tests.naive_operators import JOINS, STAGES, UNARY, Known

GRAPHS = 200

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* goes on after ValueError"),
    pytest.mark.filterwarnings("ignore:random_split deals elements out by their number"),
]


def steps_of(names: list[str], most: int) -> st.SearchStrategy[Steps]:
    one = st.tuples(st.sampled_from(names), st.integers(1, 3))
    return st.lists(one, max_size=most).map(tuple)


# The first one is what failures are reduced to; short streams end before anything interesting happens.
SOURCES = st.builds(
    Source, st.sampled_from([0, 100, 200]), st.sampled_from([9, 12, 5, 2, 1, 0]), st.sampled_from(list(KINDS))
)
# What goes back to the start does so alone, on a branch without its sibling: that is refused.
ALONE = {"cycle", "no end", "cache", "random split", "retry", "timeout"}
# The orders of these are drawn whether the graph is to be shuffled or not.
ALWAYS_DRAWN = {"random split", "drawn", "mixed"}
# What is known behind these, although the order is not.
ELEMENTWISE = [name for name, operator in UNARY.items() if operator.knows(Known.ELEMENTS) is Known.ELEMENTS]


def is_small(graph: Graph) -> bool:
    try:
        return len(graph.means()) <= MOST_ELEMENTS
    except TooMany:
        return False


def graphs(unary: list[str], joins: list[str]) -> st.SearchStrategy[Graph]:
    """Graphs of some of the operators."""
    branch = steps_of([name for name in unary if name not in ALONE], 2)

    def larger(smaller: st.SearchStrategy[Graph]) -> st.SearchStrategy[Graph]:
        return st.one_of(
            st.builds(Stepped, smaller, steps_of(unary, 4)),
            st.builds(Joined, st.sampled_from(joins), smaller, smaller),
            st.builds(Split, st.booleans(), st.sampled_from(joins), smaller, branch, branch),
        )

    return st.recursive(SOURCES, larger, max_leaves=4).filter(is_small)


GRAPH = graphs(list(UNARY), list(JOINS))
IN_ORDER = graphs([name for name in UNARY if name not in ALWAYS_DRAWN], [x for x in JOINS if x not in ALWAYS_DRAWN])
RAISING_GRAPH = graphs(list(STAGES), list(JOINS))
TOLERATING = ["tolerant", "tolerant twins", "tolerant batches", "cycle", "no end", "plain", "plain and more", "retry"]
TOLERATING_GRAPH = graphs([*TOLERATING, "timeout", "cache", "shuffle"], [*JOINS])
ELEMENTWISE_GRAPH = graphs(ELEMENTWISE, ["concat", "drawn"])
SEEDS = st.integers(0, 2**64 - 1)
EXAMPLES = settings(max_examples=GRAPHS, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def loaded(pipe: Pipe, seed: int | None = None) -> DataLoader2[Any]:
    loader: DataLoader2[Any] = DataLoader2(pipe)
    if seed is not None:
        loader.seed(seed)
    return loader


def as_texts(elements: Iterable[Any]) -> list[str]:
    return [as_text(element) for element in elements]


@EXAMPLES
@given(IN_ORDER)
def test_without_shuffling_a_graph_gives_what_it_means(graph: Graph) -> None:
    expected = as_texts(graph.means())
    assert as_texts(iter(DataLoader2(graph.build(), Shuffle(False)))) == expected


@EXAMPLES
@given(GRAPH, SEEDS)
def test_with_shuffling_a_graph_gives_what_is_known_of_it(graph: Graph, seed: int) -> None:
    check_against_what_is_known(graph, seed)


@EXAMPLES
@given(ELEMENTWISE_GRAPH, SEEDS)
def test_shuffles_lose_nothing_and_double_nothing(graph: Graph, seed: int) -> None:
    assert graph.known() >= Known.ELEMENTS
    check_against_what_is_known(graph, seed)


def check_against_what_is_known(graph: Graph, seed: int) -> None:
    expected, known = as_texts(graph.means()), graph.known()
    found = as_texts(iter(loaded(graph.build(), seed)))
    if known is Known.ORDER:
        assert found == expected
    elif known is Known.ELEMENTS:
        assert Counter(found) == Counter(expected)
    elif known is Known.LENGTH:
        assert len(found) == len(expected)
    assert as_texts(iter(loaded(graph.build(), seed))) == found, "the same seed gives another order"


def shard_of(pipe: Pipe, seed: int, of: int, index: int) -> DataLoader2[Any]:
    shard = pipe.sharding_filter()
    shard.apply_sharding(of, index)
    return loaded(shard.map(tagged), seed)


@EXAMPLES
@given(GRAPH, SEEDS, st.integers(2, 4))
def test_the_shards_of_a_graph_are_its_elements_dealt_out_in_turn(graph: Graph, seed: int, of: int) -> None:
    whole = as_texts(iter(shard_of(graph.build(), seed, 1, 0)))
    for index in range(of):
        assert as_texts(iter(shard_of(graph.build(), seed, of, index))) == whole[index::of]


@EXAMPLES
@given(GRAPH, SEEDS, st.data())
def test_a_graph_is_resumed_exactly_wherever_it_was_saved(graph: Graph, seed: int, data: st.DataObject) -> None:
    whole, loader = taken(iter(loaded(graph.build(), seed))), loaded(graph.build(), seed)
    done = 0
    for _ in range(3):
        k = data.draw(st.integers(done, len(whole)), label="saved after")
        iterator = iter(loader)
        assert taken(iterator, k - done) == whole[done:k]
        state = pickle.dumps(loader.state_dict())
        assert taken(iterator) == whole[k:], "after it was saved"
        loader, done = loaded(graph.build()), k
        loader.load_state_dict(pickle.loads(state))
    assert taken(iter(loader)) == whole[done:]


@EXAMPLES
@given(TOLERATING_GRAPH, SEEDS, st.data())
def test_tolerated_errors_are_counted_once_wherever_a_graph_was_saved(
    graph: Graph, seed: int, data: st.DataObject
) -> None:
    uninterrupted, loader = loaded(graph.build(), seed), loaded(graph.build(), seed)
    whole, done = taken(iter(uninterrupted)), 0
    for _ in range(2):
        k = data.draw(st.integers(done, len(whole)), label="saved after")
        assert taken(iter(loader), k - done) == whole[done:k]
        state = pickle.dumps(loader.state_dict())
        loader, done = loaded(graph.build()), k
        loader.load_state_dict(pickle.loads(state))
    assert taken(iter(loader)) == whole[done:]
    assert loader.errors == uninterrupted.errors


@EXAMPLES
@given(GRAPH.filter(lambda graph: graph.changed() is not None), SEEDS, st.data())
def test_a_position_above_other_elements_is_refused(graph: Graph, seed: int, data: st.DataObject) -> None:
    loader = loaded(graph.build(), seed)
    iterator = iter(loader)
    taken(iterator, data.draw(st.integers(0, 5), label="saved after"))
    state, changed = loader.state_dict(), graph.changed()
    assert changed is not None
    if state["status"] == "running":
        with pytest.raises(StateError, match="sources: the state was saved above other elements"):
            loaded(changed.build()).load_state_dict(state)
        with suppress(StateError):  # it may be beyond the end now
            loaded(changed.build()).load_state_dict(state, strict=False)


@EXAMPLES
@given(GRAPH, SEEDS, SEEDS, st.lists(st.booleans(), max_size=30))
def test_two_openings_of_a_graph_are_independent(graph: Graph, one: int, other: int, turns: list[bool]) -> None:
    pipe = graph.build()
    alone = [taken(iter(loaded(pipe, seed))) for seed in (one, other)]
    openings: list[Iterator[Any]] = [iter(loaded(pipe, seed)) for seed in (one, other)]
    found: list[list[str]] = [[], []]
    for turn in turns:
        found[turn] += taken(openings[turn], 1)
    for which, opening in enumerate(openings):
        assert found[which] + taken(opening) == alone[which]


WITHOUT_END = ["an error"] * 8
"""What a user's generator that cannot get past an error of its source goes on with, each time by running again."""


def outcomes(iterator: Iterator[Any], most: int = 1000) -> list[str]:
    """Elements as texts, and a word for each error: what a state knows of one is not its type."""
    found: list[str] = []
    while len(found) < most and found[-len(WITHOUT_END) :] != WITHOUT_END:
        try:
            found.append(as_text(next(iterator)))
        except StopIteration:
            return found
        except (ValueError, GraphError):
            found.append("an error")
    return found


@EXAMPLES
@given(RAISING_GRAPH, SEEDS, st.data())
def test_what_raises_raises_again_wherever_it_was_saved(graph: Graph, seed: int, data: st.DataObject) -> None:
    whole, loader = outcomes(iter(loaded(graph.build(), seed))), loaded(graph.build(), seed)
    k = data.draw(st.integers(0, len(whole)), label="saved after")
    iterator = iter(loader)
    assert outcomes(iterator, k) == whole[:k]
    state = pickle.dumps(loader.state_dict())
    most = len(whole) - k if whole[-len(WITHOUT_END) :] == WITHOUT_END else len(whole) - k + 1
    assert outcomes(iterator, most) == whole[k:], "after it was saved"
    again = loaded(graph.build())
    again.load_state_dict(pickle.loads(state))
    assert outcomes(iter(again), most) == whole[k:]
