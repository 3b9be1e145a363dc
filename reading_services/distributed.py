"""DistributedReadingService: each rank of a process group loads its part, and all end together.

Each epoch begins with one exchange, which gives every rank the seed of rank 0 and finds out ranks that are about to do
different things. After that, ``fullsync`` keeps them in step.
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
from datapipes.parts.group import here
from datapipes.parts.sharding import SHARDING_PRIORITIES
from datapipes.position.seeds import Run
from datapipes.position.user_classes import is_sharding
from datapipes.ranks.exchange import Exchange, connected
from datapipes.ranks.topics import POLICIES, Facts, Uneven
from reading_services.interface.service import Level, ReadingServiceInterface, ResetFn
from reading_services.workers.cut import with_end_replaced

_SOURCES = "sources"


class DistributedReadingService(ReadingServiceInterface):
    """Runs a graph on every rank of the process group, each on its part of the elements.

    A rank takes its part at the ``sharding_filter``. All have the seed of rank 0, and end after equally many elements;
    ``dropped`` says how many elements of this rank the last epoch left out.

    The process group may be made after the loader, before its first ``iter``. Without one there is one rank.

    Ranks connect to each other at the interface in ``GLOO_SOCKET_IFNAME``, or on the way to the master, and at ports in
    ``LOADER2_PORTS``, as ``29600-29699``, or at any.

    ``facts`` are texts that have to be the same on all ranks, by name; put in what else may not differ.

    Args:
        timeout: After how many seconds in which nothing is heard of another rank there is a ``PrefetchTimeoutError``.
        uneven: What becomes of elements that a rank has more than others: ``"drop"`` leaves them out; ``"pad"`` has the
            others give ``PADDING`` meanwhile, ``"repeat"`` their own elements anew; ``"error"`` is an ``UnevenRanks``.

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
        self._sources: str | None = None  # what the graph reads, if it has no sharding stage
        if timeout <= 0:
            raise BadArgument(f"DistributedReadingService(timeout={timeout}): seconds, more than 0")
        if uneven not in POLICIES:
            raise BadArgument(
                f"DistributedReadingService(uneven={uneven!r}): expected one of {', '.join(map(repr, POLICIES))}"
            )

    @property
    def dropped(self) -> int:
        """Number of this rank's elements that the last whole epoch left out; at least so many if it knows no length."""
        return 0 if self._exchange is None else self._exchange.dropped

    def check(self, datapipe: Any) -> None:
        """Refuse a ``fullsync()`` that is not the last stage, or above ``to_device()``: this service puts one there.

        Both would read ahead, each rank as far as its own time has it, and what is between them may need more of one
        rank than of another: they can wait for each other, and a state has the upper one elsewhere on every rank.
        """
        for stage in structure.walk(_in_step(datapipe))[:-1]:
            if isinstance(stage, FullSync):
                raise GraphError(
                    f"{printed(stage)} is in the middle of the graph, and {self!r} keeps the ranks in step at its end; "
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
        report = Facts.report(self._rank, (run.seed, run.epoch, run.drawn, run.number), facts)
        exchange.epoch += 1
        exchange.begin((exchange.epoch, -1), Facts(), report)
        verdict = exchange.wait(lambda _: True, 0, self.timeout)
        data_differ = verdict["differing"].pop(_SOURCES, None) is not None
        if differing := Facts.difference(verdict):
            raise RanksDiffer(f"the ranks are not about to do the same\n{differing}")
        if self._sources is not None and not data_differ:
            warn(
                f"a graph without sharding_filter() gives all of {self._sources} on each of {self._world} ranks; put "
                ".sharding_filter() behind the shuffle, before the expensive stages, or give each rank its own data"
            )
        self._sources = None  # said once
        seed, epoch, drawn, number = verdict["run"]
        return replace(run, seed=seed, epoch=epoch, drawn=drawn, number=number)

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: ResetFn | None = None) -> ResetFn | None:
        if self._world > 1:
            seed_generator.spawn(self._rank, inplace=True)  # what is not shared differs from rank to rank
        return iter_reset_fn

    def finalize(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()


def _in_step(datapipe: Any) -> Any:
    """The stage behind which ranks are kept in step: the last one in which elements may wait, and not on a device."""
    while isinstance(datapipe, ToDevice):
        datapipe = datapipe.source_datapipe
    return datapipe
