"""Workers: map-style and iterable-style loading in several processes,
or threads.

One learns how a dataset is shared among workers and what happens
without a sharding_filter; how a worker knows which one it is, and how
its random numbers are had again; that torch's own loaders take the same
graphs; how to resume in the middle; and what one sees when a function
raises in a worker, or when a worker dies.

What starts processes is below ``if __name__ == "__main__"``, because
with spawn and forkserver each of them imports this file.
"""

import os
import random
import warnings
from collections.abc import Iterator
from itertools import islice
from threading import Event
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from datapipes.graph import find_dps, traverse_dps
from datapipes.iter import IterableWrapper, IterDataPipe, Mapper
from datapipes.map import MapDataPipe
from loader2 import DataLoader2
from loader2.random import SeedGenerator
from reading_services import (
    MultiProcessingReadingService,
    ThreadingReadingService,
    WorkerInfo,
    get_worker_info,
)

WORKERS = 2


def main() -> None:
    a_map_style_dataset()
    an_iterable_style_dataset()
    without_a_sharding_filter()
    which_worker_is_this()
    random_numbers()
    random_numbers_of_an_element()
    the_same_graph_in_torch()
    resumed_in_the_middle()
    threads_for_what_waits()
    one_stream_dealt_out()


def in_workers(
    graph: IterDataPipe[Any], **arguments: Any
) -> DataLoader2[Any]:
    """A loader that runs a graph in two processes; leaving its ``with``
    block ends them.
    """
    return DataLoader2(
        graph,
        reading_service=MultiProcessingReadingService(
            WORKERS, **arguments
        ),
    )


# -- datasets ----------------------------------------------------------


class Examples(MapDataPipe[tuple[Tensor, int]]):
    """As one would write a Dataset: a length, and elements by index."""

    def __init__(self, size: int) -> None:
        self.inputs = torch.arange(size * 4.0).reshape(size, 4)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.inputs[index], index


def standardized(example: tuple[Tensor, int]) -> tuple[Tensor, int]:
    inputs, label = example
    return (inputs - inputs.mean()) / inputs.std(), label


def a_map_style_dataset() -> None:
    """A class as above; or, in a SequenceWrapper, whatever has a
    length: a list, a tensor, a Dataset of torch.

    All workers shuffle the indices alike, and ``sharding_filter``
    leaves each its part of them; what comes behind it is done for that
    part only. Batches are put together in the workers.
    """
    examples = (
        Examples(100).to_iter_datapipe().shuffle().sharding_filter()
    )
    with in_workers(
        examples.map(standardized).batch(16).collate()
    ) as loader:
        loader.seed(0)
        epochs = [
            [(tuple(x.shape), y.tolist()) for x, y in loader]
            for _ in range(2)
        ]
        loader.seed(0)
        again = [(tuple(x.shape), y.tolist()) for x, y in loader]
    print(
        f"A map-style dataset in {WORKERS} workers: "
        f"{[shape for shape, _ in epochs[0]]}"
    )
    assert sorted(
        label for _, labels in epochs[0] for label in labels
    ) == list(range(100))
    assert epochs[0] == again, (
        "the same seed, the same elements in the same order"
    )
    assert epochs[0] != epochs[1], "each epoch has an order of its own"


class Countdown(IterDataPipe[int]):
    """A stream like an IterableDataset: each worker reads all of it."""

    def __init__(self, start: int) -> None:
        self.start = start

    def __iter__(self) -> Iterator[int]:
        yield from range(self.start, 0, -1)


class SharedCountdown(Countdown):
    """The same, but each worker makes its own part and nothing else: it
    is told which by ``apply_sharding``.
    """

    count, number = 1, 0

    def apply_sharding(
        self, num_of_instances: int, instance_id: int
    ) -> None:
        self.count, self.number = num_of_instances, instance_id

    def __iter__(self) -> Iterator[int]:
        yield from range(self.start - self.number, 0, -self.count)


def an_iterable_style_dataset() -> None:
    """Elements come in one fixed order, one of each worker in turn,
    however fast the workers are.
    """
    for graph in (Countdown(8).sharding_filter(), SharedCountdown(8)):
        with in_workers(graph.map(float)) as loader:
            numbers = list(loader)
        print(f"An iterable-style dataset: {numbers}")
        assert numbers == [8, 7, 6, 5, 4, 3, 2, 1]


def without_a_sharding_filter() -> None:
    """Every worker gives everything. The loader says so when it is
    made.
    """
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loader = in_workers(Countdown(4))
    with loader:
        numbers = list(loader)
    print(
        f"\nWithout a sharding_filter: {numbers}\n  {said[0].message}"
    )
    assert numbers == [4, 4, 3, 3, 2, 2, 1, 1]


# -- which worker this is, and its random numbers ----------------------


def with_worker(number: int) -> tuple[int, int]:
    info = get_worker_info()
    assert info is not None, "only at home there is none"
    assert info.num_workers == WORKERS
    return number, info.worker_id


def shifted(
    datapipe: IterDataPipe[int], info: WorkerInfo
) -> IterDataPipe[int]:
    """Called once in each worker, which goes on with the graph that is
    returned.
    """
    return datapipe.map(lambda number: number + 100 * info.worker_id)


def which_worker_is_this() -> None:
    numbers = IterableWrapper(range(6)).sharding_filter()
    with in_workers(numbers.map(with_worker)) as loader:
        pairs = list(loader)
    with in_workers(numbers, worker_init_fn=shifted) as loader:
        changed = list(loader)
    print(
        f"\nElements and their workers: {pairs}\nChanged by "
        f"worker_init_fn: {changed}"
    )
    assert pairs == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0), (5, 1)]
    assert changed == [0, 101, 2, 103, 4, 105]
    assert get_worker_info() is None


def jittered(number: int) -> float:
    return number + random.random()


def random_numbers() -> None:
    """In each worker ``random``, ``numpy.random`` and torch are seeded
    anew for each epoch, from the loader's seed.
    """
    with in_workers(
        IterableWrapper(range(4)).sharding_filter().map(jittered)
    ) as loader:
        loader.seed(7)
        epochs = [list(loader), list(loader)]
        loader.seed(7)
        assert [list(loader), list(loader)] == epochs
    print(
        "\nAugmented in workers: "
        f"{[round(number, 3) for number in epochs[0]]}, the same again "
        "with the same seed"
    )
    assert epochs[0] != epochs[1]


class Jitter:
    """Draws from the epoch and the element alone, so also a resumed
    epoch, or other workers, draw the same.
    """

    epoch = 0

    def __call__(self, numbered: tuple[int, int]) -> float:
        index, number = numbered
        return number + random.Random(f"{self.epoch} {index}").random()


def told_the_epoch(
    datapipe: IterDataPipe[float],
    info: WorkerInfo,
    seeds: SeedGenerator,
) -> IterDataPipe[float]:
    """Called in each worker at the start of each epoch; a shared seed
    is the same in all of them.
    """
    [mapper] = find_dps(traverse_dps(datapipe), Mapper)
    mapper.fn.epoch = seeds.generate_shared_seed()
    return datapipe


def random_numbers_of_an_element() -> None:
    """A state holds the global generators, but no thread's turn at
    them, and none that other workers would have.

    Numbers that are drawn from the epoch and the element are the same
    with any number of workers, in threads, and wherever the function
    stands in the graph.
    """
    graph = (
        IterableWrapper(range(10, 20))
        .enumerate()
        .sharding_filter()
        .map(Jitter())
    )
    with in_workers(graph, worker_reset_fn=told_the_epoch) as loader:
        loader.seed(7)
        elements = iter(loader)
        for _ in islice(elements, 3):
            pass
        state = loader.state_dict()
        rest = list(elements)
    service = MultiProcessingReadingService(
        WORKERS, worker_reset_fn=told_the_epoch
    )
    with DataLoader2.from_state(
        state, datapipe=graph, reading_service=service
    ) as resumed:
        assert list(resumed) == rest
    print(
        "Augmented by epoch and element, the same when resumed: "
        f"{[round(number, 3) for number in rest[:4]]} ..."
    )


# -- torch, and resuming -----------------------------------------------


def the_same_graph_in_torch() -> None:
    """The loaders of torch and torchdata take the graph as it is."""
    graph = (
        IterableWrapper(range(100))
        .shuffle()
        .sharding_filter()
        .map(float)
    )
    with in_workers(graph) as loader:
        ours = sorted(loader)
    # torchdata calls what torch calls deprecated.
    with warnings.catch_warnings(action="ignore"):
        for theirs in (DataLoader, StatefulDataLoader):
            assert (
                sorted(
                    theirs(graph, batch_size=None, num_workers=WORKERS)
                )
                == ours
            )
    print(
        "\ntorch's DataLoader and torchdata's StatefulDataLoader give "
        "the same elements of the same graph."
    )


def resumed_in_the_middle() -> None:
    """As without workers: to the element, at any element. There must be
    as many workers as there were.
    """
    graph = (
        Examples(1_000)
        .to_iter_datapipe()
        .shuffle()
        .sharding_filter()
        .map(standardized)
        .batch(32)
        .collate()
    )
    with in_workers(graph) as loader:
        loader.seed(1)
        batches = iter(loader)
        for _ in islice(batches, 11):
            pass
        state = loader.state_dict()  # asks no worker
        rest = list(batches)
    service = MultiProcessingReadingService(WORKERS)
    with DataLoader2.from_state(
        state, datapipe=graph, reading_service=service
    ) as resumed:
        again = list(resumed)
    assert len(rest) == len(again) > 0
    assert all(
        x.equal(x2) and y.equal(y2)
        for (x, y), (x2, y2) in zip(rest, again, strict=True)
    )
    print(
        f"Resumed after 11 batches: the {len(again)} that were left "
        "are the same."
    )


# -- other places ------------------------------------------------------


def waiting(number: int) -> int:
    Event().wait(0.02)  # for a disk or a network, say
    return number


def threads_for_what_waits() -> None:
    """Threads share memory, so nothing is pickled or copied. They are
    for functions that wait, or leave Python.
    """
    graph = IterableWrapper(range(80)).sharding_filter().map(waiting)
    with DataLoader2(
        graph, reading_service=ThreadingReadingService(num_workers=16)
    ) as loader:
        assert list(loader) == list(range(80)), (
            "in order, as with processes"
        )
    print(
        "\n80 elements that wait 20 ms each were waited for in 16 "
        "threads."
    )


def with_process(number: int) -> tuple[int, int]:
    return number, os.getpid()


def one_stream_dealt_out() -> None:
    """Run the stages above ``sharding_round_robin_dispatch`` in one
    process, which deals its elements out to the workers.

    Use it for a source that should be read once, because it cannot be
    sharded or has uneven parts.
    """
    read = (
        IterableWrapper(range(8))
        .map(with_process)
        .sharding_round_robin_dispatch()
    )
    with in_workers(
        read.map(lambda pair: (*pair, os.getpid()))
    ) as loader:
        elements = list(loader)
    numbers, readers, workers = zip(*elements, strict=True)
    print(
        f"\nDealt out: {list(numbers)}, read by {len(set(readers))} "
        f"process, mapped by {len(set(workers))}."
    )
    assert (numbers, len(set(readers)), len(set(workers))) == (
        tuple(range(8)),
        1,
        WORKERS,
    )


if __name__ == "__main__":
    main()
