"""DistributedReadingService: each rank of a process group loads its shard, and all ranks end together.

Each epoch begins with one exchange. It gives every rank the seed of rank 0, and finds ranks that are about to do
different things. After it, ``fullsync`` keeps the ranks synchronized.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any, ClassVar

from datapipes.description import structure
from datapipes.description.printing import on_any_machine
from datapipes.description.printing import stage as printed
from datapipes.errors import BadArgument, GraphError, RanksDiffer
from datapipes.graph.settings import apply_sharding
from datapipes.iter import FullSync, ToDevice
from datapipes.iter.placement.full_sync import decisive
from datapipes.messages.warnings import warn
from datapipes.position.seeds import Run
from datapipes.position.user_classes import is_sharding
from datapipes.ranks.exchange import Exchange, connected
from datapipes.ranks.topics import POLICIES, EpochAgreement, Uneven
from datapipes.sharding.group import here
from datapipes.sharding.sharding import SHARDING_PRIORITIES
from reading_services.interface.service import Level, ReadingServiceInterface, ResetFn
from reading_services.workers.cut import with_end_replaced

_SOURCES = "sources"


class DistributedReadingService(ReadingServiceInterface):
    """Service that runs a graph on every rank of the process group, each rank on its shard.

    The ``sharding_filter`` takes a rank's shard. All ranks have the seed of rank 0, and end after equally many
    elements. ``dropped`` is the number of this rank's elements that the last epoch left out.

    The process group may be made after the loader, before its first ``iter``. Without one there is one rank.

    Ranks connect to each other at the interface in ``GLOO_SOCKET_IFNAME``, by default the one that leads to the master.
    They use ports in ``LOADER2_PORTS`` (as ``29600-29699``), by default any.

    ``facts`` are texts by name that have to be the same on all ranks. A caller can add its own.

    Args:
        timeout: Seconds without a message from another rank, after which ``PrefetchTimeoutError`` is raised.
        uneven: The treatment of elements that a rank has more than others. ``"drop"`` leaves them out. ``"pad"`` fills
            the other ranks up with ``PADDING``, ``"repeat"`` with their own elements. ``"error"`` raises
            ``UnevenRanks``.

    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> graph = IterableWrapper(range(3)).sharding_filter()
    >>> with DataLoader2(graph, reading_service=DistributedReadingService()) as dl:
    ...     list(dl)
    [0, 1, 2]
    """

    level: ClassVar[Level | None] = "ranks"

    def __init__(self, timeout: float = 1800, *, uneven: Uneven = "drop") -> None:
        self.timeout = timeout
        self.uneven = uneven
        self.facts = {"services": repr(self)}
        self._rank, self._world = 0, 1
        self._exchange: Exchange | None = None
        self._sources: str | None = None  # the graph's sources, if it has no sharding stage
        if timeout <= 0:
            raise BadArgument(f"DistributedReadingService(timeout={timeout}): it must be more than 0 seconds")
        if uneven not in POLICIES:
            raise BadArgument(
                f"DistributedReadingService(uneven={uneven!r}): expected one of {', '.join(map(repr, POLICIES))}"
            )

    @property
    def dropped(self) -> int:
        """Number of this rank's elements that the last whole epoch left out; a lower bound if the length is unknown."""
        return 0 if self._exchange is None else self._exchange.dropped

    def check(self, datapipe: Any) -> None:
        """Raise GraphError for a ``fullsync()`` above the last stage. ``to_device()`` may be below it.

        This service adds one at the end. Two of them would read ahead at each rank's own speed, and the stages between
        them may need more elements on one rank than on another. So they could wait for each other, and a state would
        have another position of the upper one on every rank.
        """
        for stage in structure.walk(_in_step(datapipe))[:-1]:
            if isinstance(stage, FullSync):
                raise GraphError(
                    f"{printed(stage)} is in the middle of the graph, and {self!r} synchronizes the ranks at its end; "
                    "two can wait for each other: leave this one out, or put it last"
                )

    def planned(self, datapipe: Any) -> Any:
        world = here()[1]
        return datapipe if world == 1 else decisive(datapipe, world, self.uneven)

    def initialize(self, datapipe: Any) -> Any:
        self._rank, self._world = here()
        if self._world == 1:
            return datapipe
        self.facts["graph"] = on_any_machine(datapipe)
        if not any(is_sharding(stage) for stage in structure.walk(datapipe)):
            self._sources = " ".join(
                printed(stage) for stage in structure.walk(datapipe) if not structure.parents(stage)
            )
        apply_sharding(datapipe, self._world, self._rank, SHARDING_PRIORITIES.DISTRIBUTED)
        self._exchange = connected(self.timeout)
        weakref.finalize(self, self._exchange.close)
        end = _in_step(datapipe)
        synced = end if isinstance(end, FullSync) else FullSync(end, self.timeout, uneven=self.uneven)
        synced.exchange = self._exchange
        return with_end_replaced(datapipe, end, lambda _: synced)

    def agree(self, run: Run, resumed: bool) -> Run:
        if here() != (self._rank, self._world):
            raise GraphError(
                f"this loader began as rank {self._rank} of {self._world}, and is now rank {here()[0]} of {here()[1]}: "
                "make a new DataLoader2 for a new process group"
            )
        exchange = self._exchange
        if exchange is None:
            return run
        start = f"a saved position in epoch {run.epoch} of seed {run.seed}" if resumed else "the beginning of an epoch"
        facts = {**self.facts, "start": start}
        if self._sources is not None:
            facts[_SOURCES] = self._sources
        report = EpochAgreement.report(self._rank, (run.seed, run.epoch, run.drawn, run.number), facts)
        exchange.epoch += 1
        exchange.begin((exchange.epoch, -1), EpochAgreement(), report)
        verdict = exchange.wait(lambda _: True, 0, self.timeout)
        data_differ = verdict["differing"].pop(_SOURCES, None) is not None
        if differing := EpochAgreement.difference(verdict):
            raise RanksDiffer(f"the ranks are not about to do the same\n{differing}")
        if self._sources is not None and not data_differ:
            warn(
                f"a graph without sharding_filter() gives all of {self._sources} on each of {self._world} ranks; put "
                ".sharding_filter() below the shuffle, before the expensive stages, or give each rank its own data"
            )
        self._sources = None  # warn once
        seed, epoch, drawn, number = verdict["run"]
        return replace(run, seed=seed, epoch=epoch, drawn=drawn, number=number)

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: ResetFn | None = None) -> ResetFn | None:
        if self._world > 1:
            seed_generator.spawn(self._rank, inplace=True)  # seeds that are not shared differ by rank
        return iter_reset_fn

    def finalize(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()


def _in_step(datapipe: Any) -> Any:
    """Return the stage below which ranks are synchronized: the last one that is not a copy to a device."""
    while isinstance(datapipe, ToDevice):
        datapipe = datapipe.source_datapipe
    return datapipe
