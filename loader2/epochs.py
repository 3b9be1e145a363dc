"""Epochs: number and seed of the epoch that comes next.

An epoch for which nobody gives a seed draws one from torch's default generator when it begins, as the epochs of torch's
own loader do. A seed that is given starts a sequence of epochs: the number counts them, so that each differs from the
one before and all can be had again from the same seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from datapipes.position.own_generators import Origin
from datapipes.position.seeds import Run, draw_default_seed


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epoch under way, or the last one, and the seed that waits for the next."""

    seed: int | None = None
    """None before the first epoch, and for one that is to begin again: with ``pending``, and the rest as it is."""
    number: int = 0
    """How many epochs there were before, since a seed was given."""
    pending: int | None = None
    drawn: bool = False
    """Whether the seed was drawn for this epoch alone."""
    begun: int = 0
    """How many epochs there were before, whatever their seeds."""
    follows: int | None = None
    """Number that pinned orders of the epoch under way follow from. None: ``begun``. States of 0.1.0: ``number``."""
    buffered: bool = False
    """Whether 0.1.0 began the epoch under way, so that all its shuffles have a buffer."""
    origins: dict[int, Origin] = field(default_factory=dict)
    """What users' classes begin each epoch with, by place (``datapipes.position.own_generators``)."""

    def following(self) -> Epochs:
        """The next epoch, under way.

        >>> first = Epochs(pending=7).following()
        >>> second = first.following()
        >>> (first.seed, first.number), (second.seed, second.number)
        ((7, 0), (7, 1))
        """
        if self.seed is None:
            if self.pending is None:
                return replace(self, seed=draw_default_seed(), drawn=True, follows=None)
            return replace(self, seed=self.pending, pending=None, follows=None)
        begun = self.begun + 1
        if self.pending is not None:
            return Epochs(self.pending, begun=begun, origins=self.origins)
        seed = draw_default_seed() if self.drawn else self.seed
        return Epochs(seed, self.number + 1, drawn=self.drawn, begun=begun, origins=self.origins)

    def then(self, seed: int) -> Epochs:
        """The same, with this seed waiting for the next epoch."""
        if self.seed is not None:
            return replace(self, pending=seed)
        return Epochs(pending=seed, begun=self.begun, origins=self.origins)

    def before(self, number: int) -> Epochs:
        """The same sequence of epochs, at the end of the one before this.

        >>> Epochs(pending=7).before(2).following() == Epochs(pending=7).following().following().following()
        True
        """
        seed = self.seed if self.pending is None else self.pending
        drawn = seed is None or (self.drawn and self.pending is None)
        if number == 0:
            return Epochs(pending=None if drawn else seed, origins=self.origins)
        return Epochs(seed or 0, number - 1, drawn=drawn, begun=number - 1, origins=self.origins)

    def resumed(self) -> Epochs:
        """Resume a loaded epoch: a seed that is given for it once more is not meant for the one after."""
        return replace(self, pending=None) if self.pending == self.seed and self.number == 0 else self

    def beginning_with(self, origins: dict[int, Origin]) -> Epochs:
        """Return the same epochs of a graph that begins with these origins, unless this has others."""
        known = {place: {**origin, **self.origins.get(place, {})} for place, origin in origins.items()}
        return replace(self, origins=known)

    def agreed(self, run: Run) -> Epochs:
        """The same, with the seed and the numbers that the epoch has got by agreement."""
        return replace(self, seed=run.seed, number=run.epoch, drawn=run.drawn, begun=run.number)

    def run(self) -> Run:
        """The run of the epoch under way, which its session depends on."""
        if self.seed is None:
            raise ValueError("no epoch is under way yet: ask for the following one first")
        number = self.begun if self.follows is None else self.follows
        origins = dict(self.origins)
        return Run(self.seed, self.number, drawn=self.drawn, number=number, buffered=self.buffered, origins=origins)
