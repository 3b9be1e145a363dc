"""DistributedReadingService: each rank of a process group loads its part, and all end together.

Each epoch begins with one exchange, which gives every rank the seed of rank 0 and finds out ranks that are about to do
different things. After that, ``fullsync`` keeps them in step.
"""

from __future__ import annotations

import re
import weakref
from dataclasses import replace
from typing import Any

from datapipes import structure
from datapipes.describe import stage as printed
from datapipes.errors import BadArgument, GraphError, RanksDiffer
from datapipes.iter import FullSync
from datapipes.legacy import is_sharding
from datapipes.ranks.group import here
from datapipes.ranks.topics import POLICIES, Facts, Uneven
from datapipes.ranks.tree import Tree, connected
from datapipes.seeds import Run
from datapipes.settings import apply_sharding
from datapipes.sharding import SHARDING_PRIORITIES
from datapipes.warned import warn
from reading_services.service import ReadingServiceInterface, ResetFn

_OF_ONE_MACHINE = re.compile(r"'[^']*'|\"[^\"]*\"|[^\s(<]*/|0x[0-9a-f]+")


class DistributedReadingService(ReadingServiceInterface):
    """Runs a graph on every rank of the process group, each on its part of the elements.

    A rank takes its part at the ``sharding_filter``. All have the seed of rank 0, and end after equally many elements:
    ``uneven`` says how (see ``fullsync``), and ``dropped`` how many elements of this rank the last epoch left out. A
    rank of which nothing is heard for ``timeout`` seconds is a ``PrefetchTimeoutError``.

    The process group may be made after the loader, before its first ``iter``. Without one there is one rank.

    ``facts`` are texts that have to be the same on all ranks, by name; put in what else may not differ.

    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> graph = IterableWrapper(range(3)).sharding_filter()
    >>> with DataLoader2(graph, reading_service=DistributedReadingService()) as dl:
    ...     list(dl)
    [0, 1, 2]
    """

    level = "ranks"

    def __init__(self, timeout: float = 1800, *, uneven: Uneven = "drop") -> None:
        self.timeout = timeout
        self.uneven = uneven
        self.facts = {"services": repr(self)}
        self._rank, self._world = 0, 1
        self._tree: Tree | None = None
        if timeout <= 0:
            raise BadArgument(f"DistributedReadingService(timeout={timeout}): seconds, more than 0")
        if uneven not in POLICIES:
            raise BadArgument(
                f"DistributedReadingService(uneven={uneven!r}): expected one of {', '.join(map(repr, POLICIES))}"
            )

    @property
    def dropped(self) -> int:
        """How many elements of this rank the last whole epoch left out; at least so many, if it knows no length."""
        return 0 if self._tree is None else self._tree.dropped

    def initialize(self, datapipe: Any) -> Any:
        self._rank, self._world = here()
        if self._world == 1:
            return datapipe
        if not any(is_sharding(stage) for stage in structure.walk(datapipe)):
            warn(
                f"{printed(datapipe)} has no sharding_filter(): each of the {self._world} ranks gives all of it; put "
                ".sharding_filter() behind the shuffle, before the expensive stages"
            )
        self.facts["graph"] = _described(datapipe)
        apply_sharding(datapipe, self._world, self._rank, SHARDING_PRIORITIES.DISTRIBUTED)
        self._tree = connected(self.timeout)
        weakref.finalize(self, self._tree.close)
        if not isinstance(datapipe, FullSync):
            datapipe = FullSync(datapipe, self.timeout, uneven=self.uneven)
        datapipe.tree = self._tree
        return datapipe

    def agree(self, run: Run, resumed: bool) -> Run:
        if here() != (self._rank, self._world):
            raise GraphError(
                f"this loader began as rank {self._rank} of {self._world}, and is now rank {here()[0]} of {here()[1]}: "
                "make a new DataLoader2 for a new process group"
            )
        tree = self._tree
        if tree is None:
            return run
        start = f"a saved position in epoch {run.epoch} of seed {run.seed}" if resumed else "the beginning of an epoch"
        report = Facts.report(self._rank, (run.seed, run.epoch), {**self.facts, "start": start})
        tree.epoch += 1
        tree.begin((tree.epoch, -1), Facts(), report)
        verdict = tree.wait(lambda _: True, 0, self.timeout)
        if differing := Facts.difference(verdict):
            raise RanksDiffer(f"the ranks are not about to do the same\n{differing}")
        seed, epoch = verdict["run"]
        return replace(run, seed=seed, epoch=epoch)

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: ResetFn | None = None) -> ResetFn | None:
        if self._world > 1:
            seed_generator.spawn(self._rank, inplace=True)  # what is not shared differs from rank to rank
        return iter_reset_fn

    def finalize(self) -> None:
        tree, self._tree = self._tree, None
        if tree is not None:
            tree.close()

    def __repr__(self) -> str:
        return f"DistributedReadingService(timeout={self.timeout}, uneven={self.uneven!r})"


def _described(graph: structure.Pipe) -> str:
    """The stages as they print, but for what may differ from machine to machine: data, texts, folders, addresses."""
    stages = (
        type(stage).__name__ if not structure.parents(stage) else printed(stage) for stage in structure.walk(graph)
    )
    return _OF_ONE_MACHINE.sub("", " ".join(stages))
