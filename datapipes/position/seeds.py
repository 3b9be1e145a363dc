"""The seed of a stage: a pure function of (run seed, epoch, place in the graph, shard).

No generator is shared, and nothing is seeded in place. The same four values give the same draws in any process, in any
order. Stages above the sharding have one seed for all shards, so that every shard sees the same order and takes its own
part of it. Stages below it are seeded per shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from operator import attrgetter
from typing import Any
from weakref import WeakSet

import torch


def derive(*parts: object) -> int:
    """Mix plain values into one 64-bit seed.

    >>> derive(1, 2) == derive(1, 2), derive(1, 2) == derive(2, 1)
    (True, False)
    """
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def draw_default_seed(generator: torch.Generator | None = None) -> int:
    """Draw a seed from a generator, or from torch's default one, which ``torch.manual_seed`` determines.

    >>> draw_default_seed() == draw_default_seed()
    False
    """
    # The device is named because torch.set_default_device must not decide which generator is drawn from.
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator).item())


class SeedInRun:
    """Seed of one stage in one session, shared by the copies that the plan makes of the stage.

    It is for stages that draw by number. Such a stage may be read by position without being opened, and so keeps here
    what it would make when it is opened.
    """

    __slots__ = ("opened", "seed")

    def __init__(self, seed: int = 0) -> None:
        self.start(seed)

    def start(self, seed: int) -> None:
        """Begin a session with a seed."""
        self.seed = seed
        self.opened: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return SeedInRun, (self.seed,)


class ErrorCounts:
    """Counts of tolerated errors of one session, by stage. The enclosing session counts them as well.

    >>> whole = ErrorCounts()
    >>> part = ErrorCounts(whole)
    >>> part.add({"map": 2})
    >>> part.reset()
    >>> part.add({"map": 1})
    >>> whole.counts
    Counter({'map': 1})
    """

    def __init__(self, whole: ErrorCounts | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self._whole = whole

    def add(self, counts: Mapping[str, int]) -> None:
        """Add to the counts. Negative numbers correct earlier ones."""
        for stage, number in counts.items():
            self.counts[stage] += number
            if not self.counts[stage]:
                del self.counts[stage]
        if self._whole is not None:
            self._whole.add(counts)

    def reset(self) -> None:
        """Subtract all errors of this session, which is about to start again and to meet them again."""
        self.add({stage: -number for stage, number in self.counts.items()})


_SENT = attrgetter("seed", "epoch", "shard", "lap", "world", "drawn", "number", "passes", "buffered", "origins")
"""The first fields of a run, which go to another process. Sessions stay in theirs."""


@dataclass(frozen=True, slots=True)
class Run:
    """Seed, epoch and shard of one pass over a graph: everything beside the graph that it depends on."""

    seed: int
    epoch: int = 0
    shard: tuple[int, int] | None = None
    """(number of shards, index) if torch's DataLoader shards the graph by its workers, or None."""
    lap: tuple[int, ...] = ()
    """Number of the repetition, for each enclosing ``cycle``."""
    world: int = 1
    """Number of ranks that share the shards: shard i belongs to worker i // world on rank i % world."""
    drawn: bool = False
    """Whether the seed was drawn for this epoch alone. False: the user has set it for this and later epochs."""
    number: int = -1
    """Number of the epoch since the loader was made, which a new seed does not reset. -1: the same as ``epoch``."""
    passes: Mapping[int, int] | None = field(default_factory=dict, compare=False, repr=False)
    """Differences of the numbers of pinned stages from ``number``, by place. None: a plain iteration that is not
    counted yet (``datapipes.description.passes``)."""
    buffered: bool = False
    """Whether all shuffles have a buffer, as in an epoch that version 0.1.0 began."""
    origins: dict[int, dict[str, int]] = field(default_factory=dict, compare=False, repr=False)
    """Origins of users' classes by place (``position.own_generators``). Missing ones are added."""
    plain: bool = field(default=False, compare=False, repr=False)
    """Whether this is a plain iteration, without a loader: users' generators then advance as in plain Python."""
    shown: bool = field(default=False, compare=False, repr=False)
    """Whether the program shows a progress bar, so that workers send their completion (``position.completion``)."""
    errors: ErrorCounts = field(default_factory=ErrorCounts, compare=False, repr=False)
    """Counts of tolerated errors (``position.on_error``)."""
    hubs: dict[int, Any] = field(default_factory=dict, compare=False, repr=False)
    """The hubs that more than one session of the run reads, by place (``datapipes.iter.combining.detached_hub``)."""
    held: Mapping[int, bool] = field(default_factory=dict, compare=False, repr=False)
    """Stages that begin with elements, by place, and whether these are numbers (``cells.held_in``)."""
    iterators: WeakSet[Any] | None = field(default=None, compare=False, repr=False)
    """The iterators that users' classes have opened in a session, which closes them. None outside of a session."""
    shared: Any = field(default=None, compare=False, repr=False)
    """The sources that this lane shares with others (``datapipes.iter.placement.shared_source``). None: it has none."""
    drawing: dict[int, int] = field(default_factory=dict, compare=False, repr=False)
    """Place of the class that draws from a generator in a plain iteration of this session, by the generator's id."""

    def __post_init__(self) -> None:
        if self.number < 0:
            object.__setattr__(self, "number", self.epoch)

    def __reduce__(self) -> tuple[Any, ...]:
        return Run, (*_SENT(self), False, self.shown)

    def within(self, held: Mapping[int, bool]) -> Run:
        """Return this run for one session, which begins with elements in the stages ``held``."""
        return replace(self, hubs=dict(self.hubs), held=held, iterators=WeakSet(), drawing={})

    def alone(self) -> Run:
        """Return this run without shared state, for a session that is independent of the open ones."""
        return replace(self, errors=ErrorCounts(), hubs={}, held={}, iterators=None)

    def next_lap(self, lap: int) -> Run:
        """Return this run in the given repetition of a cycle, with error counts of its own."""
        return replace(self, lap=(*self.lap, lap), hubs={}, errors=ErrorCounts(self.errors))

    @property
    def worker(self) -> tuple[int, int] | None:
        """(number of workers, index) in one rank.

        >>> Run(0, shard=(6, 5), world=3).worker
        (2, 1)
        """
        return self.shard and (self.shard[0] // self.world, self.shard[1] // self.world)

    def stage_seed(self, place: int, shard: object = None) -> int:
        """Return the seed of the stage at ``place``. ``shard`` is None above the sharding.

        >>> Run(seed=7).stage_seed(3) == Run(seed=7, epoch=1).stage_seed(3)
        False
        """
        return derive(*self.key, self.lap, place, shard)

    @property
    def key(self) -> tuple[int, int]:
        """Key of all random draws in this pass. A seed that was drawn for one epoch is sufficient by itself.

        >>> Run(7, epoch=2).key, Run(7, epoch=2, drawn=True).key
        ((7, 2), (7, 0))
        """
        return self.seed, 0 if self.drawn else self.epoch

    def pinned_number(self, place: int | None = None) -> int:
        """Return the number of the epoch, or of the plain iteration, for the pinned stage at a place."""
        return self.number if self.passes is None or place is None else self.number + self.passes.get(place, 0)

    def pinned_seed(self, seed: int, place: int | None = None) -> int:
        """Return the seed of a stage that the user has pinned with ``set_seed``. It differs between epochs.

        >>> Run(3, epoch=2).pinned_seed(7) == Run(4, number=2).pinned_seed(7)
        True
        """
        return derive("pinned", seed, self.pinned_number(place), self.lap)
