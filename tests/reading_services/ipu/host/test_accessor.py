"""The asynchronous accessor: order, epochs, rewinds, how far it runs ahead, and what its elements look like."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from reading_services.ipu import AsynchronousDataAccessor, SharingStrategy, registerCustomArgParser
from reading_services.ipu.host import feeding
from tests.reading_services.ipu.host.datasets import (
    Counted,
    Couple,
    CoupleParser,
    Drawn,
    Elements,
    Named,
    Numbers,
    Stream,
)

PATIENCE = 300.0


@contextmanager
def accessor(dataset: Any, **options: Any) -> Iterator[AsynchronousDataAccessor]:
    """An accessor that is ended; by a fork, unless another strategy is asked for."""
    made = AsynchronousDataAccessor(dataset, **{"sharing_strategy": SharingStrategy.Fork, **options})
    try:
        yield made
    finally:
        made.terminate()


def until(holds: Callable[[], bool]) -> None:
    deadline, pause = monotonic() + PATIENCE, Event()
    while not holds():
        assert monotonic() < deadline
        pause.wait(0.005)


def settled(count: Callable[[], Any]) -> Any:
    """A value that has stayed the same for a while."""
    pause, last = Event(), object()
    while (now := count()) != last:
        last = now
        pause.wait(0.3)
    return last


def numbers(elements: Any) -> list[int]:
    return [int(element.flatten()[0]) for element in elements]


@pytest.mark.parametrize("strategy", list(SharingStrategy))
def test_every_sharing_strategy_gives_the_same(strategy: SharingStrategy) -> None:
    with accessor(Numbers(7), sharing_strategy=strategy) as acc:
        assert [numbers(acc) for _ in range(3)] == [list(range(7))] * 3
        assert len(acc) == 7


def test_a_dataset_is_packed_in_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "_PIECE", 1000)
    rows = torch.arange(3000.0).view(30, 100)
    with accessor(rows, sharing_strategy=SharingStrategy.SharedMemory) as acc:
        assert torch.stack([row.clone() for row in acc]).equal(rows)


@pytest.mark.parametrize("load_indefinitely", [True, False])
@pytest.mark.parametrize("early_preload", [True, False])
@pytest.mark.parametrize("buffer_size", [1, 3, 20])
def test_epochs_are_whole_whatever_the_buffer(buffer_size: int, early_preload: bool, load_indefinitely: bool) -> None:
    options = {"buffer_size": buffer_size, "early_preload": early_preload, "load_indefinitely": load_indefinitely}
    with accessor(Numbers(5), **options) as acc:
        for _ in range(4):
            assert numbers(acc) == list(range(5))


@pytest.mark.parametrize("load_indefinitely", [True, False])
def test_leaving_early_begins_anew(load_indefinitely: bool) -> None:
    with accessor(Numbers(6), load_indefinitely=load_indefinitely) as acc:
        for taken in (1, 3, 6):
            rows = iter(acc)
            assert numbers(next(rows) for _ in range(taken)) == list(range(taken))
        assert numbers(acc) == list(range(6))


def test_the_end_is_said_again_until_the_next_iteration() -> None:
    with accessor(Numbers(2)) as acc:
        assert iter(acc) is acc
        assert numbers(acc) == [0, 1]
        for _ in range(3):
            with pytest.raises(StopIteration):
                next(acc)
        assert numbers(acc) == [0, 1]


def test_iterating_twice_without_use_does_nothing() -> None:
    with accessor(Numbers(3)) as acc:
        iter(acc)
        iter(acc)
        assert int(next(acc)[0]) == 0
        assert numbers([next(acc), next(acc)]) == [1, 2]


def test_next_without_iter_begins() -> None:
    with accessor(Numbers(3)) as acc:
        assert int(next(acc)[0]) == 0


@pytest.mark.parametrize(("early_preload", "ready"), [(False, 1), (True, 5)])
def test_how_many_slots_are_filled_ahead(early_preload: bool, ready: int) -> None:
    with accessor(Numbers(10), buffer_size=5, early_preload=early_preload) as acc:
        until(lambda: sum(acc.slots) == ready)
        assert settled(lambda: sum(acc.slots)) == ready
        assert len(acc.slots) == 5
        iter(acc)
        until(lambda: all(acc.slots))
        next(acc)
        assert settled(lambda: sum(acc.slots)) == 4  # one slot is lent
        next(acc)
        assert settled(lambda: sum(acc.slots)) == 4


def test_it_runs_into_the_next_epoch_and_waits_at_its_end(tmp_path: Path) -> None:
    file = tmp_path / "iterations"
    with accessor(Counted(2, file), buffer_size=9) as acc:
        iter(acc)
        until(lambda: sum(acc.slots) == 4)
        assert settled(file.read_text) == "ii"
        assert numbers(acc) == [0, 1]
        until(lambda: file.read_text() == "iii")
        assert [numbers(acc) for _ in range(3)] == [[0, 1]] * 3


def test_unasked_it_iterates_once(tmp_path: Path) -> None:
    file = tmp_path / "iterations"
    with accessor(Counted(2, file), load_indefinitely=False) as acc:
        assert numbers(acc) == [0, 1]
        assert settled(file.read_text) == "i"
        assert numbers(acc) == [0, 1]
        assert settled(file.read_text) == "ii"


def test_a_rewind_iterates_once_more(tmp_path: Path) -> None:
    file = tmp_path / "iterations"
    with accessor(Counted(9, file), buffer_size=2) as acc:
        next(iter(acc))
        iter(acc)
        assert numbers(acc) == list(range(9))
        assert settled(file.read_text) == "iii"


def test_steps_that_are_kept_stay_valid() -> None:
    with accessor(Numbers(40, width=20_000), buffer_size=2) as acc:
        assert numbers(list(acc)) == list(range(40))
        kept = list(acc)
    assert numbers(kept) == list(range(40))
    assert all(row.eq(number).all() for number, row in enumerate(kept))


def test_memory_of_steps_that_are_gone_is_used_again() -> None:
    with accessor(Numbers(40, width=20_000), buffer_size=3) as acc:
        assert len({row.data_ptr() for row in acc}) < 10


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (torch.ones(2), torch.ones(2)),
        ((torch.ones(2), torch.zeros(1)), [torch.ones(2), torch.zeros(1)]),
        (Named(torch.ones(2), torch.zeros(1)), [torch.ones(2), torch.zeros(1)]),
        ({"b": torch.ones(2), "a": torch.zeros(1)}, {"b": torch.ones(2), "a": torch.zeros(1)}),
        ({"a": (torch.ones(2), [torch.zeros(1)])}, {"a": (torch.ones(2), [torch.zeros(1)])}),
        ([torch.tensor(3), torch.empty(0, 4)], [torch.tensor(3), torch.empty(0, 4)]),
    ],
)
def test_what_an_element_looks_like(element: Any, expected: Any) -> None:
    with accessor(Elements(element, element)) as acc:
        for found in acc:
            assert repr(found) == repr(expected)


def test_a_generator_of_tensors_is_a_flat_container() -> None:
    with accessor([map(torch.tensor, (1, 2))]) as acc:
        assert list(iter(acc)) == [[torch.tensor(1), torch.tensor(2)]]


def test_keys_come_in_the_first_ones_order() -> None:
    first, second = {"a": torch.tensor(1), "b": torch.tensor(2)}, {"b": torch.tensor(4), "a": torch.tensor(3)}
    with accessor([first, second]) as acc:
        assert [list(element.items()) for element in acc] == [
            [("a", torch.tensor(1)), ("b", torch.tensor(2))],
            [("a", torch.tensor(3)), ("b", torch.tensor(4))],
        ]


@pytest.mark.parametrize("kind", [OrderedDict, UserDict])
def test_mappings_arrive_as_what_they_are(kind: Any) -> None:
    with accessor([kind(a=torch.tensor(n), b=torch.tensor(-n)) for n in (1, 2)]) as acc:
        assert [(type(each), dict(each)) for each in acc] == [
            (kind, {"a": torch.tensor(n), "b": torch.tensor(-n)}) for n in (1, 2)
        ]


def test_later_elements_are_converted_to_the_types_of_the_first(capfd: pytest.CaptureFixture[str]) -> None:
    exact, lossy = torch.ones(2, dtype=torch.int16), torch.tensor([1.5, 2.5], dtype=torch.float64)
    first = [torch.zeros(2, dtype=torch.float32), torch.zeros(2, dtype=torch.int64)]
    with accessor([first, [exact, exact], [lossy, lossy], [lossy, lossy]]) as acc:
        found = [([each.dtype for each in step], [each.tolist() for each in step]) for step in acc]
    assert [types for types, _ in found] == [[torch.float32, torch.int64]] * 4
    assert [numbers for _, numbers in found[1:]] == [[[1, 1]] * 2, [[1.5, 2.5], [1, 2]], [[1.5, 2.5], [1, 2]]]
    assert capfd.readouterr().err.count("torch.float64 is converted to torch.int64") == 1


@pytest.mark.parametrize("strategy", [SharingStrategy.Fork, SharingStrategy.ForkServer])
def test_registered_types_arrive_as_what_they_are(strategy: SharingStrategy) -> None:
    registerCustomArgParser(Couple, CoupleParser())
    try:
        couples = Elements(*(Couple(torch.tensor(n), torch.full((2,), n), f"label {n}") for n in range(3)))
        with accessor(couples, sharing_strategy=strategy) as acc:
            found = [(int(c.left), c.right.tolist(), c.label) for c in acc]
        assert found == [(n, [n, n], "label 0") for n in range(3)]
    finally:
        registerCustomArgParser(Couple, None)


@pytest.mark.parametrize(("count", "size", "expected"), [(5, 2, 5), (5, 3, 3), (4, 8, 1)])
def test_rows_are_regrouped_and_a_last_partial_batch_is_dropped(count: int, size: int, expected: int) -> None:
    batches = [torch.arange(2) + 2 * n for n in range(count)]
    with accessor(batches, rebatched_size=size) as acc:
        for _ in range(2):
            steps = list(acc)
            assert torch.cat(steps).tolist() == list(range(expected * size))
            assert [len(step) for step in steps] == [size] * expected


def test_the_length_of_regrouped_batches() -> None:
    class Batched(Numbers):
        batch_size = 3

    with accessor(Batched(8), rebatched_size=2) as acc:
        assert len(acc) == 12


def test_a_stream_is_iterated_and_a_collection_indexed() -> None:
    with accessor(Stream(4)) as acc, accessor(TensorDataset(torch.arange(4))) as other:
        assert numbers(acc) == [0, 1, 2, 3]
        assert [int(row[0]) for row in other] == [0, 1, 2, 3]


def test_what_it_draws_follows_from_the_seed_of_this_process() -> None:
    def drawn() -> list[Any]:
        torch.manual_seed(5)
        with accessor(Drawn()) as acc:
            return [[row.tolist() for row in acc] for _ in range(2)]

    first = drawn()
    assert first == drawn()
    assert first[0] != first[1]


def test_what_it_draws_does_not_depend_on_how_far_it_had_run_ahead() -> None:
    def drawn(taken: int) -> Any:
        torch.manual_seed(5)
        with accessor(Drawn()) as acc:
            for _ in zip(range(taken), acc, strict=False):
                pass
            return [row.tolist() for row in acc]

    assert drawn(1) == drawn(3) == drawn(4)


def test_several_at_a_time() -> None:
    with accessor(Numbers(5)) as one, accessor(Numbers(7)) as two:
        pairs = [(int(a[0]), int(b[0])) for a, b in zip(one, two, strict=False)]
        assert pairs == [(n, n) for n in range(5)]


def test_it_ends_with_its_last_reference() -> None:
    acc = AsynchronousDataAccessor(Numbers(5), sharing_strategy=SharingStrategy.Fork)
    feed = acc._feed
    assert not feed.closed
    del acc
    assert feed.closed


def test_closing_by_contextlib_is_not_needed_twice() -> None:
    with accessor(Numbers(5)) as acc, closing(acc_closer(acc)):
        next(acc)


def acc_closer(acc: AsynchronousDataAccessor) -> Any:
    class Closer:
        def close(self) -> None:
            acc.terminate()
            acc.terminate()

    return Closer()
