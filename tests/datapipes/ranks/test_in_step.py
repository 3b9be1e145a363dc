"""Ranks in step against a plain count, whatever the order in which they get on; and what they do about bad news."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as some

from datapipes import iterate
from datapipes.errors import (
    GraphError,
    PrefetchTimeoutError,
    RankDied,
    RankFailed,
    RankLeft,
    RanksDiffer,
    RanksError,
    UnevenRanks,
    UnsavableElement,
)
from datapipes.graph import Pipe
from datapipes.iter import FullSync, IterableWrapper
from datapipes.iter.placement import full_sync
from datapipes.position.position_history import SnapshotBudget
from datapipes.ranks.synchronized import PADDING
from datapipes.ranks.topics import POLICIES, EpochAgreement, Uneven
from tests.datapipes.iter.mishaps import outcomes
from tests.datapipes.position.silent_at_times import SilentAtTimes
from tests.datapipes.ranks.taking_turns import InTurns, in_turns
from tests.specimens.users import Counting, Resumable, Summed

SEEDS = some.integers(0, 2**32 - 1)
COUNTS = some.lists(some.integers(0, 9) | some.sampled_from([70, 130]), min_size=2, max_size=4)
KNOWN = some.booleans()
UNEVEN: some.SearchStrategy[Uneven] = some.sampled_from(POLICIES)


@pytest.fixture(autouse=True)
def _there_are_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_sync, "here", lambda: (0, 2))  # how many there are, the exchange knows


def is_any(x: int) -> bool:
    return True


def synced(exchange: InTurns, graph: Pipe, known: bool, uneven: Uneven = "drop") -> FullSync[Any]:
    """A graph that is kept in step, whose length is known or is not."""
    stage: FullSync[Any] = FullSync(graph if known else graph.filter(is_any), uneven=uneven)
    stage.exchange = exchange
    return stage


def own(rank: int, count: int) -> list[int]:
    return list(range(1000 * rank, 1000 * rank + count))


def outcome(exchange: InTurns, elements: Iterator[Any], taken: list[Any]) -> list[Exception]:
    """All elements, taken with steps in between in which others run; returns the errors among them."""
    errors: list[Exception] = []
    while True:
        try:
            for element in elements:
                taken.append(element)
                if len(taken) % 3 == 0:
                    exchange.others_run()
            return errors
        except (GraphError, RanksError, ValueError) as error:
            errors.append(error)
            if isinstance(error, UnevenRanks | RankDied | RankLeft | RanksDiffer) or len(errors) > 5:
                return errors


def expected(rank: int, counts: list[int], uneven: Uneven) -> list[Any]:
    mine = own(rank, counts[rank])
    if uneven in ("drop", "error"):
        return mine[: min(counts)]
    if uneven == "pad":
        return mine + [PADDING] * (max(counts) - len(mine))
    return [mine[i % len(mine)] for i in range(max(counts))]


@given(COUNTS, KNOWN, UNEVEN, SEEDS)
def test_ranks_have_equally_many(counts: list[int], known: bool, uneven: Uneven, seed: int) -> None:
    def run(exchange: InTurns) -> Any:
        graph = synced(exchange, IterableWrapper(own(exchange.rank, counts[exchange.rank])), known, uneven)
        taken: list[Any] = []
        return taken, outcome(exchange, iter(graph), taken), exchange.dropped

    ranks = in_turns(len(counts), run, seed)
    if uneven == "repeat" and min(counts) == 0 < max(counts):
        errors = [error for _, several, _ in ranks for error in several]
        assert any("no elements to repeat" in str(error) for error in errors)
        return
    for rank, (taken, errors, dropped) in enumerate(ranks):
        assert taken == expected(rank, counts, uneven)
        if uneven == "error" and len(set(counts)) > 1:
            (error,) = errors
            assert isinstance(error, UnevenRanks)
            assert f"rank {counts.index(min(counts))} has {min(counts)}" in str(error)
        else:
            assert errors == []
            least = counts[rank] - min(counts) if uneven == "drop" else 0
            assert dropped == least if known else dropped <= least


@given(COUNTS.filter(all), KNOWN, UNEVEN, SEEDS, some.floats(0, 1))
def test_resume_anywhere(counts: list[int], known: bool, uneven: Uneven, seed: int, saved: float) -> None:
    if uneven == "error":
        counts = [counts[0]] * len(counts)
    length = min(counts) if uneven == "drop" else max(counts)

    def graph(exchange: InTurns) -> FullSync[Any]:
        source = IterableWrapper(own(exchange.rank, counts[exchange.rank])).shuffle(buffer_size=3).set_seed(7)
        return synced(exchange, source, known, uneven)

    def begin(exchange: InTurns) -> tuple[bytes, list[Any]]:
        iterator = iterate(graph(exchange))
        for _ in islice(iterator, round(saved * length)):
            pass
        return pickle.dumps(iterator.state_dict()), list(iterator)

    def go_on(exchange: InTurns) -> list[Any]:
        iterator = iterate(graph(exchange))
        iterator.load_state_dict(pickle.loads(begun[exchange.rank][0]))
        return list(iterator)

    begun = in_turns(len(counts), begin, seed)
    assert in_turns(len(counts), go_on, seed + 1) == [rest for _, rest in begun]
    assert {len(rest) for _, rest in begun} == {length - round(saved * length)}


def failing(bad: set[int]) -> Callable[[int], int]:
    def fn(x: int) -> int:
        if x in bad:
            raise ValueError(f"bad row {x}")
        return x

    return fn


@given(some.integers(2, 4), some.integers(1, 70), some.integers(1, 3), KNOWN, SEEDS, some.data())
def test_all_go_on_behind_errors(world: int, count: int, errors: int, known: bool, seed: int, data: Any) -> None:
    """A rank that fails has one element less, and so have all; a second failure may reach the others too late."""
    fails = data.draw(some.integers(0, world - 1))
    bad = data.draw(some.sets(some.sampled_from(own(fails, count)), min_size=1, max_size=errors))

    def run(exchange: InTurns) -> Any:
        source = IterableWrapper(own(exchange.rank, count)).map(failing(bad))
        taken: list[Any] = []
        return taken, outcome(exchange, iter(synced(exchange, source, known)), taken)

    told = [f"rank {fails} failed: ValueError: bad row {x}" for x in sorted(bad)]
    for rank, (taken, found) in enumerate(in_turns(world, run, seed)):
        if rank == fails:
            assert taken == [x for x in own(rank, count) if x not in bad]
            assert [str(error) for error in found] == [f"bad row {x}" for x in sorted(bad)]
        else:
            most = len(taken) - (count - len(bad))
            assert taken == own(rank, count)[: len(taken)]
            assert 0 <= most < len(bad)
            if most:
                assert isinstance(found.pop(), RanksDiffer)
            assert [str(error) for error in found] == told
            assert all(isinstance(error, RankFailed) and "in fn" in error.traceback for error in found)


@given(some.integers(2, 4), some.integers(1, 70), KNOWN, some.booleans(), SEEDS)
def test_who_dies_or_leaves_is_named(world: int, after: int, known: bool, dies: bool, seed: int) -> None:
    """The others go as far as one that leaves has gone, and no element further than they are."""
    taken: list[list[Any]] = [[] for _ in range(world)]
    at_that_time: list[int] = []

    def run(exchange: InTurns) -> list[Exception]:
        iterator = iterate(synced(exchange, IterableWrapper(own(exchange.rank, 71)), known))
        if exchange.rank:
            return outcome(exchange, iterator, taken[exchange.rank])
        for _ in range(after):
            next(iterator)
        at_that_time.extend(map(len, taken))
        if dies:
            exchange.die()
        else:
            iterator.session.close()
        return []

    how = "has died" if dies else f"has left the epoch after {after} elements"
    for rank, errors in enumerate(in_turns(world, run, seed)):
        if rank and at_that_time[rank] == 71:  # it had ended before
            assert not known
            assert errors == []
        elif rank:
            assert len(taken[rank]) == max(at_that_time[rank], 0 if dies else after)
            (error,) = errors
            assert type(error) is (RankDied if dies else RankLeft)
            assert f"rank 0 {how}" in str(error)


@given(some.integers(2, 4), some.integers(0, 70), KNOWN, SEEDS)
def test_who_keeps_all_waiting_is_named(world: int, at: int, known: bool, seed: int) -> None:
    def run(exchange: InTurns) -> Any:
        def fn(x: int) -> int:
            while x == at and not exchange.others_run(until=lambda: exchange.alarmed):
                pass
            return x

        source = IterableWrapper(own(exchange.rank, 71)).map(fn)
        with pytest.raises(RanksError) as caught:
            list(synced(exchange, source, known))
        return type(caught.value), str(caught.value)

    stalled, *others = in_turns(world, run, seed)
    assert stalled[0] is RankFailed
    assert PrefetchTimeoutError in {kind for kind, _ in others} <= {PrefetchTimeoutError, RankFailed}
    for _, text in (stalled, *others):
        assert text.endswith("Fail to fetch data within 1800 seconds, waiting for rank 0")


@pytest.mark.parametrize("known", [True, False])
def test_bad_news_come_before_the_next_element(known: bool) -> None:
    """However many are agreed."""
    in_a_step: list[bool] = []

    def run(exchange: InTurns) -> int:
        def fn(x: int) -> int:
            if x == 1200:
                assert exchange.others_run(until=lambda: in_a_step)
                raise ValueError("bad row")
            return x

        count = 0
        try:
            for _ in synced(exchange, IterableWrapper(own(exchange.rank, 300)).map(fn), known):
                count += 1
                if count == 100 and exchange.rank == 0:
                    in_a_step.append(True)
                    assert exchange.others_run(until=lambda: exchange.alarmed)
        except (RankFailed, ValueError):
            return count
        raise AssertionError("no error")

    assert in_turns(2, run)[0] == 100


def test_an_element_that_is_kept_back_is_part_of_the_position() -> None:
    made: list[int] = []
    states: dict[int, Any] = {}

    def graph(exchange: InTurns) -> FullSync[Any]:
        def fn(x: int) -> int:
            if x == 50:
                made.append(x)
            if x == 1050:
                assert exchange.others_run(until=lambda: made)
                raise ValueError("bad row")
            return x

        return synced(exchange, IterableWrapper(own(exchange.rank, 51)).map(fn), True, "pad")

    def begin(exchange: InTurns) -> Any:
        iterator = iterate(graph(exchange))
        with pytest.raises((RankFailed, ValueError)) as caught:
            for count, _ in enumerate(iterator, 1):  # noqa: B007 - of those before the error
                pass
        states[exchange.rank] = iterator.state_dict()
        return caught.type, count, list(iterator)

    def go_on(exchange: InTurns) -> list[Any]:
        iterator = iterate(graph(exchange))
        iterator.load_state_dict(states[exchange.rank])
        return list(iterator)

    assert in_turns(2, begin) == [(RankFailed, 50, [50]), (ValueError, 50, [PADDING])]
    assert in_turns(2, go_on) == [[50], [PADDING]]


class Hidden(NamedTuple):
    """A number that cannot be saved in this form."""

    number: int
    lock: Any

    @classmethod
    def of(cls, number: int) -> Hidden:
        return cls(number, threading.Lock())


def waiting_unsaved(bad: set[int]) -> Pipe:
    """Numbers, of which some wait above in a form that cannot be saved, errors among them."""
    return (
        IterableWrapper(range(7))
        .map(Hidden.of)
        .shuffle(buffer_size=3)
        .set_seed(7)
        .map(lambda x: failing(bad)(x.number))
    )


@pytest.mark.parametrize("bad", [None, set(), {5}])
@pytest.mark.parametrize("is_cheap", [True, False])
def test_who_cannot_say_where_it_is_goes_on(
    bad: set[int] | None, is_cheap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a state is refused, or is one to go on from, in whichever lap."""
    monkeypatch.setattr(SnapshotBudget, "is_cheap", lambda self: is_cheap)

    def opened(exchange: InTurns) -> Any:
        short = SilentAtTimes(20) if bad is None else waiting_unsaved(bad)
        return iterate(synced(exchange, IterableWrapper(range(20)) if exchange.rank else short, False, "repeat"))

    def take(exchange: InTurns, iterator: Iterator[Any], most: int) -> None:
        mine = taken[exchange.rank]
        while len(mine) < most:
            try:
                mine.append(next(iterator))
            except (ValueError, RankFailed):
                continue
            if exchange.rank:  # the other one is to meet its errors while this one is there
                exchange.others_run(until=lambda: exchange.alarmed or len(taken[0]) >= len(mine))

    def begin(exchange: InTurns) -> None:
        iterator = opened(exchange)
        take(exchange, iterator, k)
        with suppress(LookupError, UnsavableElement):
            states[exchange.rank] = pickle.dumps(iterator.state_dict())
        take(exchange, iterator, 20)

    def go_on(exchange: InTurns) -> None:
        iterator = opened(exchange)
        iterator.load_state_dict(pickle.loads(states[exchange.rank]))
        take(exchange, iterator, 20 - k)

    whole: list[list[Any]] = []
    laps = set()
    for k in range(20):
        states: dict[int, bytes] = {}
        taken: list[list[Any]] = [[], []]
        in_turns(2, begin)
        whole = whole or taken
        assert taken == whole
        if len(states) == 2:
            taken = [[], []]
            in_turns(2, go_on)
            assert taken == [each[k:] for each in whole]
            cells = pickle.loads(states[0])["cells"].values()
            (cell,) = (cell for cell in cells if isinstance(cell, dict) and "lap" in cell)
            laps.add((cell["lap"][0] if cell["lap"] else 0, cell["ahead"] is None))
    if bad is not None:
        assert {(0, True), (1, True), (2, True)} <= laps
        assert ((1, False) in laps) == bool(bad), "behind an error its position is that of now, with what waits"


def test_ranks_at_one_step_differ_in_what_they_have_taken() -> None:
    """Where stages below take more on one rank than on another; then each goes on from where it is."""

    def opened(exchange: InTurns) -> Any:
        source = IterableWrapper(own(exchange.rank, 40))
        return iterate(synced(exchange, source, False).filter(lambda x: exchange.rank == 1 or x % 3 == 0))

    def begin(exchange: InTurns) -> Any:
        iterator = opened(exchange)
        taken = list(islice(iterator, k))
        return taken, iterator.state_dict(), list(iterator)

    def go_on(exchange: InTurns) -> list[Any]:
        iterator = opened(exchange)
        iterator.load_state_dict(begun[exchange.rank][1])
        return list(iterator)

    for k in range(13):
        begun = in_turns(2, begin, k)
        assert in_turns(2, go_on, k) == [rest for _, _, rest in begun]


def mixed(source: Pipe) -> Pipe:
    return Resumable(source).map(range).shuffled_flatmap(buffer_size=2)


@pytest.mark.parametrize("shape", [Resumable, Counting, Summed, mixed])
def test_laps_of_a_class_are_as_those_of_a_cycle(shape: Callable[[Pipe], Pipe]) -> None:
    """Whatever the class has set on itself in the lap before; and each can be resumed."""
    length = len(list(shape(IterableWrapper(range(3)))))
    states: list[list[bytes]] = [[], []]

    def opened(exchange: InTurns) -> Any:
        source = IterableWrapper(range(7 if exchange.rank else 3))
        return iterate(synced(exchange, shape(source), False, "repeat"))

    def begin(exchange: InTurns) -> list[Any]:
        iterator = opened(exchange)
        mine: list[Any] = []
        while True:
            states[exchange.rank].append(pickle.dumps(iterator.state_dict()))
            try:
                mine.append(next(iterator))
            except StopIteration:
                return mine

    def go_on(k: int, exchange: InTurns) -> list[Any]:
        iterator = opened(exchange)
        iterator.load_state_dict(pickle.loads(states[exchange.rank][k]))
        return list(iterator)

    whole = in_turns(2, begin)
    assert len(whole[0]) > 2 * length
    if shape is not mixed:  # where each lap has an order of its own
        assert whole[0] == list(islice(shape(IterableWrapper(range(3))).cycle(), len(whole[0])))
    for k in range(len(whole[0]) + 1):
        assert in_turns(2, partial(go_on, k)) == [each[k:] for each in whole]


def test_an_error_that_waits_is_saved_however_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotBudget, "is_cheap", lambda self: False)  # so that what is ahead is saved

    def opened(exchange: InTurns, state: Any = None) -> Any:
        iterator = iterate(synced(exchange, SilentAtTimes(20).map(failing({2, 7, 14})), False))
        if state is not None:
            iterator.load_state_dict(state)
        return iterator

    def begin(k: int, exchange: InTurns) -> Any:
        iterator = opened(exchange)
        had = outcomes(iterator, k)
        try:
            return had, iterator.state_dict()
        except LookupError:
            return had, None

    def save_again(state: Any, exchange: InTurns) -> Any:
        return opened(exchange, state).state_dict()

    def go_on(state: Any, exchange: InTurns) -> Any:
        return outcomes(opened(exchange, state))

    loads = 0
    for k in range(20):
        ((had, state),) = in_turns(1, partial(begin, k))
        if state is not None:
            (state,) = in_turns(1, partial(save_again, state))
            (rest,) = in_turns(1, partial(go_on, state))
            assert [number for number, each in enumerate(had + rest, 1) if isinstance(each, str)] == [2, 7, 14]
            loads += 1
    assert loads > 10


def test_an_iterator_that_is_dropped_is_gone_at_once() -> None:
    def run(exchange: InTurns) -> Any:
        iterator = iterate(synced(exchange, IterableWrapper(own(exchange.rank, 9)), False))
        assert next(iterator) == own(exchange.rank, 9)[0]
        session = ref(iterator.session)
        del iterator
        return session()

    gc.disable()
    try:
        assert in_turns(2, run) == [None, None]
    finally:
        gc.enable()


def test_an_element_that_cannot_be_made_again_on_resume_is_told_to_all() -> None:
    """Before the ranks have begun, when they have only agreed on the epoch."""
    bad: set[int] = set()
    states: dict[int, Any] = {}

    def graph(exchange: InTurns) -> FullSync[Any]:
        return synced(exchange, IterableWrapper(own(exchange.rank, 9)).map(failing(bad)), False)

    def begin(exchange: InTurns) -> None:
        iterator = iterate(graph(exchange))
        assert len(list(islice(iterator, 4))) == 4
        states[exchange.rank] = iterator.state_dict()

    def go_on(exchange: InTurns) -> Any:
        exchange.epoch = 1
        exchange.begin((1, -1), EpochAgreement(), EpochAgreement.report(exchange.rank, (5, 0, False), {}))
        exchange.wait(lambda _: True, 0, 1800)
        iterator = iterate(graph(exchange))
        iterator.load_state_dict(states[exchange.rank])
        with pytest.raises((RankFailed, ValueError), match="bad row 10") as caught:
            next(iterator)
        iterator.session.close()
        return caught.type

    in_turns(2, begin)
    bad.update(own(1, 9))
    assert in_turns(2, go_on) == [RankFailed, ValueError]
