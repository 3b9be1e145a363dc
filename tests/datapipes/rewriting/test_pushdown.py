"""Pushdown: each rule leaves the elements and their order as they are, and makes a shard's own elements alone.

The plain definition is the same session with ``pushed`` switched off, and every n-th element of the graph while
it is not sharded.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from datapipes.description import structure
from datapipes.errors import StateError
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from datapipes.position import opening, session
from datapipes.position.iterator import PipeIterator
from datapipes.position.plan import in_run
from datapipes.position.seeds import Run
from datapipes.rewriting import gathering, pushdown
from tests.datapipes.rewriting.sharded_graphs import Costly, Own, opened, plainly, shards
from tests.naive_functions import keeps, tagged, twins
from tests.specimens.specimen import Countable

Build = Callable[[Pipe], Pipe]


def pushed(pipe: Pipe, of: int = 2) -> Pipe:
    unfolded = structure.unfold(pipe)
    return in_run(unfolded, structure.walk(unfolded), Run(0, shard=(of, 0)))


# What is above the filter, and how many elements it makes of each that the source has.
READS_ITS_PART: dict[str, tuple[Build, int]] = {
    "a source": (lambda s: s, 1),
    "map": (lambda s: s.map(tagged).map(tagged), 1),
    "prefetch": (lambda s: s.prefetch(2), 1),
    "what is handed on": (lambda s: s.set_length(20).sharding_round_robin_dispatch().shuffle().map(tagged), 1),
    "enumerate": (lambda s: s.enumerate().map(tagged), 1),
    "zip": (lambda s: s.map(tagged).zip(IterableWrapper(range(30)).enumerate()), 1),
    "header": (lambda s: s.header(99), 1),
    "skip": (lambda s: IterableWrapper(range(4)).concat(s.map(tagged)).skip(4).map(tagged), 1),
    "concat": (lambda s: IterableWrapper([]).concat(s).map(tagged), 1),
    "cycle": (lambda s: s.cycle(2), 2),
    "shuffle": (lambda s: s.shuffle(), 1),
    "a small shuffle": (lambda s: s.shuffle(buffer_size=3), 1),
    "a shuffle switched off": (lambda s: s.shuffle().set_shuffle(False), 1),
    "a pinned shuffle": (lambda s: s.shuffle().set_seed(3), 1),
    "map and shuffle": (lambda s: s.map(tagged).shuffle(buffer_size=4).map(tagged), 1),
    "shuffles": (lambda s: s.shuffle(buffer_size=2).map(tagged).prefetch(2).shuffle(buffer_size=5).map(tagged), 1),
    "a shuffle of pairs": (lambda s: s.zip(IterableWrapper(range(30))).shuffle(), 1),
}


@pytest.mark.parametrize("of", [2, 3, 8, 40])
@pytest.mark.parametrize("name", READS_ITS_PART)
def test_a_shard_reads_its_part_alone(name: str, of: int) -> None:
    build, times = READS_ITS_PART[name]
    source = Costly(20)
    graph = build(source.to_iter_datapipe()).sharding_filter().map(tagged)
    whole = list(opened(graph, Run(7)))
    for index in range(of):
        source.asked.clear()
        assert list(opened(graph, Run(7, shard=(of, index)))) == whole[index::of]
        assert len(source.asked) == len(whole[index::of])
    assert len(whole) == 20 * times
    assert shards(graph, of) == plainly(graph, of)


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_shuffled_map_style_pipe_is_asked_for_its_part_alone(shuffle: bool) -> None:
    source = Costly(20)
    graph = source.shuffle(indices=range(0, 20, 2)).set_shuffle(shuffle).map(tagged).sharding_filter()
    whole = list(opened(graph, Run(7)))
    for index in range(3):
        source.asked.clear()
        assert list(opened(graph, Run(7, shard=(3, index)))) == whole[index::3]
        assert [("tag", key) for key in source.asked] == whole[index::3]


def test_what_cannot_be_read_by_position_is_mapped_only_in_part() -> None:
    calls: list[Any] = []

    def noted(x: Any) -> Any:
        calls.append(x)
        return x

    graph = IterableWrapper(Countable(*range(9))).map(noted).prefetch(2).map(noted).sharding_filter()
    assert shards(graph, 3) == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    assert len(calls) == 2 * 9


def test_files_of_other_shards_are_not_opened(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{i}.txt") for i in range(6)]
    for path in paths[::3]:
        Path(path).write_text(path)
    for graph in (IterableWrapper(paths).open_files(), IterableWrapper(paths).open_files().shuffle(buffer_size=1)):
        found = opened(graph.sharding_filter(), Run(7, shard=(3, 0)))
        assert [stream.read() for _, stream in found] == paths[::3]


def test_only_a_shards_own_elements_are_copied() -> None:
    copied: list[int] = []

    class Noted:
        def __init__(self, number: int) -> None:
            self.number = number

        def __deepcopy__(self, memo: object) -> Noted:
            copied.append(self.number)
            return Noted(self.number)

    graph = IterableWrapper([Noted(i) for i in range(8)]).shuffle().sharding_filter()
    found = [noted.number for noted in opened(graph, Run(7, shard=(4, 1)))]
    assert len(found) == 2
    assert copied == found


NUMBERS = IterableWrapper(list(range(9)))
UNSEEKABLE = IterableWrapper(Countable(0, 1))

READ_AS: dict[str, tuple[Pipe, str]] = {
    "map": (NUMBERS.map(str).sharding_filter(), f"{NUMBERS}.sharding_filter().map(str)"),
    "a shuffle": (NUMBERS.map(str).shuffle().sharding_filter(), f"{NUMBERS}.shuffle().sharding_filter().map(str)"),
    "retry": (
        NUMBERS.map(str, on_error="retry(2)").shuffle().sharding_filter(),
        f"{NUMBERS}.shuffle().sharding_filter().map(str, on_error='retry(2)')",
    ),
    "prefetch": (NUMBERS.batch(2).prefetch().sharding_filter(), f"{NUMBERS}.batch(2).sharding_filter().prefetch()"),
    "below the shuffle": (
        UNSEEKABLE.map(str).shuffle().map(str).sharding_filter(),
        f"{UNSEEKABLE}.map(str).shuffle().sharding_filter().map(str)",
    ),
}
STAYS: dict[str, Build] = {
    "filter": lambda s: s.filter(keeps),
    "flatmap": lambda s: s.flatmap(twins),
    "batch": lambda s: s.batch(2),
    "unbatch": lambda s: s.batch(2).unbatch(),
    "repeat": lambda s: s.repeat(2),
    "mux": lambda s: s.mux(s),
    "fork": lambda s: s.fork(2)[0],
    "demux": lambda s: s.demux(2, keeps)[0],
    "a user's class": Own,
    "zip with what cannot be read by position": lambda s: s.zip(s.filter(keeps)),
    "zip with what runs ahead": lambda s: s.zip(s.prefetch()),
    "a stage that leaves elements out": lambda s: s.map(tagged, on_error="skip"),
    "a stage that may leave elements out": lambda s: s.map(tagged, on_error=lambda error, element: element),
    "a shuffle above one": lambda s: s.map(tagged, on_error="skip").shuffle(),
    "a shuffle of a batch's elements": lambda s: s.batch(2).shuffle(unbatch_level=1),
}


@pytest.mark.parametrize("name", READ_AS)
def test_how_a_graph_is_read(name: str) -> None:
    graph, read = READ_AS[name]
    before = repr(graph)
    assert repr(pushed(graph)) == read
    assert repr(graph) == before


@pytest.mark.parametrize("name", STAYS)
def test_what_does_not_commute_stays(name: str) -> None:
    graph = STAYS[name](Costly(9).to_iter_datapipe()).sharding_filter()
    assert repr(pushed(graph)) == repr(graph)
    assert shards(graph, 2) == plainly(graph, 2)


def test_one_shard_is_read_as_written() -> None:
    graph = structure.unfold(Costly(9).to_iter_datapipe().map(tagged).sharding_filter())
    assert in_run(graph, structure.walk(graph), Run(0)) is graph
    assert in_run(graph, structure.walk(graph), Run(0, shard=(1, 0))) is graph


def outcomes(iterator: PipeIterator[Any]) -> list[Any]:
    found: list[Any] = []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except ValueError as error:
            found.append(error)


ORDERS: dict[str, Build] = {
    "in order": lambda s: s,
    "shuffled": lambda s: s.shuffle(buffer_size=5),
    "zipped": lambda s: s.zip(NUMBERS.cycle()).map(tagged),
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_element_that_fails_is_an_error_of_its_own_shard(name: str) -> None:
    good, bad = Costly(12).to_iter_datapipe(), Costly(12, 4, 5).to_iter_datapipe()
    failed = 0
    for index in range(3):
        run = Run(7, shard=(3, index))
        expected = outcomes(opened(ORDERS[name](good).sharding_filter(), run))
        found = outcomes(opened(ORDERS[name](bad).sharding_filter(), run))
        assert len(found) == len(expected)
        for outcome, element in zip(found, expected, strict=True):
            failed += isinstance(outcome, ValueError)
            assert outcome == element or isinstance(outcome, ValueError)
    assert failed == 2


@pytest.mark.parametrize("bad", range(12))
def test_a_shard_goes_on_from_a_state_that_was_saved_after_an_error(bad: int) -> None:
    def graph(*bad: int) -> Pipe:
        return Costly(12, *bad).to_iter_datapipe().map(tagged).shuffle(buffer_size=3).sharding_filter()

    index = next(i for i, shard in enumerate(shards(graph(), 2)) if ("tag", bad) in shard)
    run = Run(7, shard=(2, index))
    iterator = opened(graph(bad), run)
    with pytest.raises(ValueError, match=f"{bad} is bad"):
        list(iterator)
    again = opened(graph(bad), run)
    again.load_state_dict(iterator.state_dict())
    rest = list(iterator)
    assert list(again) == rest
    assert rest == list(opened(graph(), run))[6 - len(rest) :]


def test_a_note_names_the_stage_and_the_number() -> None:
    def refuse(x: Any) -> Any:
        raise ValueError(x)

    graph = Costly(9).to_iter_datapipe().zip(NUMBERS.map(refuse)).enumerate().sharding_filter().map(tagged)
    iterator = opened(graph, Run(0, shard=(6, 5)))
    with pytest.raises(ValueError, match="5") as caught:
        next(iterator)
    (note,) = caught.value.__notes__
    assert note.startswith("raised in stage .map(<")
    assert "\n  on element 5 of .enumerate() (counted from 0): 5\n" in note


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_state_from_a_longer_source_is_refused(shuffle: bool) -> None:
    def graph(length: int) -> Pipe:
        return Costly(length).to_iter_datapipe().shuffle().set_shuffle(shuffle).sharding_filter()

    run = Run(7, shard=(2, 1))
    iterator = opened(graph(9), run)
    list(islice(iterator, 4))
    with pytest.raises(StateError, match=r"\d"):
        opened(graph(5), run).load_state_dict(iterator.state_dict())


def test_a_shuffle_between_two_filters_keeps_the_seed_of_its_shard() -> None:
    first = Costly(20).to_iter_datapipe().sharding_filter()
    first.apply_sharding(2, 1)
    graph = first.map(tagged).shuffle(buffer_size=3).map(tagged).sharding_filter()
    assert shards(graph, 2) == plainly(graph, 2)


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_collection_that_was_a_stream(shuffle: bool) -> None:
    pairs = IterableWrapper(range(9)).map(lambda x: (x, x)).prefetch(2).to_map_datapipe()
    graph = pairs.shuffle().set_shuffle(shuffle).sharding_filter().map(tagged)
    assert shards(graph, 2) == plainly(graph, 2)


@pytest.mark.parametrize("module", [gathering, opening, pushdown, session], ids=lambda module: module.__name__)
def test_what_opens_a_graph_knows_no_operator(module: ModuleType) -> None:
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    asked = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    assert asked
    assert not [name for name in asked if name.startswith(("datapipes.iter.", "datapipes.map."))]
