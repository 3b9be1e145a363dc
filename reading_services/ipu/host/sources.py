"""Source of an accessor, which gives one iterator for each epoch, in whichever process it is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import Dataset

from reading_services.ipu.host.rebatching import rebatched


class Sourced(ABC):
    """A dataset that knows best how an accessor should read it."""

    @abstractmethod
    def source(self, rebatched_size: int | None) -> EpochSource:
        """The source of an accessor that is to give so many rows at a time, if any number."""


class EpochSource(Sourced):
    """One iterator for each epoch. A source is sent to another process, and must depend on nothing that stays here."""

    rows_vary = False
    """Whether elements may differ in their number of rows."""
    seed: int | None = None
    """Seed of random numbers in the other process; None: they follow from this one's."""

    def source(self, rebatched_size: int | None) -> EpochSource:
        return Rebatched(self, rebatched_size) if rebatched_size else self

    batch_size = 1
    """Rows in an element."""

    @abstractmethod
    def epoch(self, number: int) -> Iterator[Any]:
        """The elements of an epoch, counted from 0."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of elements of an epoch."""


class Plain(EpochSource):
    """Any object that can be iterated, each time anew; an epoch is one iteration."""

    def __init__(self, dataset: Iterable[Any] | Dataset[Any]) -> None:
        self.dataset = dataset
        self.batch_size = getattr(dataset, "batch_size", None) or 1

    def epoch(self, number: int) -> Iterator[Any]:
        return iter(self.dataset) if isinstance(self.dataset, Iterable) else self._by_index()

    def _by_index(self) -> Iterator[Any]:
        """Elements 0, 1, 2 ... up to the first that is not there, as ``iter`` does, or that ends the iteration."""
        dataset: Any = self.dataset
        index = 0
        while True:
            try:
                element = dataset[index]
            except (IndexError, StopIteration):
                return
            index += 1
            yield element
            del element  # it may lie in memory that is about to be handed over

    def __len__(self) -> int:
        dataset: Any = self.dataset
        return len(dataset)


class Rebatched(EpochSource):
    """Another source's rows, in elements of exactly so many; what is left over in the end is kept on request."""

    def __init__(self, inner: EpochSource, rows: int, keep_rest: bool = False) -> None:
        self.inner = inner
        self.rows = rows
        self.rows_vary = self.keep_rest = keep_rest
        self.seed = inner.seed

    def epoch(self, number: int) -> Iterator[Any]:
        return rebatched(self.inner.epoch(number), self.rows, self.keep_rest)

    def __len__(self) -> int:
        return len(self.inner) * self.inner.batch_size // self.rows
