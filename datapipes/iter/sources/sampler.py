"""Sampler: the indices that a sampler of torch draws for a collection of some length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, ClassVar

import torch
from torch.utils.data import SequentialSampler

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import StateError
from datapipes.operators.checks import needs, no_length
from datapipes.position.cells import Given, skip
from datapipes.position.opening import Opening


@operator
class Sampler(IterDataPipe[Any]):
    """The indices that a sampler of torch draws.

    Each iteration makes a sampler anew. One that draws by a ``generator`` of its own, as torch's do, is given one that
    is seeded like any stage here, so its order follows from the run's seed and the epoch, and can be resumed. Any other
    sampler has to give the same indices each time.

    Args:
        datapipe: What the indices are for, which must have a length. Its elements are not read.
        sampler: A class of samplers, or a function that makes one. It is given ``datapipe`` as ``data_source=``.
        sampler_args: Positional arguments for it; torch's own samplers take none beside ``data_source=``.
        sampler_kwargs: Other keyword arguments for it. A ``generator`` among them pins the seed to its own.

    >>> from datapipes.iter import IterableWrapper
    >>> list(Sampler(IterableWrapper("abc")))
    [0, 1, 2]
    """

    _parents: ClassVar[tuple[str, ...] | None] = ("datapipe",)
    datapipe: Any
    sampler: Callable[..., Iterable[Any]] = SequentialSampler
    sampler_args: Sequence[Any] | None = None
    sampler_kwargs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        try:
            len(self.datapipe)
        except TypeError:
            needs(
                False, self, f"Sampler class requires input datapipe implemented `__len__`, got {self.datapipe!r:.200}"
            )
        self._made()  # arguments that the sampler refuses are refused here

    def _made(self) -> Iterable[Any]:
        return self.sampler(*(self.sampler_args or ()), data_source=self.datapipe, **(self.sampler_kwargs or {}))

    def _reads(self) -> tuple[()]:
        return ()

    def _open(self, at: Opening) -> Iterator[Any]:
        return self._indices(at, at.cell(Given))

    def _indices(self, at: Opening, given: Given) -> Iterator[Any]:
        sampler: Any = self._made()
        if hasattr(sampler, "generator"):
            pinned = None if sampler.generator is None else sampler.generator.initial_seed()
            sampler.generator = torch.Generator().manual_seed(at.seed(pinned))
        indices = iter(sampler)
        behind = given.save()
        if skip(indices, behind) < behind:
            raise StateError(f"{given.label}: {behind} indices were given, and the sampler has fewer now")
        yield from given.counting(indices)

    def __len__(self) -> int:
        sampler = self._made()
        if not isinstance(sampler, Sized):
            raise no_length(self)
        return len(sampler)
