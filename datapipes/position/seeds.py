"""The seed of a stage: a pure function of (run seed, epoch, place in the graph, shard).

No generator is shared and nothing is seeded in place: whoever knows the four numbers gets the same draws, in any
process, in any order. Stages above the sharding share one seed over all shards, so that every shard sees the same order
and takes its own part of it; stages below it are seeded per shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any
from weakref import WeakSet

import torch


def derive(*parts: object) -> int:
    """Mix plain values into one 64-bit seed.

    >>> derive(1, 2) == derive(1, 2), derive(1, 2) == derive(2, 1)
    (True, False)
    """
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def draw_default_seed() -> int:
    """A seed from torch's default generator, which moves on by it: ``torch.manual_seed`` fixes the whole sequence.

    >>> draw_default_seed() == draw_default_seed()
    False
    """
    # The device is named because torch.set_default_device must not decide which generator is drawn from.
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_().item())


class ErrorCounts:
    """Counts of tolerated errors, by stage, of one session. The session that encloses it counts them as well.

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
        """Count errors; numbers below zero take back what was counted too much."""
        for stage, number in counts.items():
            self.counts[stage] += number
            if not self.counts[stage]:
                del self.counts[stage]
        if self._whole is not None:
            self._whole.add(counts)

    def reset(self) -> None:
        """Take back all that this session has counted: it starts again, and meets these errors once more."""
        self.add({stage: -number for stage, number in self.counts.items()})


@dataclass(frozen=True, slots=True)
class Run:
    """Seed, epoch and shard of one pass over a graph: all that it depends on beside the graph."""

    seed: int
    epoch: int = 0
    shard: tuple[int, int] | None = None
    """(number of shards, index), where somebody outside the graph shards it: a worker of torch's DataLoader."""
    lap: tuple[int, ...] = ()
    """Number of this repetition, one for every enclosing ``cycle``."""
    world: int = 1
    """Number of ranks that the shards are spread over: shard i is that of worker i // world on rank i % world."""
    drawn: bool = False
    """Whether the seed was drawn for this epoch alone, and nobody has given one for this epoch and those after it."""
    number: int = -1
    """Number of the epoch since the loader was made, which a new seed does not reset. -1: the same as ``epoch``."""
    passes: Mapping[int, int] | None = field(default_factory=dict, compare=False, repr=False)
    """What the numbers of pinned stages are above ``number``, by place. None: a plain iteration that is not counted yet
    (``datapipes.description.passes``)."""
    buffered: bool = False
    """Whether all shuffles have a buffer, as in an epoch that 0.1.0 began."""
    origins: dict[int, dict[str, int]] = field(default_factory=dict, compare=False, repr=False)
    """What users' classes begin with, by place (``position.own_generators``). Stages that are missing are added."""
    plain: bool = field(default=False, compare=False, repr=False)
    """Whether no loader of this library iterates: generators of users' classes then advance as in plain Python."""
    shown: bool = field(default=False, compare=False, repr=False)
    """Whether somebody watches, so that workers tell how much of their source was read (``position.share``)."""
    errors: ErrorCounts = field(default_factory=ErrorCounts, compare=False, repr=False)
    """Counts of tolerated errors (``position.on_error``)."""
    hubs: dict[int, Any] = field(default_factory=dict, compare=False, repr=False)
    """The hubs that more than one session of the run reads, by place (``datapipes.iter.combining.hub_apart``)."""
    held: Mapping[int, bool] = field(default_factory=dict, compare=False, repr=False)
    """Stages that the session begins with elements in, by place, and whether those are numbers (``cells.held_in``)."""
    iterators: WeakSet[Any] | None = field(default=None, compare=False, repr=False)
    """The iterators that users' classes have opened within a session, which closes them; None in no session."""
    drawing: dict[int, int] = field(default_factory=dict, compare=False, repr=False)
    """Place of the class that draws from a generator in this session, by the generator's id, in a plain iteration."""

    def __post_init__(self) -> None:
        if self.number < 0:
            object.__setattr__(self, "number", self.epoch)

    def __reduce__(self) -> tuple[Any, ...]:
        return Run, (
            self.seed,
            self.epoch,
            self.shard,
            self.lap,
            self.world,
            self.drawn,
            self.number,
            self.passes,
            self.buffered,
            self.origins,
            False,
            self.shown,
        )  # the sessions of another process are its own

    def within(self, held: Mapping[int, bool]) -> Run:
        """Return this run for one session, which begins with elements in the stages ``held``."""
        return replace(self, hubs=dict(self.hubs), held=held, iterators=WeakSet(), drawing={})

    def alone(self) -> Run:
        """The same run, for sessions that have nothing to do with those that are open."""
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
        """The seed of the stage at ``place``; ``shard`` is None above the sharding.

        >>> Run(seed=7).stage_seed(3) == Run(seed=7, epoch=1).stage_seed(3)
        False
        """
        return derive(*self.key, self.lap, place, shard)

    @property
    def key(self) -> tuple[int, int]:
        """Key of all that is random in this pass: a seed that was drawn for it is enough by itself.

        >>> Run(7, epoch=2).key, Run(7, epoch=2, drawn=True).key
        ((7, 2), (7, 0))
        """
        return self.seed, 0 if self.drawn else self.epoch

    def pinned_number(self, place: int | None = None) -> int:
        """Return the number of the epoch, or of the plain iteration, for the pinned stage at a place."""
        return self.number if self.passes is None or place is None else self.number + self.passes.get(place, 0)

    def pinned_seed(self, seed: int, place: int | None = None) -> int:
        """The seed of a stage whose user has pinned it with ``set_seed``: epochs still differ.

        >>> Run(3, epoch=2).pinned_seed(7) == Run(4, number=2).pinned_seed(7)
        True
        """
        return derive("pinned", seed, self.pinned_number(place), self.lap)
