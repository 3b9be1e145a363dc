"""set_length, memory_cell and pin_memory hand elements on; Sampler gives indices."""

from __future__ import annotations

import pickle
import threading
from typing import Any
from unittest import mock

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from datapipes.errors import BadArgument, GraphError
from datapipes.iter import IterableWrapper, LengthSetter, MemoryCell, PinMemory, Prefetcher, Sampler
from loader2 import DataLoader2


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


def test_set_length() -> None:
    dp = numbers(5).filter(lambda x: x > 1).set_length(3)
    assert isinstance(dp, LengthSetter)
    assert (len(dp), list(dp)) == (3, [2, 3, 4])
    assert len(numbers(5).set_length(100)) == 100
    assert len(numbers(5).filter(bool).set_length(4).batch(3)) == 2
    with pytest.raises(BadArgument, match=r"non-negative number, got -1, in \.set_length\(-1\)"):
        numbers(5).set_length(-1)


def test_a_wrong_length_spoils_no_state() -> None:
    for length in (2, 100):
        dp = numbers(9).set_length(length).shuffle(buffer_size=4)
        it: Any = iter(dp)
        begun = [next(it) for _ in range(5)]
        again: Any = iter(dp)
        again.load_state_dict(it.state_dict())
        assert sorted(begun + list(again)) == list(range(9))


def test_memory_cell() -> None:
    dp = IterableWrapper("abcd").memory_cell(remember_elements=3)
    assert isinstance(dp, MemoryCell)
    assert (dp.get_last(), dp.get_buffer()) == (None, [])
    it: Any = iter(dp)
    assert [next(it), next(it)] == ["a", "b"]
    assert (dp.get_last(), dp.get_buffer()) == ((1, "b"), [(1, "b"), (0, "a")])
    assert list(it) == ["c", "d"]
    assert dp.get_buffer() == [(3, "d"), (2, "c"), (1, "b")]
    assert pickle.loads(pickle.dumps(dp)).get_buffer() == []
    with pytest.raises(TypeError, match="has no len"):
        len(dp)
    with pytest.raises(BadArgument, match=r"must be larger than 0, got 0, in \.memory_cell\(remember_elements=0\)"):
        numbers(1).memory_cell(0)


def test_memory_cell_goes_on_counting_when_resumed() -> None:
    it: Any = iter(IterableWrapper("abcd").memory_cell())
    next(it)
    dp = IterableWrapper("abcd").memory_cell()
    again: Any = iter(dp)
    again.load_state_dict(it.state_dict())
    assert next(again) == "b"
    assert dp.get_buffer() == [(1, "b")]


def test_pin_memory_needs_cuda() -> None:
    with mock.patch("torch.cuda.is_available", return_value=False):
        with pytest.raises(RuntimeError, match=r"pin_memory\(\) needs CUDA.*leave out \.pin_memory\(\)"):
            numbers(1).pin_memory()
        with pytest.raises(GraphError):
            PinMemory(numbers(1))


def test_pin_memory_with_a_function_of_its_own() -> None:
    calls = []

    def pin(element: int, device: Any) -> int:
        calls.append((threading.current_thread(), device))
        return 10 * element

    with mock.patch("torch.cuda.is_available", return_value=True):
        dp = numbers(4).pin_memory(pin_memory_fn=pin)
    assert isinstance(dp, PinMemory)
    assert isinstance(dp, Prefetcher)
    assert not dp.is_replicable()
    assert (list(dp), len(dp)) == ([0, 10, 20, 30], 4)
    assert all(thread is not threading.current_thread() and device is None for thread, device in calls)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_pin_memory_pins() -> None:
    (batch,) = numbers(4).batch(4).collate().pin_memory()
    assert batch.is_pinned()
    assert batch.tolist() == [0, 1, 2, 3]


def test_sampler_in_sequence() -> None:
    dp = Sampler(IterableWrapper("abc"))
    assert list(dp) == list(dp) == [0, 1, 2]
    assert len(dp) == 3
    assert repr(dp) == "Sampler(IterableWrapper('abc'))"
    assert list(Sampler(IterableWrapper("abc"), SequentialSampler).map(lambda i: "abc"[i])) == ["a", "b", "c"]


def of_weights(data_source: Any, weights: list[float]) -> Any:
    return WeightedRandomSampler(weights, num_samples=len(data_source))


def batches_of(data_source: Any) -> Any:
    return BatchSampler(RandomSampler(data_source), 3, drop_last=False)


def of_subset(data_source: Any) -> Any:
    return SubsetRandomSampler(range(0, len(data_source), 2))


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        (RandomSampler, {}),
        (RandomSampler, {"replacement": True, "num_samples": 50}),
        (of_weights, {"weights": [0.1 + x for x in range(20)]}),
        (of_subset, {}),
        (RandomSampler(range(20)), None),
        (WeightedRandomSampler([0.1 + x for x in range(20)], num_samples=30), None),
        (BatchSampler(RandomSampler(range(20)), 3, drop_last=True), None),
        (BatchSampler(SubsetRandomSampler(range(20)), 2, drop_last=False), None),
        (DistributedSampler(numbers(20), num_replicas=2, rank=1, seed=1), None),
        (batches_of, {}),
    ],
)
def test_an_order_at_random_follows_from_the_seed_and_the_epoch(sampler: Any, options: dict[str, Any]) -> None:
    def epochs(seed: int) -> list[list[int]]:
        with DataLoader2(Sampler(numbers(20), sampler, sampler_kwargs=options)) as loader:
            loader.seed(seed)
            return [list(loader) for _ in range(2)]

    before = torch.random.get_rng_state()
    first, second = epochs(1)
    assert [first, second] == epochs(1)
    assert first != second
    assert first != epochs(2)[0] or isinstance(sampler, DistributedSampler)  # whose seed is its own
    assert torch.equal(torch.random.get_rng_state(), before), "the global generator was used"


@pytest.mark.parametrize(
    "sampler",
    [
        RandomSampler(range(9), replacement=True, num_samples=9),
        BatchSampler(RandomSampler(range(18)), 2, drop_last=False),
        DistributedSampler(numbers(18), num_replicas=2, rank=1),
    ],
)
@pytest.mark.parametrize("taken", range(10))
def test_a_sampler_that_is_given_is_resumed_anywhere_and_left_as_it_was(sampler: Any, taken: int) -> None:
    before = dict(vars(sampler))
    begun = DataLoader2(Sampler(range(18), sampler))
    begun.seed(3)
    list(begun)
    elements = iter(begun)  # of the second epoch
    for _ in range(taken):
        next(elements)
    resumed = DataLoader2(Sampler(range(18), pickle.loads(pickle.dumps(sampler))))
    resumed.load_state_dict(begun.state_dict())
    assert list(resumed) == list(elements)
    assert vars(sampler) == before
    assert len(begun) == 9


def test_arguments_for_a_sampler_that_is_made_already() -> None:
    with pytest.raises(
        BadArgument, match="arguments are for a class of samplers, but RandomSampler is already a sampler"
    ):
        Sampler(range(3), RandomSampler(range(3)), sampler_kwargs={"replacement": True})


def test_a_generator_of_the_user_pins_the_seed() -> None:
    def epoch(seed: int, generator: torch.Generator) -> list[int]:
        with DataLoader2(Sampler(numbers(20), RandomSampler, sampler_kwargs={"generator": generator})) as loader:
            loader.seed(seed)
            return list(loader)

    generator = torch.Generator().manual_seed(5)
    state = generator.get_state()
    assert epoch(1, generator) == epoch(2, generator) == epoch(1, torch.Generator().manual_seed(5))
    assert torch.equal(generator.get_state(), state), "iterating has changed the pipe"


def test_sampler_wants_a_length_and_arguments_that_fit() -> None:
    with pytest.raises(AssertionError, match=r"Sampler class requires input datapipe implemented `__len__`"):
        Sampler(numbers(3).filter(bool))
    with pytest.raises(TypeError):
        Sampler(numbers(3), BatchSampler)
