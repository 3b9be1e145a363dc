"""to_device: elements moved to the device that trains, while it is at work on others."""

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
from datapipes.operators.ahead import Ahead
from datapipes.operators.checks import needs_count, same_length
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@renamed(ahead="prefetch_cnt")
@operator
class ToDevice(IterDataPipe[T_co]):
    """The same elements with their tensors on a device, some of them moved beforehand by a thread.

    Tensors are found in mappings, sequences, namedtuples and dataclasses; what has a ``to`` method of its own is asked.
    It belongs into the process that trains, so it is not replicated to workers (``is_replicable``), and it is best the
    last stage: what waits on a device in a stage below cannot be saved, while what is ahead here is saved as it was.

    Args:
        device: The device, as ``torch.device`` takes it. ``"cuda"`` is the one in use where the iteration begins.
        non_blocking: Whether to copy in the background where the device is CUDA's: from pinned memory, in a stream of
            its own, for which the stream that is in use at the loop waits.
        prefetch_cnt: How many elements are moved beforehand. They take memory of the device.

    >>> from datapipes.iter import IterableWrapper
    >>> [batch.device.type for batch in IterableWrapper(range(4)).batch(2).collate().to_device("cpu")]
    ['cpu', 'cpu']
    """

    _fluent: ClassVar[str | None] = "to_device"
    _commutes: ClassVar[bool] = True
    _runs_ahead: ClassVar[bool] = True

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
            raise GraphError(f"{stage(self)} needs CUDA, and torch finds none here")

    def is_replicable(self) -> bool:
        """False: what is on a device cannot be handed from one process to another."""
        return False

    def _in_use(self) -> torch.device:
        device = torch.device(self.device)
        here = device.type == "cuda" and device.index is None  # the thread that moves would use the first one
        return torch.device("cuda", torch.cuda.current_device()) if here else device

    def _open(self, at: Opening) -> Iterator[T_co]:
        if get_worker_info() is not None:
            raise GraphError(
                f"{stage(self)} is in a worker of torch's DataLoader, which cannot hand on what is on a device: leave "
                "it out there, and move what the DataLoader gives"
            )
        mark, move = at.mark(), mover(self._in_use(), self.non_blocking)
        return at.cell(lambda: Ahead(self.prefetch_cnt)).elements(
            at.source(self.source_datapipe), mark, move, at.on_interruption
        )

    def _indexed(self) -> Indexed | None:
        source = indexed(self.source_datapipe)
        return None if source is None else source.giving(partial(self._moved_at, source.at))

    def _moved_at(self, at: Callable[[int], Any], i: int) -> Any:
        return moved(at(i), self._in_use())

    __len__ = same_length
