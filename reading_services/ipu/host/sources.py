"""Source of an accessor: one iterator for each epoch, in the process that reads it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import Dataset

from reading_services.ipu.host.rebatching import rebatched


class Sourced(ABC):
    """Dataset that chooses how an accessor reads it."""

    @abstractmethod
    def source(self, rebatched_size: int | None) -> EpochSource:
        """Return the source for an accessor. Its elements have ``rebatched_size`` rows; None: as many as they have."""


class EpochSource(Sourced):
    """Source of one iterator for each epoch. It is sent to another process, and must not depend on this one."""

    rows_vary = False
    """Whether elements may differ in their number of rows."""
    seed: int | None = None
    """Seed of random numbers in the other process. None: the accessor draws it from this process's generator."""

    def source(self, rebatched_size: int | None) -> EpochSource:
        return Rebatched(self, rebatched_size) if rebatched_size else self

    batch_size = 1
    """Rows of an element."""

    @abstractmethod
    def epoch(self, number: int) -> Iterator[Any]:
        """Return an iterator of an epoch's elements. Epochs are counted from 0."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of elements of an epoch."""


class Plain(EpochSource):
    """Any object that can be iterated repeatedly; an epoch is one iteration."""

    def __init__(self, dataset: Iterable[Any] | Dataset[Any]) -> None:
        self.dataset = dataset
        self.batch_size = getattr(dataset, "batch_size", None) or 1

    def epoch(self, number: int) -> Iterator[Any]:
        return iter(self.dataset) if isinstance(self.dataset, Iterable) else self._by_index()

    def _by_index(self) -> Iterator[Any]:
        """Yield elements 0, 1, 2 ..., as ``iter`` does, until the dataset raises IndexError or StopIteration."""
        dataset: Any = self.dataset
        index = 0
        while True:
            try:
                element = dataset[index]
            except (IndexError, StopIteration):
                return
            index += 1
            yield element
            del element  # its memory may be sent with it

    def __len__(self) -> int:
        dataset: Any = self.dataset
        return len(dataset)


class Rebatched(EpochSource):
    """Another source's rows in elements of ``rows`` rows. ``keep_rest``: the rest at the end is an element, too."""

    def __init__(self, inner: EpochSource, rows: int, keep_rest: bool = False) -> None:
        self.inner = inner
        self.rows = rows
        self.rows_vary = self.keep_rest = keep_rest
        self.seed = inner.seed

    def epoch(self, number: int) -> Iterator[Any]:
        return rebatched(self.inner.epoch(number), self.rows, self.keep_rest)

    def __len__(self) -> int:
        return len(self.inner) * self.inner.batch_size // self.rows
