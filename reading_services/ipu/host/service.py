"""IPUReadingService: any graph as combined batches, one for each step of a device.

The rewriting is pure and has few parts. If torch's ``collate`` ends the graph right below ``batch``, the batch is
enlarged: the rows of a step are read and collated together. Below workers and users' own stages, the main process
regroups rows. Workers take turns by micro-batches, so combined batches made in workers would have another order of
rows. The stage that synchronizes ranks stays at the end, so that all ranks have equally many steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from datapipes.description import structure
from datapipes.description.printing import stage as printed
from datapipes.description.structure import Pipe
from datapipes.errors import BadArgument, BadArgumentType, GraphError
from datapipes.graph.settings import apply_sharding
from datapipes.iter import Collator, FullSync, Prefetcher
from datapipes.iter.placement.full_sync import exact_length
from datapipes.messages.warnings import warn
from datapipes.position.user_classes import is_sharding
from datapipes.sharding.group import here
from datapipes.sharding.sharding import SHARDING_PRIORITIES
from reading_services.interface.service import Level, ReadingServiceInterface
from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.host.combined import Combined, Dropped
from reading_services.ipu.host.micro_batches import batcher_of, enlarged, is_uncollated
from reading_services.ipu.names.enums import DataLoaderMode
from reading_services.ipu.options import Options
from reading_services.sequential import planned_by

_OF_THE_ACCESSOR = ("buffer_size", "miss_sleep_time_in_ms", "load_indefinitely", "early_preload", "sharing_strategy")


class IPUReadingService(ReadingServiceInterface):
    """Service that gives the rows of a graph's batches as combined batches, the input of a model's step.

    A combined batch has one micro-batch for each device iteration, accumulation step and input group, in the order of
    the graph's rows. ``dropped`` is the number of rows that the last epoch left out.

    With workers, end the graph with ``collate()``, so that they collate. Several processes (``options.Distributed``)
    each get their part at the graph's ``sharding_filter``. With ``drop_last`` they have equally many steps if lengths
    are known. A DistributedReadingService before this service does both instead.

    Args:
        options: The options, which set the number of micro-batches in a step and the number of processes. They are
            frozen from then on.
        mode: Sync makes a step when it is asked for. Async makes steps ahead, in a thread. AsyncRebatched does the
            same as Async.
        async_options: ``{"buffer_size": n}`` sets the largest number of steps made ahead (3 by default). The accessor's
            other options are accepted and have no effect: an epoch does not begin before its seed is known.
            ``rebatched_size`` is refused.
        drop_last: Drop a last, incomplete combined batch. If False, it is shorter.
        micro_batch: The number of rows of a micro-batch, for any batches of the graph. ``None``: the size of
            ``batch(rows)`` in the graph, or else that of the first batch.

    >>> import torch
    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> from reading_services.ipu import Options
    >>> graph = IterableWrapper(range(11)).map(torch.tensor).batch(2).collate()
    >>> dl = DataLoader2(graph, reading_service=IPUReadingService(Options().deviceIterations(2)))
    >>> len(dl), list(dl), dl.reading_service.dropped
    (2, [tensor([0, 1, 2, 3]), tensor([4, 5, 6, 7])], 3)
    """

    level: ClassVar[Level | None] = "device"

    def __init__(
        self,
        options: Options,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        async_options: Mapping[str, Any] | None = None,
        drop_last: bool = True,
        *,
        micro_batch: int | None = None,
    ) -> None:
        if not isinstance(options, Options):
            raise BadArgumentType(f"IPUReadingService({options!r:.80}): expected poptorch.Options")
        options._freeze()
        self.options = options
        self.mode = DataLoaderMode(mode)
        self.ahead = _ahead(self.mode, async_options or {})
        self.drop_last = drop_last
        self.micro_batch = micro_batch
        self._batching = Batching.of(options, micro_batch)
        self._services: Sequence[Any] | None = None  # the services before this one, once they are known
        self._steps: int | None = None  # the number of steps of the process with the fewest
        self._dropped = Dropped()

    @property
    def dropped(self) -> int:
        """Number of rows that the last whole epoch left out because they were too few for a combined batch."""
        return self._dropped.rows

    # -- several processes ---------------------------------------------------------------------------------------------

    def sees_to_ranks(self) -> bool:
        return self._batching.processes > 1

    def in_front(self, datapipe: Pipe, services: Sequence[Any]) -> Pipe:
        """Return this process's part of the graph, or the graph itself if a service for ranks divides it."""
        batching, self._services = self._batching, services
        if batching.processes == 1 or self._has_ranks():
            return datapipe
        if not any(is_sharding(stage) for stage in structure.walk(datapipe)):
            warn(
                f"{printed(datapipe)} has no sharding_filter(): each of the {batching.processes} processes gives all "
                "of it; put .sharding_filter() below the shuffle, before the expensive stages"
            )
        self._steps = self._fewest_steps(datapipe, services) if self.drop_last else None
        return self._part(datapipe, batching.process)

    def _has_ranks(self) -> bool:
        return any(getattr(type(service), "level", None) == "ranks" for service in self._services or ())

    def _part(self, datapipe: Pipe, process: int) -> Pipe:
        of, group = self._batching.processes, SHARDING_PRIORITIES.DISTRIBUTED
        return apply_sharding(structure.unfold(datapipe), of, process, group)

    def _fewest_steps(self, datapipe: Pipe, services: Sequence[Any]) -> int | None:
        """Return the number of steps of the process with the fewest. Return None if it is not known beforehand."""
        parts = (self._part(datapipe, process) for process in range(self._batching.processes))
        lengths = [exact_length(self._combined(planned_by(services, part), None)) for part in parts]
        known = [length for length in lengths if length is not None]
        return min(known) if len(known) == len(lengths) else None

    def _check_ranks(self) -> None:
        processes, (_, world) = self._batching.processes, here()
        if self._has_ranks() and processes > 1 and world != processes:
            raise GraphError(
                f"the options are for {processes} processes, and the process group of the services before it has "
                f"{world}: call torch.distributed.init_process_group in all of them before the loader's first epoch, "
                "or leave the DistributedReadingService out"
            )

    # -- the graph -----------------------------------------------------------------------------------------------------

    def check(self, datapipe: Pipe) -> None:
        if self._batching.processes > 1:
            self._part(datapipe, self._batching.process)  # raises if the graph cannot be divided

    def initialize(self, datapipe: Pipe) -> Pipe:
        self._check_ranks()
        return self.planned(datapipe)

    def planned(self, datapipe: Pipe) -> Pipe:
        mine = self._mine(datapipe)
        if type(mine) is FullSync:  # it synchronizes ranks, so it has to count combined batches
            return structure.with_parents(mine, self._ahead_of)
        return self._ahead_of(mine)

    def _mine(self, datapipe: Pipe) -> Pipe:
        """Return the graph with this process's part taken, if this service stands alone."""
        if self._services is None:
            try:
                return self.in_front(datapipe, ())
            finally:
                self._services = None
        return datapipe

    def _ahead_of(self, datapipe: Pipe) -> Pipe:
        combined = self._combined(datapipe, self._steps)
        combined.dropped = self._dropped
        return Prefetcher(combined, self.ahead) if self.ahead else combined

    def _combined(self, datapipe: Pipe, steps: int | None) -> Combined:
        """Return the stage of combined batches. Its input gives them already if the graph's batch is enlarged."""
        batcher, n = batcher_of(datapipe), self._batching.micro_batches
        of_graph = None if batcher is None else batcher.batch_size
        rows = of_graph if self.micro_batch is None else self.micro_batch
        larger = enlarged(datapipe, n) if rows == of_graph else None
        if larger is not None and batcher is not None:
            return Combined(larger, n, rows, self.drop_last, batcher.batch_size if batcher.drop_last else 1, steps)
        collated = Collator(datapipe) if is_uncollated(datapipe) else datapipe
        return Combined(collated, n, rows, self.drop_last, steps=steps)

    def __repr__(self) -> str:
        more = "" if self.mode == DataLoaderMode.Sync else f", mode={self.mode.name}"
        return f"IPUReadingService(<{self._batching.micro_batches} micro-batches a step>{more})"


def _ahead(mode: DataLoaderMode, async_options: Mapping[str, Any]) -> int:
    """Return the number of steps made ahead."""
    if "rebatched_size" in async_options:
        raise BadArgument(
            "async_options cannot have a 'rebatched_size': the combined batch follows from the options and the graph's "
            "batch; for other micro-batches, call .batch(rows) in the graph or pass micro_batch="
        )
    if unknown := sorted(set(async_options) - set(_OF_THE_ACCESSOR)):
        raise BadArgumentType(f"async_options: {', '.join(unknown)} unknown; known are {', '.join(_OF_THE_ACCESSOR)}")
    size: int = async_options.get("buffer_size", 3)
    if type(size) is not int or size < 1:
        raise BadArgument(f"async_options: buffer_size={size!r}; it must be an int of at least 1")
    return 0 if mode == DataLoaderMode.Sync else size
