"""Specimens of map-style operators, of what leads from one style to the other, and of users' own classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import torch
import torch.utils.data.datapipes.iter as torch_pipes
from torch.utils.data import IterDataPipe as TorchIterDataPipe

from datapipes.graph import Pipe
from datapipes.iter import Batcher, Concater, IterableWrapper, IterDataPipe
from datapipes.map import ImageFolder, MapDataPipe, SequenceWrapper, TableWrapper
from tests.datapipes.position.written_for_torchdata import ItsOwnIterator, OnlyNext, ReturnsAnother
from tests.specimens.elements import add_ten, as_pair, is_even
from tests.specimens.specimen import Specimen, Tap, everything, numbers, shuffled, unseekable

torch_iter: Any = torch_pipes  # typed for sources of torch's own only


class Doubled(IterDataPipe[Any]):
    """A generator, as most users write them, with a length and something to set up in reset()."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe
        self.started = 0

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            self.started += 1
            yield element, self.started

    def __len__(self) -> int:
        return len(self.source_datapipe)

    def reset(self) -> None:
        self.started = 100


class Passed(IterDataPipe[Any]):
    """A generator that changes nothing."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        yield from self.source_datapipe


class Summed(IterDataPipe[Any]):
    """A class that is its own iterator."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe
        self.sum = 0
        self.elements: Iterator[int] = iter(())

    def __iter__(self) -> Iterator[Any]:
        self.sum = 0
        self.elements = iter(self.source_datapipe)
        return self

    def __next__(self) -> int:
        self.sum += next(self.elements)
        return self.sum


class TorchPairs(TorchIterDataPipe[Any]):
    """A class written for torch's own base, which reads its source twice."""

    def __init__(self, source: Pipe) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        total = sum(1 for _ in self.source)
        for element in self.source:
            yield element, total


TORCHS_HUBS: dict[str, Callable[[Any], Any]] = {
    "fork": lambda pipe: torch_iter.Forker(pipe, 2),
    "demux": lambda pipe: torch_iter.Demultiplexer(pipe, 2, abs(1).__and__),
}


def through(hub: Callable[[Any], Any], tap: Tap) -> Pipe:
    """The children of torch's fork or demux, one after the other: what the second one has to wait for is buffered."""
    first, second = hub(tap(numbers(5)))
    return Concater(second, first).map(add_ten)


class Resumable(IterDataPipe[Any]):
    """A class that says what it remembers: nothing is replayed."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe
        self.sum = 0

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            self.sum += element
            yield self.sum

    def state_dict(self) -> dict[str, Any]:
        return {"sum": self.sum}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sum = state["sum"]


class Jittered(IterDataPipe[Any]):
    """A class with randomness of its own, seeded as torchdata seeded it."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe
        self.seed = 0

    def set_seed(self, seed: int) -> None:
        self.seed = seed

    def __iter__(self) -> Iterator[Any]:
        random = Random(self.seed)
        for element in self.source_datapipe:
            yield element + random.random()


def pinned(source: Pipe) -> Pipe:
    jittered = Jittered(source)
    jittered.set_seed(4)
    return jittered


class Counting(IterDataPipe[Any]):
    """A class with generators and an epoch of its own."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe
        self.epoch = 0
        self.random = Random(1)
        self.generator = torch.Generator().manual_seed(1)

    def __iter__(self) -> Iterator[Any]:
        self.epoch += 1
        for element in self.source_datapipe:
            yield self.epoch, element, self.random.random(), int(torch.randint(100, (), generator=self.generator))


class EveryNth(IterDataPipe[Any]):
    """A class that shards, as one has to be told."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int) -> None:
        self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self) -> Iterator[Any]:
        for number, element in enumerate(self.source_datapipe):
            if number % self.num_of_instances == self.instance_id:
                yield element


class InPairs(Batcher[Any]):
    """A class derived from an operator, which iterates as the operator does, and more."""

    def __init__(self, datapipe: Pipe) -> None:
        super().__init__(datapipe, 2)

    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            yield tuple(batch)


class Alternating(IterDataPipe[Any]):
    """A class with two sources."""

    def __init__(self, first: Pipe, second: Pipe) -> None:
        self.sources = [first, second]

    def __iter__(self) -> Iterator[Any]:
        for row in zip(*self.sources, strict=False):
            yield from row


class Chained(Alternating):
    """A class that reads one source after the other."""

    def __iter__(self) -> Iterator[Any]:
        for source in self.sources:
            yield from source


class Adding(Resumable):
    """A class with two sources that says what it remembers."""

    def __init__(self, first: Pipe, second: Pipe) -> None:
        super().__init__(first)
        self.second = second

    def __iter__(self) -> Iterator[Any]:
        for first, second in zip(self.source_datapipe, self.second, strict=False):
            self.sum += 100 * first + second
            yield self.sum


class Squares(MapDataPipe[int]):
    """A user's own collection."""

    def __getitem__(self, key: int) -> int:
        if not 0 <= key < len(self):
            raise IndexError(key)
        return key * key

    def __len__(self) -> int:
        return 6


@cache
def classes() -> Path:
    """A folder with a folder for each of two classes."""
    root = everything() / "classes"
    for name in ("dog/1.png", "dog/2.png", "cat/3.png", "cat/old/1.png", "cat/4.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


def name_of(path: str) -> str:
    return Path(path).relative_to(classes()).as_posix()


def counted(length: int) -> Pipe:
    return SequenceWrapper(range(length))


def unzipped(tap: Tap) -> Pipe:
    first, second = SequenceWrapper([(1, "a"), (2, "b"), (3, "c")]).unzip(2)
    return second.concat(first)


def counting_twice() -> Pipe:
    a, b = Counting(numbers(3)).batch(2).fork(2)
    return Counting(Counting(a).map(str).zip(b))


def counting_above_both() -> Pipe:
    a, b = Counting(numbers(4)).fork(2)
    return Chained(a, b.batch(2).unbatch())


def on_a_child(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).fork(2)
    add = tap.function(add_ten)
    return Passed(a).map(add).concat(b.map(add))


def on_columns(tap: Tap) -> Pipe:
    letters, digits = tap(numbers(5)).map(as_pair).unzip(2)
    return Doubled(letters).zip(Passed(digits.batch(1)))


def on_odd_ones(tap: Tap) -> Pipe:
    even, odd = tap(numbers(9)).demux(2, is_even)
    return Summed(even.prefetch(2)).mux_longest(odd)


def remembering_on_a_child(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).fork(2)
    return Resumable(Passed(a)).zip(Resumable(b))


SHAPES: list[Callable[[Pipe], Pipe]] = [ReturnsAnother, ItsOwnIterator, OnlyNext]


def between(shape: Callable[[Pipe], Pipe], tap: Tap) -> Pipe:
    return shape(tap(numbers(7)).shuffle(buffer_size=3)).map(str).batch(2)


def at_the_end(shape: Callable[[Pipe], Pipe], tap: Tap) -> Pipe:
    return shape(tap(numbers(4)))


MAPSTYLE = [
    Specimen("map.SequenceWrapper", "a list", lambda tap: SequenceWrapper([[1], None, [2]])),
    Specimen(
        "map.SequenceWrapper",
        "a dict, by its keys",
        lambda tap: SequenceWrapper({"a": 1, "b": 2}).to_iter_datapipe(["b", "a"]),
    ),
    Specimen("map.SequenceWrapper", "empty", lambda tap: SequenceWrapper([])),
    Specimen("map.TableWrapper", "rows", lambda tap: TableWrapper({"x": [1, 2, 3], "y": ["a", None, "c"]})),
    Specimen(
        "map.TableWrapper",
        "batches of tensors",
        lambda tap: TableWrapper({"x": [*range(7)]}, as_="tensors").to_iter_datapipe().batch(2).collate(),
    ),
    shuffled("map.TableWrapper", "batches of rows", lambda tap: TableWrapper({"x": [*range(7)]}).shuffle().batch(2)),
    Specimen("map.ImageFolder", "bytes", lambda tap: ImageFolder(classes(), "bytes")),
    shuffled("map.ImageFolder", "shuffled", lambda tap: ImageFolder(classes(), name_of).shuffle()),
    Specimen("map.batch", "a shorter last one", lambda tap: counted(5).batch(2)),
    Specimen("map.batch", "the last one dropped", lambda tap: counted(5).batch(2, drop_last=True).map(len)),
    Specimen("map.sliding_window", "a shorter last one", lambda tap: counted(6).sliding_window(3, 2, partial=True)),
    Specimen("map.concat", "one empty", lambda tap: counted(3).concat(SequenceWrapper([]), SequenceWrapper("ab"))),
    Specimen(
        "map.in_memory_cache",
        "of a map",
        lambda tap: counted(4).map(as_pair).in_memory_cache(),
        memo=frozenset({"cache"}),
    ),
    Specimen("map.map", "a function", lambda tap: counted(4).map(add_ten)),
    shuffled("map.map", "of a user's collection", lambda tap: Squares().map(add_ten).shuffle().batch(2)),
    shuffled("map.shuffle", "all", lambda tap: counted(7).shuffle()),
    shuffled(
        "map.shuffle",
        "some indices",
        lambda tap: counted(20).shuffle(indices=[1, 3, 5, 7, 9, 11, 13]),
    ),
    shuffled("map.shuffle", "shuffled again", lambda tap: counted(7).shuffle().shuffle(buffer_size=3)),
    Specimen("map.to_iter_datapipe", "some indices", lambda tap: counted(9).to_iter_datapipe([8, 1, 1]).batch(2)),
    Specimen("map.to_iter_datapipe", "no indices", lambda tap: counted(9).to_iter_datapipe([])),
    shuffled(
        "map.to_iter_datapipe",
        "shuffled by a buffer",
        lambda tap: counted(8).to_iter_datapipe().shuffle(buffer_size=4),
    ),
    Specimen("map.unzip", "two columns", unzipped),
    Specimen("map.zip", "unequal lengths", lambda tap: counted(4).zip(SequenceWrapper("abc"))),
    Specimen(
        "iter.to_map_datapipe",
        "pairs",
        lambda tap: IterableWrapper([(0, "a"), (1, "b"), (2, None)]).to_map_datapipe(),
        memo=frozenset({"_map"}),
    ),
    Specimen(
        "iter.to_map_datapipe",
        "by a function, and back",
        memo=frozenset({"_map"}),
        build=lambda tap: numbers(6).filter(is_even).to_map_datapipe(as_pair).to_iter_datapipe([4, 0, 2]),
    ),
]

USERS = [
    Specimen("users.generator", "alone", lambda tap: Doubled(tap(numbers(5))), after_fault="goes on or stays"),
    shuffled(
        "users.generator",
        "between buffers",
        after_fault="goes on or stays",
        build=lambda tap: Doubled(tap(numbers(9)).shuffle(buffer_size=3)).batch(2).shuffle(buffer_size=2),
    ),
    Specimen(
        "users.generator",
        "prefetched",
        lambda tap: Doubled(tap(unseekable(5)).prefetch(2)).prefetch(2),
        after_fault="goes on or stays",
    ),
    shuffled(
        "users.generator",
        "of two sources",
        lambda tap: Alternating(numbers(7).shuffle(), numbers(11).batch(2)),
    ),
    shuffled(
        "users.generator",
        "with seeds of its own",
        lambda tap: Jittered(tap(numbers(4)).cycle(2)),
        after_fault="goes on or stays",
    ),
    shuffled(
        "users.generator",
        "that shards",
        lambda tap: EveryNth(tap(numbers(12)).shuffle()).shuffle(),
        after_fault="goes on or stays",
    ),
    Specimen("users.generator", "above a filter and a cycle", lambda tap: Doubled(numbers(4)).enumerate().cycle(2)),
    Specimen(
        "users.generator",
        "derived from an operator",
        lambda tap: InPairs(tap(numbers(7))),
        after_fault="goes on or stays",
    ),
    shuffled(
        "users.generator",
        "derived from an operator, in a graph",
        after_fault="goes on or stays",
        build=lambda tap: InPairs(tap(numbers(7))).shuffle(buffer_size=2).unbatch(0),
    ),
    shuffled(
        "users.generator",
        "with generators and a counter of its own",
        lambda tap: Counting(tap(numbers(5))),
        after_fault="goes on or stays",
    ),
    shuffled("users.generator", "with its own, above another", lambda tap: counting_twice()),
    shuffled("users.generator", "with its own, above a fork", lambda tap: counting_above_both()),
    Specimen(
        "users.generator",
        "with a pinned seed",
        lambda tap: pinned(tap(numbers(5))),
        random="pinned",
        after_fault="goes on or stays",
    ),
    Specimen("users.generator", "on a child of a fork", on_a_child),
    shuffled(
        "users.generator",
        "on a child of a fork of a buffer",
        lambda tap: Doubled(tap(numbers(7)).shuffle(buffer_size=3).fork(2)[0]).shuffle(buffer_size=2),
        after_fault="goes on or stays",
    ),
    Specimen(
        "users.generator",
        "that reads both children of a demux",
        lambda tap: Alternating(*tap(numbers(8)).demux(2, is_even)),
        after_fault="goes on or stays",
    ),
    Specimen("users.generator", "on both columns of an unzip", on_columns),
    Specimen("users.iterator", "on a child of a demux", on_odd_ones),
    Specimen("users.stateful", "on a child of a fork", remembering_on_a_child, after_fault="goes on or stays"),
    Specimen("users.iterator", "prefetched", lambda tap: Summed(tap(unseekable(5)).prefetch(2)).prefetch(2)),
    Specimen("users.iterator", "alone", lambda tap: Summed(tap(numbers(5)))),
    *(shuffled("users.iterator", f"{shape.__name__}, between buffers", partial(between, shape)) for shape in SHAPES),
    *(Specimen("users.iterator", f"{shape.__name__}, at the end", partial(at_the_end, shape)) for shape in SHAPES),
    shuffled(
        "users.iterator",
        "between buffers",
        build=lambda tap: Summed(tap(numbers(9)).shuffle(buffer_size=3)).batch(2).shuffle(buffer_size=2),
    ),
    Specimen("users.torch", "alone", lambda tap: TorchPairs(tap(numbers(4))), after_fault="goes on or stays"),
    shuffled(
        "users.torch",
        "below a shuffle",
        lambda tap: TorchPairs(numbers(7).shuffle(buffer_size=3)).batch(2).unbatch(),
    ),
    *(
        Specimen("users.torch", f"{name} of torch's", partial(through, torchs), after_fault="goes on or stays")
        for name, torchs in TORCHS_HUBS.items()
    ),
    Specimen("users.stateful", "alone", lambda tap: Resumable(tap(numbers(5)))),
    shuffled(
        "users.stateful",
        "between buffers",
        build=lambda tap: Resumable(tap(numbers(9)).shuffle(buffer_size=3)).batch(2).shuffle(buffer_size=2),
    ),
    Specimen("users.stateful", "above a generator", lambda tap: Doubled(Resumable(numbers(6))).batch(2)),
    Specimen("users.stateful", "below a prefetch", lambda tap: Resumable(tap(numbers(6)).prefetch(2)).header(4)),
    Specimen(
        "users.stateful",
        "on two sources",
        lambda tap: Adding(tap(numbers(5)), tap.partner(numbers(7))).batch(2),
        after_fault="goes on or stays",
    ),
    Specimen(
        "users.stateful",
        "on two sources, prefetched",
        lambda tap: Adding(tap.partner(numbers(7)).prefetch(2), tap(numbers(5))).prefetch(2),
        after_fault="goes on or stays",
    ),
    Specimen(
        "users.stateful",
        "on both children of a fork",
        lambda tap: Adding(*tap(numbers(6)).fork(2)),
        after_fault="goes on or stays",
    ),
]
