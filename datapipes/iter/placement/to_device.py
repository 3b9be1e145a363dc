"""to_device: elements moved to the device that trains, while it works on others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, TypeVar

import torch
from torch.utils.data import get_worker_info

from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.description.renamed import renamed
from datapipes.errors import BadArgument, GraphError
from datapipes.memory.moving import moved, mover
from datapipes.operator_support.ahead import PrefetchCell
from datapipes.operator_support.checks import needs_count, same_length
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@renamed(ahead="prefetch_cnt")
@operator
class ToDevice(IterDataPipe[T_co]):
    """The same elements with their tensors on a device, some of them moved ahead by a thread.

    Tensors are found in mappings, sequences, namedtuples and dataclasses; the ``to`` method of other objects is called.
    The stage belongs into the process that trains, so it is not replicated to workers (``is_replicable``). It should be
    the last stage: elements on a device that wait in a stage below cannot be saved. Elements ahead in this stage are
    saved as they were before the move.

    Args:
        device: The device, as ``torch.device`` takes it. ``"cuda"`` is the current one where the iteration begins.
        non_blocking: Whether to copy in the background to a CUDA device: from pinned memory, in a separate stream,
            for which the loop's current stream waits.
        prefetch_cnt: Number of elements to move ahead. They need memory of the device.

    >>> from datapipes.iter import IterableWrapper
    >>> [batch.device.type for batch in IterableWrapper(range(4)).batch(2).collate().to_device("cpu")]
    ['cpu', 'cpu']
    """

    _fluent: ClassVar[str | None] = "to_device"
    _commutes: ClassVar[bool] = True
    _prefetches: ClassVar[bool] = True

    source_datapipe: IterDataPipe[T_co]
    device: Any
    non_blocking: bool = True
    prefetch_cnt: int = 2

    def __post_init__(self) -> None:
        needs_count(self, "prefetch_cnt", 1, "'prefetch_cnt' is required to be a positive integer")
        try:
            is_there = torch.device(self.device).type != "cuda" or torch.cuda.is_available()
        except (RuntimeError, TypeError) as error:
            raise BadArgument(f"{stage(self)}: torch knows no such device: {error}") from error
        if not is_there:
            raise GraphError(f"{stage(self)} needs CUDA, but torch finds none here")

    def is_replicable(self) -> bool:
        """Return False: an element on a device cannot be passed between processes."""
        return False

    def _in_use(self) -> torch.device:
        device = torch.device(self.device)
        here = device.type == "cuda" and device.index is None  # otherwise the moving thread would use the first one
        return torch.device("cuda", torch.cuda.current_device()) if here else device

    def _open(self, at: Opening) -> Iterator[T_co]:
        if get_worker_info() is not None:
            raise GraphError(
                f"{stage(self)} is in a worker of torch's DataLoader, which cannot pass on elements on a device: leave "
                "it out there, and move what the DataLoader gives"
            )
        mark, move = at.mark(), mover(self._in_use(), self.non_blocking)
        return at.cell(lambda: PrefetchCell(self.prefetch_cnt)).elements(
            at.source(self.source_datapipe), mark, move, at.on_interruption
        )

    def _indexed(self) -> Indexed | None:
        source = indexed(self.source_datapipe)
        return None if source is None else source.giving(partial(self._moved_at, source.at))

    def _moved_at(self, at: Callable[[int], Any], i: int) -> Any:
        return moved(at(i), self._in_use())

    __len__ = same_length
