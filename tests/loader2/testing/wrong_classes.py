"""Classes as users write them, with one mistake each, and the law that it breaks."""

from __future__ import annotations

import logging
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import torch

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from tests.loader2.testing.right_classes import BatchedPairs, Called, Reading, Seeded, numbers, sort_in_buffer

LEFT: list[Callable[[], Any]] = []
"""Functions that take away what wrong classes leave behind."""


def tidy() -> None:
    while LEFT:
        LEFT.pop()()


class Unseeded(Reading):
    """Draws from a generator that its constructor seeds otherwise each time."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.rng = random.Random()

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield element, self.rng.random()


class Global(Reading):
    """Draws from the program's generators."""

    def __init__(self, source_datapipe: Pipe, draw: Callable[[], float]) -> None:
        super().__init__(source_datapipe)
        self.drawn_by = draw

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield element, self.drawn_by()


def of_torch() -> float:
    return torch.rand(()).item()


class Named(Reading):
    """Gives each element a name that is new in each run."""

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield element, uuid.uuid4().hex


class WithLength(Reading):
    """A filter with the length of its source."""

    def __iter__(self) -> Iterator[Any]:
        yield from (element for element in self.source_datapipe if element % 2)

    def __len__(self) -> int:
        return len(self.source_datapipe)


class BatchWithLength(Reading):
    """Batches, of which the last that is not full is not counted."""

    def __iter__(self) -> Iterator[Any]:
        elements = list(self.source_datapipe)
        yield from (elements[i : i + 2] for i in range(0, len(elements), 2))

    def __len__(self) -> int:
        return len(self.source_datapipe) // 2


class DropWithLength(Seeded):
    """A filter by chance that claims the number of its source."""

    def __iter__(self) -> Iterator[Any]:
        rng = random.Random(self.seed)
        yield from (element for element in self.source_datapipe if rng.random() < 0.5)

    def __len__(self) -> int:
        return len(self.source_datapipe)


class Saving(Reading):
    """A class with a state, which its subclasses get wrong."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.total = 0

    def __iter__(self) -> Iterator[Any]:
        for number in self.source_datapipe:
            self.total += number
            yield self.total

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total = state["total"]


class Empty(Saving):
    """Saves nothing."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class Late(Saving):
    """Changes its state behind the yield."""

    def __iter__(self) -> Iterator[Any]:
        for number in self.source_datapipe:
            yield self.total + number
            self.total += number


class Buffered(Saving):
    """Saves a count, and not what is in its buffer."""

    def __iter__(self) -> Iterator[Any]:
        for number in sort_in_buffer(iter(self.source_datapipe), 3):
            self.total += 1
            yield number


class Tail(Saving):
    """Reads one element ahead, and does not save it."""

    def __iter__(self) -> Iterator[Any]:
        elements = iter(self.source_datapipe)
        before = next(elements, None)
        while before is not None:
            after = next(elements, None)
            yield before, after
            before = after


class Logging(Reading):
    """Leaves out what cannot be read, with a word in a log, as many recipes do."""

    def __iter__(self) -> Iterator[Any]:
        elements = iter(self.source_datapipe)
        while True:
            try:
                element = next(elements)
            except StopIteration:
                return
            except Exception as error:
                logging.getLogger(__name__).debug("failed to read: %s", error)
                continue
            yield element


class LoggingCalls(Called):
    """The same around a function."""

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            try:
                yield self.fn(element)
            except ValueError as error:
                logging.getLogger(__name__).debug("failed to parse: %s", error)


class BatchedInPlace(BatchedPairs):
    """Changes in place what its state has, before it has handed on."""

    def __iter__(self) -> Iterator[Any]:
        self.begun = list(self.begun)
        for pair in zip(self.left, self.right, strict=False):
            self.begun.append(pair)
            if len(self.begun) == 2:
                full, self.begun = self.begun, []
                yield full


class Ending(Reading):
    """Ends where its source raises."""

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.source_datapipe
        except ValueError:
            return


class Renaming(Reading):
    """Makes another error of each."""

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.source_datapipe
        except ValueError as error:
            raise RuntimeError("bad data") from error


class Popping(IterDataPipe[Any]):
    """Takes its files out of the list that it was given."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[str]:
        while self.files:
            yield self.files.pop(0)


class Remembering(Reading):
    """Keeps a vocabulary that grows while it is iterated."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.vocabulary: dict[Any, int] = {}

    def __iter__(self) -> Iterator[int]:
        for word in self.source_datapipe:
            yield self.vocabulary.setdefault(word, len(self.vocabulary))


class OnTheClass(Reading):
    """Numbers its elements by a count that all objects share."""

    count: ClassVar[int] = 0

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            OnTheClass.count += 1
            yield OnTheClass.count, element


class Locked(Reading):
    """Has a lock from the beginning."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.lock = threading.Lock()


class Unpickled(Reading):
    """Forgets its parameter when it is pickled."""

    def __init__(self, source_datapipe: Pipe, times: int = 3) -> None:
        super().__init__(source_datapipe)
        self.times = times

    def __getstate__(self) -> Any:
        return {"source_datapipe": self.source_datapipe, "times": 1}

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield element * self.times


class Thread(Reading):
    """Leaves a thread behind."""

    def __iter__(self) -> Iterator[Any]:
        done = threading.Event()
        LEFT.append(done.set)
        threading.Thread(target=done.wait).start()
        yield from self.source_datapipe
        done.set()


class File(IterDataPipe[str]):
    """Closes its file at the end, and only there."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __iter__(self) -> Iterator[str]:
        file = open(self.path)  # noqa: SIM115  leaving it open is the fault
        LEFT.append(file.close)
        yield from ("one", "two")
        file.close()


class Shared(Reading):
    """All its iterations share one buffer."""

    buffer: ClassVar[list[Any]] = []

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            self.buffer.append(element)
            if len(self.buffer) == 2:
                yield list(self.buffer)
                self.buffer.clear()
        yield list(self.buffer)
        self.buffer.clear()


WRONG: dict[str, tuple[str, Callable[..., Pipe]]] = {
    "a generator without a seed": ("same seed", lambda: Unseeded(numbers())),
    "random itself": ("same seed", lambda: Global(numbers(), random.random)),
    "numpy's own": ("same seed", lambda: Global(numbers(), np.random.rand)),
    "torch's own": ("same seed", lambda: Global(numbers(), of_torch)),
    "new names": ("same seed", lambda: Named(numbers())),
    "a count on the class": ("same seed", lambda: OnTheClass(numbers())),
    "a filter with a length": ("honest len", lambda: WithLength(numbers())),
    "batches that are not all counted": ("honest len", lambda: BatchWithLength(numbers())),
    "a filter by chance with a length": ("honest len", lambda: DropWithLength(numbers())),
    "an empty state": ("resume", lambda: Empty(numbers())),
    "a late state": ("resume", lambda: Late(numbers())),
    "a state without the buffer": ("resume", lambda: Buffered(numbers())),
    "an element ahead": ("resume", lambda: Tail(numbers())),
    "errors in a log": ("errors", lambda: Logging(numbers())),
    "errors of a function in a log": (
        "errors",
        lambda tap: LoggingCalls(tap(IterableWrapper(["1", "2", "2", "5"])), tap.function(int)),
    ),
    "pairs in a batch that is changed in place": (
        "errors",
        lambda: BatchedInPlace(numbers(4), IterableWrapper("abcd")),
    ),
    "an error that ends it": ("errors", lambda: Ending(numbers())),
    "another error": ("errors", lambda: Renaming(numbers())),
    "files taken out of a list": ("independence", lambda: Popping(["a", "b", "c"])),
    "a vocabulary that grows": ("innocence", lambda: Remembering(IterableWrapper("abca"))),
    "a lock": ("pickling", lambda: Locked(numbers())),
    "a parameter that is lost": ("pickling", lambda: Unpickled(numbers())),
    "a thread left behind": ("quiet close", lambda: Thread(numbers())),
    "a file left open": ("quiet close", lambda: File(__file__)),
    "a buffer for all": ("independence", lambda: Shared(numbers())),
}
"""A graph with the class in it, and the law by which it has to be refused."""
