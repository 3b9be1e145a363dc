"""Sampler: the indices that a sampler of torch draws for a collection with a length."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, ClassVar

import torch
from torch.utils.data import Sampler as TorchSampler
from torch.utils.data import SequentialSampler

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import StateError
from datapipes.operator_support.checks import needs, no_length
from datapipes.position.cells import CountCell, skip
from datapipes.position.opening import Opening


@operator
class Sampler(IterDataPipe[Any]):
    """The indices that a sampler of torch draws.

    Each iteration makes a new sampler, or copies the given one. A sampler with a ``generator``, such as torch's random
    ones, gets one that is seeded like any stage here; so does a sampler inside a batch sampler. Its order follows from
    the run's seed and the epoch, and can be resumed. A sampler with ``set_epoch``, such as ``DistributedSampler``, gets
    the epoch. Any other sampler must give the same indices each time.

    Args:
        datapipe: The collection of the indices, which must have a length. Its elements are not read.
        sampler: A sampler of torch; or a class of samplers, or a function that makes one, which gets ``datapipe``
            as ``data_source=``.
        sampler_args: Positional arguments for the class or function; torch's own samplers take none beside
            ``data_source=``.
        sampler_kwargs: Further keyword arguments for it. A sampler's own ``generator`` fixes the seed.

    >>> from datapipes.iter import IterableWrapper
    >>> list(Sampler(IterableWrapper("abc")))
    [0, 1, 2]
    >>> from torch.utils.data import WeightedRandomSampler
    >>> rows = [10, 20, 30]
    >>> list(Sampler(rows, WeightedRandomSampler([0, 0, 1], num_samples=2)).map(rows.__getitem__))
    [30, 30]
    """

    _parents: ClassVar[tuple[str, ...] | None] = ("datapipe",)
    datapipe: Any
    sampler: Callable[..., Iterable[Any]] | TorchSampler[Any] = SequentialSampler
    sampler_args: Sequence[Any] | None = None
    sampler_kwargs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        try:
            len(self.datapipe)
        except TypeError:
            needs(
                False, self, f"Sampler class requires input datapipe implemented `__len__`, got {self.datapipe!r:.200}"
            )
        self._made()  # raises now if the sampler refuses its arguments

    def _made(self) -> Iterable[Any]:
        if isinstance(self.sampler, TorchSampler):
            needs(
                not self.sampler_args and not self.sampler_kwargs,
                self,
                f"arguments are for a class of samplers, but {type(self.sampler).__name__} is already a sampler",
            )
            own: Iterable[Any] = _copy_of(self.sampler)
            return own
        return self.sampler(*(self.sampler_args or ()), data_source=self.datapipe, **(self.sampler_kwargs or {}))

    def _reads(self) -> tuple[()]:
        return ()

    def _open(self, at: Opening) -> Iterator[Any]:
        return self._indices(at, at.cell(CountCell))

    def _indices(self, at: Opening, given: CountCell) -> Iterator[Any]:
        sampler = self._made()
        for each in _with_inner(sampler):
            if hasattr(each, "generator"):
                pinned = None if each.generator is None else each.generator.initial_seed()
                each.generator = torch.Generator().manual_seed(at.seed(pinned))
            if hasattr(each, "set_epoch"):
                each.set_epoch(at.run.number)
        indices = iter(sampler)
        behind = given.given()
        if skip(indices, behind) < behind:
            raise StateError(f"{given.label}: {behind} indices were given, but the sampler has fewer now")
        yield from given.counting(indices)

    def __len__(self) -> int:
        sampler = self._made()
        if not isinstance(sampler, Sized):
            raise no_length(self)
        return len(sampler)


def _copy_of(sampler: Any) -> Any:
    """Return a copy of a sampler, and of those that it reads, which does not advance the original."""
    new: Any = copy.copy(sampler)
    if isinstance(vars(new).get("sampler"), TorchSampler):
        new.sampler = _copy_of(new.sampler)
    return new


def _with_inner(sampler: Any) -> Iterator[Any]:
    """Yield a sampler, and those that it reads, as a ``BatchSampler`` does."""
    yield sampler
    if isinstance(inner := getattr(sampler, "sampler", None), TorchSampler):
        yield from _with_inner(inner)
