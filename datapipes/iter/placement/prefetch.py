"""prefetch, pin_memory: a thread runs the stages above ahead; it can also move elements into pinned memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, TypeVar

import torch

from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.errors import GraphError
from datapipes.iter.placement.pausing import Pausable
from datapipes.memory import pinning
from datapipes.operator_support.ahead import PrefetchCell
from datapipes.operator_support.checks import needs_count, same_length
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@operator
class Prefetcher(Pausable, IterDataPipe[T_co]):
    """The same elements, made ahead by a thread.

    Args:
        buffer_size: Number of elements to make ahead: a larger one bridges longer waits for an element, but needs more
            memory.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).prefetch(2))
    [0, 1, 2, 3, 4]
    """

    _fluent: ClassVar[str | None] = "prefetch"
    _commutes: ClassVar[bool] = True
    _passes_through: ClassVar[bool] = True
    _prefetches: ClassVar[bool] = True

    source_datapipe: IterDataPipe[T_co]
    buffer_size: int = 10

    def __post_init__(self) -> None:
        needs_count(self, "buffer_size", 1, "'buffer_size' is required to be a positive integer")

    def _open(self, at: Opening) -> Iterator[T_co]:
        mark = at.mark()
        return at.cell(lambda: PrefetchCell(self.buffer_size)).elements(
            at.source(self.source_datapipe), mark, interrupted=at.on_interruption
        )

    __len__ = same_length


@operator
class PinMemory(Prefetcher[T_co]):
    """The same elements with their tensors in pinned memory, two of them made ahead by a thread.

    It belongs into the process that trains, so it is not replicated to workers (``is_replicable``).

    Args:
        device: The device that the elements are for. ``None``: the current one.
        pin_memory_fn: A function of an element and ``device`` that returns the pinned element.

    >>> from datapipes.iter import IterableWrapper
    >>> if torch.cuda.is_available():
    ...     assert next(iter(IterableWrapper(range(4)).batch(2).collate().pin_memory())).is_pinned()
    """

    _fluent: ClassVar[str | None] = "pin_memory"

    def __init__(
        self,
        source_datapipe: IterDataPipe[T_co],
        device: Any = None,
        pin_memory_fn: Callable[[Any, Any], Any] = pinning.pin_memory_fn,
    ) -> None:
        super().__init__(source_datapipe, buffer_size=2)
        self.device = device
        self.pin_memory_fn = pin_memory_fn
        if not torch.cuda.is_available():
            raise GraphError(f"pin_memory() needs CUDA, but torch finds none here: leave out {stage(self)}")

    def is_replicable(self) -> bool:
        """Return False: pinned memory cannot be passed between processes."""
        return False

    def _open(self, at: Opening) -> Iterator[T_co]:
        mark = at.mark()
        pinned = self._pinned(
            at, at.source(self.source_datapipe), _device_in_use() if self.device is None else self.device
        )
        return at.cell(lambda: PrefetchCell(self.buffer_size)).elements(pinned, mark, interrupted=at.on_interruption)

    def _pinned(self, at: Opening, source: Iterator[Any], device: Any) -> Iterator[T_co]:
        if device is not None:
            torch.cuda.set_device(device)  # otherwise this thread would use the first one
        for element in source:
            try:
                pinned = self.pin_memory_fn(element, self.device)
            except BaseException as error:
                at.keep(element, error)
                raise
            yield pinned

    def _indexed(self) -> Indexed | None:
        source = indexed(self.source_datapipe)
        return None if source is None else source.giving(partial(self._pinned_at, source.at))

    def _pinned_at(self, at: Callable[[int], Any], i: int) -> Any:
        return self.pin_memory_fn(at(i), self.device)


def _device_in_use() -> int | None:
    """Return the current device of the calling thread, or None if it uses none."""
    in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch has not typed it
    return torch.cuda.current_device() if in_use else None
