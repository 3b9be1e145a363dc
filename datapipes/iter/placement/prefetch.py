"""prefetch, pin_memory: the stages above run ahead, in a thread; which may move elements into pinned memory as well."""

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
from datapipes.operators.ahead import Ahead
from datapipes.operators.checks import needs_count, same_length
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@operator
class Prefetcher(Pausable, IterDataPipe[T_co]):
    """The same elements, made beforehand by a thread.

    Args:
        buffer_size: How many elements are made beforehand: more bridge longer waits for one of them, and take more
            memory.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).prefetch(2))
    [0, 1, 2, 3, 4]
    """

    _fluent: ClassVar[str | None] = "prefetch"
    _commutes: ClassVar[bool] = True
    _hands_on: ClassVar[bool] = True
    _runs_ahead: ClassVar[bool] = True

    source_datapipe: IterDataPipe[T_co]
    buffer_size: int = 10

    def __post_init__(self) -> None:
        needs_count(self, "buffer_size", 1, "'buffer_size' is required to be a positive integer")

    def _open(self, at: Opening) -> Iterator[T_co]:
        mark = at.mark()
        return at.cell(lambda: Ahead(self.buffer_size)).elements(
            at.source(self.source_datapipe), mark, interrupted=at.on_interruption
        )

    __len__ = same_length


@operator
class PinMemory(Prefetcher[T_co]):
    """The same elements with their tensors in pinned memory, two of them made beforehand by a thread.

    It belongs into the process that trains, so it is not replicated to workers (``is_replicable``).

    Args:
        device: The device that the elements are for. ``None``: the one in use.
        pin_memory_fn: A function of an element and ``device`` that gives the pinned element.

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
            raise GraphError(f"pin_memory() needs CUDA, and torch finds none here: leave out {stage(self)}")

    def is_replicable(self) -> bool:
        """False: pinned memory cannot be handed from one process to another."""
        return False

    def _open(self, at: Opening) -> Iterator[T_co]:
        mark = at.mark()
        pinned = self._pinned(
            at, at.source(self.source_datapipe), _device_in_use() if self.device is None else self.device
        )
        return at.cell(lambda: Ahead(self.buffer_size)).elements(pinned, mark, interrupted=at.on_interruption)

    def _pinned(self, at: Opening, source: Iterator[Any], device: Any) -> Iterator[T_co]:
        if device is not None:
            torch.cuda.set_device(device)  # for this thread, which would otherwise use the first one
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
    """The device of the thread that iterates, if it uses one."""
    in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch has not typed it
    return torch.cuda.current_device() if in_use else None
