"""The loaders of the libraries, where kinds do not differ in them.

What a kind reads by number is a plain class with ``__len__`` and ``__getitem__``, which every library takes. Each is
put together as the library's own pages do it; workers that can be kept for the next epoch are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from random import Random
from typing import Any, Generic, TypeVar

T = TypeVar("T")

BUFFER = 500
"""Elements in a shuffle's buffer, where elements are pictures: as many for each contender, in each of its workers."""


def ours(graph: Any, workers: int) -> Any:
    from loader2 import DataLoader2
    from reading_services import MultiProcessingReadingService

    service = MultiProcessingReadingService(num_workers=workers) if workers else None
    return DataLoader2(graph, reading_service=service)


def ours_of_rows(rows: Any, batch: int, workers: int) -> Any:
    from tutorials.recipes import rows_in_memory

    return ours(rows_in_memory.training(rows, batch), workers)


def torch_of(dataset: Any, workers: int, **options: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, num_workers=workers, persistent_workers=workers > 0, **options)


def torch_of_rows(rows: Any, batch: int, workers: int) -> Any:
    return torch_of(rows, workers, batch_size=batch, shuffle=True)


class Batches:
    """Batches of rows by their numbers, put together: what a node's map calls."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __call__(self, numbers: Iterable[int]) -> Any:
        from torch.utils.data import default_collate

        return default_collate([self.rows[number] for number in numbers])


def nodes_of_rows(rows: Any, batch: int, workers: int) -> Any:
    """The pages of `torchdata.nodes`: a sampler, its batches, and a map that reads and collates in processes."""
    from torch.utils.data import RandomSampler
    from torchdata import nodes

    numbers = nodes.Batcher(nodes.SamplerWrapper(RandomSampler(rows)), batch, drop_last=False)
    return nodes_in_parallel(numbers, Batches(rows), workers)


def nodes_in_parallel(source: Any, function: Callable[..., Any], workers: int) -> Any:
    from torchdata import nodes

    mapped = parallel_node(source, function, workers)
    return nodes.Loader(nodes.Prefetcher(mapped, prefetch_factor=2) if workers else mapped)


def parallel_node(source: Any, function: Callable[..., Any], workers: int) -> Any:
    from torchdata import nodes

    if not workers:
        return nodes.Mapper(source, function)
    return nodes.ParallelMapper(source, function, num_workers=workers, method="process")


def old(pipe: Any, workers: int) -> Any:
    dataloader2 = import_module("torchdata.dataloader2")
    service = (
        dataloader2.MultiProcessingReadingService(num_workers=workers)
        if workers
        else dataloader2.InProcessReadingService()
    )
    return dataloader2.DataLoader2(pipe, reading_service=service)


def old_of_rows(rows: Any, batch: int, workers: int) -> Any:
    from torch.utils.data import default_collate

    numbers = import_module("torchdata.datapipes.iter").IterableWrapper(range(len(rows)))
    pipe = numbers.shuffle(buffer_size=len(rows)).sharding_filter().map(rows.__getitem__)
    return old(pipe.batch(batch).collate(default_collate), workers)


class Shuffled(Generic[T]):
    """The elements of a list, in another order each time: the source of a pipeline that has no shuffle of its own."""

    def __init__(self, elements: Sequence[T]) -> None:
        self.elements = elements
        self.random = Random(0)

    def __iter__(self) -> Iterator[T]:
        numbers = list(range(len(self.elements)))
        self.random.shuffle(numbers)
        return map(self.elements.__getitem__, numbers)


def spdl_of_rows(rows: Any, batch: int, workers: int) -> Any:
    """Row by row, where a row is some work; its workers are threads."""
    from spdl.dataloader import DataLoader
    from torch.utils.data import default_collate

    return DataLoader(
        Shuffled(range(len(rows))),
        preprocessor=rows.__getitem__,
        batch_size=batch,
        aggregator=default_collate,
        num_threads=max(workers, 1),
    )


def spdl_of_batches(rows: Any, batch: int, workers: int) -> Any:
    """A batch at a time, where a row is little work: an element on its way through a pipeline costs some 0.1 ms."""
    return SpdlPipeline(lambda: spdl_mapped(InLists(Shuffled(range(len(rows))), batch), Batches(rows), workers))


def spdl_mapped(source: Iterable[Any], function: Callable[..., Any], workers: int) -> Any:
    from spdl.pipeline import PipelineBuilder

    threads = max(workers, 1)
    return (
        PipelineBuilder().add_source(source).pipe(function, concurrency=threads).add_sink(3).build(num_threads=threads)
    )


class InLists(Generic[T]):
    """The elements of an iterable in lists of a size; iterated anew each time."""

    def __init__(self, elements: Iterable[T], size: int) -> None:
        self.elements = elements
        self.size = size

    def __iter__(self) -> Iterator[list[T]]:
        elements = iter(self.elements)
        while some := list(islice(elements, self.size)):
            yield some


class SpdlPipeline:
    """A pipeline of spdl ends with an epoch: each one has a new one."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self.build = build

    def __iter__(self) -> Iterator[Any]:
        pipeline = self.build()
        with pipeline.auto_stop():
            yield from pipeline


def grain_of_rows(rows: Any, batch: int, workers: int) -> Any:
    """Its elements are arrays, which it puts into batches by itself.

    Without workers it reads in the thread that asks, as the others do; by default it has 16 threads.
    """
    import grain

    numbers = grain.MapDataset.range(len(rows)).shuffle(seed=0)
    elements = numbers.map(rows.__getitem__).batch(batch)
    elements = elements.to_iter_dataset(grain.ReadOptions() if workers else grain.ReadOptions(num_threads=0))
    return elements.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers)) if workers else elements


class ShuffleBuffer(Generic[T]):
    """By hand: elements of a stream from a buffer, each replaced by the stream's next one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.random = Random()

    def __call__(self, elements: Iterable[T]) -> Iterator[T]:
        held: list[T] = []
        for element in elements:
            if len(held) < self.size:
                held.append(element)
            else:
                slot = int(self.random.random() * self.size)
                element, held[slot] = held[slot], element
                yield element
        self.random.shuffle(held)
        yield from held


def part_of_worker(elements: Sequence[T]) -> Sequence[T]:
    """By hand: the part of one of torch's workers."""
    from torch.utils.data import get_worker_info

    worker = get_worker_info()
    return elements[worker.id :: worker.num_workers] if worker else elements
