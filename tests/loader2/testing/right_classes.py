"""Classes as users write them, which keep every law of the kit."""

from __future__ import annotations

import json
import os
import queue
import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.map import MapDataPipe, SequenceWrapper


class Reading(IterDataPipe[Any]):
    """A class that reads another pipe."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        yield from self.source_datapipe


class Seeded(Reading):
    """A class that is told its seed."""

    seed = 0

    def set_seed(self, seed: int) -> Seeded:
        self.seed = seed
        return self


class RunningSum(Reading):
    """As own-pipe.md has it first."""

    def __iter__(self) -> Iterator[int]:
        total = 0
        for number in self.source_datapipe:
            total += number
            yield total


class SavedSum(Reading):
    """As own-pipe.md has it with a state."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.total = 0

    def __iter__(self) -> Iterator[int]:
        for number in self.source_datapipe:
            self.total += number
            yield self.total

    def state_dict(self) -> dict[str, int]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.total = state["total"]


class Mixed(Seeded):
    """As own-pipe.md has it with random numbers."""

    def __iter__(self) -> Iterator[Any]:
        elements = list(self.source_datapipe)
        random.Random(self.seed).shuffle(elements)
        yield from elements


class Reseeded(Reading):
    """Keeps a generator, and seeds it when it is told to."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.rng = random.Random(0)

    def set_seed(self, seed: int) -> Reseeded:
        self.rng = random.Random(seed)
        return self

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield element, self.rng.randrange(100)


class OwnRandom(Reading):
    """Draws from a generator that its constructor has made."""

    def __init__(self, source_datapipe: Pipe, rng: Any = None) -> None:
        super().__init__(source_datapipe)
        self.random = random.Random(0) if rng is None else rng

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield element, self.random.random()


class OwnOfTorch(Reading):
    """The same with a generator of torch."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.rng = torch.Generator().manual_seed(0)

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield element, torch.rand((), generator=self.rng).item()


class OwnShuffle(Reading):
    """Shuffles in a buffer with a generator that its constructor has made."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.rng = random.Random(777)

    def __iter__(self) -> Iterator[Any]:
        buffer = list(self.source_datapipe)
        self.rng.shuffle(buffer)
        yield from buffer


class Half(Reading):
    """A fixed split of the data, as own-pipe.md has it: one half for training, the other for validation."""

    def __init__(self, source_datapipe: Pipe, first: bool) -> None:
        super().__init__(source_datapipe)
        self.first = first

    def __iter__(self) -> Iterator[Any]:
        split = random.Random(0)
        for element in self.source_datapipe:
            if (split.random() < 0.5) is self.first:
                yield element


class Drop(Seeded):
    """Leaves out some elements by chance; its length is not known."""

    def __iter__(self) -> Iterator[Any]:
        rng = random.Random(self.seed)
        for element in self.source_datapipe:
            if rng.random() >= 0.5:
                yield element


class Noise(Seeded):
    """Augments by numpy."""

    def __iter__(self) -> Iterator[float]:
        rng = np.random.default_rng(self.seed)
        for number in self.source_datapipe:
            yield float(number + rng.normal())

    def __len__(self) -> int:
        return len(self.source_datapipe)


class Masked(Seeded):
    """Augments by torch."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        rng = torch.Generator().manual_seed(self.seed % 2**63)
        for number in self.source_datapipe:
            yield torch.full((4,), number) * (torch.rand(4, generator=rng) < 0.5)


class Counted(Reading):
    """Counts its epochs, and gives the number beside each element."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        self.epoch += 1
        for element in self.source_datapipe:
            yield self.epoch, element


class Told(Reading):
    """Is told the number of each epoch, as own-pipe.md has it."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.limit = 0

    def set_epoch(self, epoch: int) -> None:
        self.limit = 3 + epoch

    def __iter__(self) -> Iterator[Any]:
        for number, element in enumerate(self.source_datapipe):
            if number < self.limit:
                yield element


class Numericalized(Reading):
    """Words as numbers of a vocabulary."""

    def __init__(self, source_datapipe: Pipe, vocabulary: dict[str, int]) -> None:
        super().__init__(source_datapipe)
        self.vocabulary = vocabulary

    def __iter__(self) -> Iterator[list[int]]:
        for line in self.source_datapipe:
            yield [self.vocabulary.get(word, 0) for word in line.split()]

    def __len__(self) -> int:
        return len(self.source_datapipe)


class Questions(Reading):
    """Questions and answers out of nested JSON."""

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for text in self.source_datapipe:
            for each in json.loads(text)["questions"]:
                yield each["question"], each["answer"]


class Sentences(Reading):
    """Columns of tagged words, a sentence up to each empty line."""

    def __iter__(self) -> Iterator[list[list[str]]]:
        columns: list[list[str]] = []
        for line in self.source_datapipe:
            if not line:
                if columns:
                    yield columns
                columns = []
                continue
            for i, value in enumerate(line.split()):
                columns[i:] = [*columns[i:], []] if len(columns) <= i else columns[i:]
                columns[i].append(value)
        if columns:
            yield columns


class Processor(Reading):
    """A generator function over the source, as speech recipes chain them."""

    def __init__(self, source_datapipe: Pipe, step: Callable[..., Iterator[Any]], *args: Any) -> None:
        super().__init__(source_datapipe)
        self.step, self.args = step, args

    def __iter__(self) -> Iterator[Any]:
        return self.step(iter(self.source_datapipe), *self.args)


def sort_in_buffer(numbers: Iterator[int], size: int) -> Iterator[int]:
    buffer: list[int] = []
    for number in numbers:
        buffer.append(number)
        if len(buffer) >= size:
            yield from sorted(buffer, key=lambda each: -each)
            buffer = []
    yield from sorted(buffer, key=lambda each: -each)


def batch_by_frames(lengths: Iterator[int], most: int) -> Iterator[list[int]]:
    batch: list[int] = []
    for length in lengths:
        if batch and max(*batch, length) * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(length)
    if batch:
        yield batch


class Padded(Reading):
    """Lists of numbers as one tensor, filled with zeros."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for batch in self.source_datapipe:
            rows = [torch.arange(number) for number in batch]
            yield torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


class RoundRobin(IterDataPipe[Any]):
    """Elements of several pipes in turn."""

    def __init__(self, *sources: Pipe) -> None:
        self.sources = sources

    def __iter__(self) -> Iterator[Any]:
        iterators = [iter(source) for source in self.sources]
        while iterators:
            for iterator in list(iterators):
                try:
                    element = next(iterator)
                except StopIteration:
                    iterators.remove(iterator)
                    continue
                yield element


class Pairs(IterDataPipe[Any]):
    """Pairs of two pipes' elements."""

    def __init__(self, left: Pipe, right: Pipe) -> None:
        self.left, self.right = left, right

    def __iter__(self) -> Iterator[Any]:
        yield from zip(self.left, self.right, strict=False)


class SavedPairs(Pairs):
    """The same with a state, which is empty: all that it has taken is handed on."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class InTurn(IterDataPipe[Any]):
    """Elements of several pipes in turn, up to the end of the shortest, with a state."""

    def __init__(self, *sources: Pipe) -> None:
        self.sources, self.turn = sources, 0

    def __iter__(self) -> Iterator[Any]:
        iterators = [iter(source) for source in self.sources]
        for element in iter(lambda: next(iterators[self.turn], None), None):
            self.turn = (self.turn + 1) % len(iterators)
            yield element

    def state_dict(self) -> dict[str, int]:
        return {"turn": self.turn}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.turn = state["turn"]


class Matching(SavedPairs):
    """Pairs of what is equal in two sorted pipes."""

    def __iter__(self) -> Iterator[Any]:
        right = iter(self.right)
        for each in self.left:
            if (match := next((other for other in right if other >= each), None)) == each:
                yield each, match


class BatchedPairs(IterDataPipe[Any]):
    """Pairs in batches, of which a state has the one that is begun."""

    def __init__(self, left: Pipe, right: Pipe) -> None:
        self.left, self.right = left, right
        self.begun: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        for pair in zip(self.left, self.right, strict=False):
            self.begun = [*self.begun, pair]
            if len(self.begun) == 2:
                full, self.begun = self.begun, []
                yield full
        if self.begun:
            full, self.begun = self.begun, []
            yield full

    def state_dict(self) -> dict[str, Any]:
        return {"begun": list(self.begun)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.begun = list(state["begun"])


class Every(Reading):
    """Takes its worker's part by itself."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.of, self.index = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> None:
        self.of, self.index = num_of_instances, instance_id

    def is_shardable(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        for i, element in enumerate(self.source_datapipe):
            if i % self.of == self.index:
                yield element


class Lines(IterDataPipe[str]):
    """A source: the lines of a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __iter__(self) -> Iterator[str]:
        with open(self.path) as file:
            for line in file:
                yield line.rstrip()


class Ahead(Reading):
    """Reads in a thread of its own, which it ends."""

    def __iter__(self) -> Iterator[Any]:
        elements: queue.Queue[Any] = queue.Queue(maxsize=2)
        left = threading.Event()
        thread = threading.Thread(target=_fill, args=(self.source_datapipe, elements, left))
        thread.start()
        try:
            while (found := elements.get())[0] != "end":
                if found[0] == "error":
                    raise found[1]
                yield found[1]
        finally:
            left.set()
            while thread.is_alive():
                while not elements.empty():
                    elements.get()
                thread.join(0.01)


def _fill(source: Pipe, elements: queue.Queue[Any], left: threading.Event) -> None:
    try:
        for element in source:
            if left.is_set():
                return
            elements.put(("element", element))
        elements.put(("end",))
    except Exception as error:
        elements.put(("error", error))


class Subset(MapDataPipe[Any]):
    """Some elements of a collection."""

    def __init__(self, datapipe: MapDataPipe[Any], indices: list[int]) -> None:
        self.datapipe, self.indices = datapipe, indices

    def __getitem__(self, index: int) -> Any:
        return self.datapipe[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class Called(Reading):
    """Calls a function of its user's."""

    def __init__(self, source_datapipe: Pipe, fn: Callable[[Any], Any]) -> None:
        super().__init__(source_datapipe)
        self.fn = fn

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield self.fn(element)


class Cursor(Reading):
    """Its own iterator, with a state."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.last = -1

    def __iter__(self) -> Iterator[Any]:
        self.elements = iter(self.source_datapipe)
        return self

    def __next__(self) -> Any:
        element = next(self.elements)
        before, self.last = self.last, element
        return before, element

    def state_dict(self) -> dict[str, Any]:
        return {"last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last = state["last"]


def words(text: str) -> list[str]:
    return text.split()


def numbers(length: int = 7) -> Pipe:
    return IterableWrapper(range(length))


def a_file() -> str:
    path = os.path.join(tempfile.gettempdir(), f"lines of {os.getpid()}.txt")
    with open(path, "w") as file:
        file.write("one\ntwo\nthree\n")
    return path


TEXTS = ["to be or", "not to be", "that is", "the question"]
ASKED = [json.dumps({"questions": [{"question": f"q{i}{j}", "answer": "a"} for j in range(i)]}) for i in range(3)]
TAGGED = ["EU B-ORG", "rejects O", "", "German B-MISC", "call O", "", "", "to O"]

RIGHT: dict[str, Callable[..., Pipe]] = {
    "a running sum": lambda: RunningSum(numbers()),
    "a running sum with a state": lambda: SavedSum(numbers()),
    "a sum of a shuffle, in batches": lambda: SavedSum(numbers().shuffle()).batch(2),
    "mixed by its seed": lambda: Mixed(numbers()),
    "mixed above a batch": lambda: Mixed(numbers()).batch(3),
    "a generator that is seeded": lambda: Reseeded(numbers()),
    "a generator of its own": lambda: OwnRandom(numbers()),
    "a generator of numpy": lambda: OwnRandom(numbers(), np.random.default_rng(0)),
    "an old generator of numpy": lambda: OwnRandom(numbers(), np.random.RandomState(0)),
    "a generator of torch": lambda: OwnOfTorch(numbers()),
    "a shuffle of its own": lambda: OwnShuffle(numbers()),
    "a generator below a batch": lambda: OwnRandom(numbers().batch(2)).map(repr),
    "a fixed split": lambda: Half(numbers(), first=True),
    "a filter by chance": lambda: Drop(numbers(9)),
    "noise of numpy": lambda: Noise(numbers()),
    "a mask of torch": lambda: Masked(numbers()),
    "an epoch that is counted": lambda: Counted(numbers()),
    "an epoch that is told": lambda: Told(numbers()),
    "numbers of words": lambda: Numericalized(IterableWrapper(TEXTS), {"to": 1, "be": 2}),
    "questions of nested JSON": lambda: Questions(IterableWrapper(ASKED)),
    "tagged sentences": lambda: Sentences(IterableWrapper(TAGGED)),
    "sorting in a buffer": lambda: Processor(numbers(), sort_in_buffer, 3),
    "batches by frames": lambda: Processor(IterableWrapper([3, 1, 4, 1, 5, 9, 2, 6]), batch_by_frames, 12),
    "a chain of processors": lambda: Processor(Processor(numbers(), sort_in_buffer, 4), batch_by_frames, 12),
    "padded batches": lambda: Padded(numbers().batch(3)),
    "pipes in turn": lambda: RoundRobin(numbers(4), IterableWrapper("abc"), numbers(2)),
    "pairs": lambda: Pairs(numbers(5), IterableWrapper("abcde")),
    "the library's zip": lambda: numbers(5).zip(IterableWrapper("abcde")),
    "the library's zip of a shuffle": lambda: numbers(5).shuffle(buffer_size=3).zip(IterableWrapper("abcde")),
    "the library's join": lambda: numbers(4).zip_with_iter(numbers(4), key_fn=hash, ref_key_fn=hash),
    "pairs with a state": lambda: SavedPairs(numbers(5), IterableWrapper("abcdefg")),
    "pairs of batches with a state": lambda: SavedPairs(numbers(5).batch(2), IterableWrapper("abc")).batch(2),
    "pipes in turn with a state": lambda: InTurn(numbers(3), IterableWrapper("abc"), IterableWrapper([5, 6, 7])),
    "a merge with a state": lambda: Matching(IterableWrapper([1, 3, 4]), numbers(6)),
    "pairs in batches with a state": lambda: BatchedPairs(numbers(5), IterableWrapper("abcde")),
    "a part of its own": lambda: Every(numbers()),
    "lines of a file": lambda: Lines(a_file()),
    "read ahead": lambda: Ahead(numbers(5)),
    "a subset": lambda: Subset(SequenceWrapper("abcdef"), [4, 1, 3]).shuffle(),
    "a function of words": lambda tap: Called(tap(IterableWrapper(TEXTS)), tap.function(words)),
    "a function of lists": lambda tap: Called(tap(IterableWrapper([[1], [2, 3], [1]])), tap.function(sum)),
    "the library's map": lambda tap: tap(IterableWrapper([10, 20, 10, 30])).map(tap.function(str)),
    "its own iterator": lambda: Cursor(numbers()),
}
