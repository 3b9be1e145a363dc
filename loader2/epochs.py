"""Epochs: seed and number of the epoch under way and of the next one.

Without a given seed, an epoch draws one from torch's default generator when it begins, like the epochs of torch's own
loader. A given seed starts a sequence of epochs. The number counts them. Each has another order, and the same seed
repeats all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from datapipes.position.own_generators import Origin
from datapipes.position.seeds import Run, draw_default_seed


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epoch under way, or the last one, and the seed for the next one."""

    seed: int | None = None
    """None before the first epoch, and for an epoch that begins again with the seed ``pending``."""
    number: int = 0
    """Number of epochs before this one, since a seed was given."""
    pending: int | None = None
    drawn: bool = False
    """Whether the seed was drawn for this epoch alone."""
    begun: int = 0
    """Number of epochs before this one, with any seed."""
    follows: int | None = None
    """Number from which pinned orders of this epoch follow. None: ``begun``. States of 0.1.0: ``number``."""
    buffered: bool = False
    """Whether 0.1.0 began this epoch, so that all its shuffles have a buffer."""
    origins: dict[int, Origin] = field(default_factory=dict)
    """Starts of users' classes, by place (``datapipes.position.own_generators``)."""

    def following(self) -> Epochs:
        """Return the epochs with the next one under way.

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
        """Return the same epochs with a seed for the next one."""
        if self.seed is not None:
            return replace(self, pending=seed)
        return Epochs(pending=seed, begun=self.begun, origins=self.origins)

    def before(self, number: int) -> Epochs:
        """Return the same sequence of epochs at the end of the one before ``number``.

        >>> Epochs(pending=7).before(2).following() == Epochs(pending=7).following().following().following()
        True
        """
        seed = self.seed if self.pending is None else self.pending
        drawn = seed is None or (self.drawn and self.pending is None)
        if number == 0:
            return Epochs(pending=None if drawn else seed, origins=self.origins)
        return Epochs(seed or 0, number - 1, drawn=drawn, begun=number - 1, origins=self.origins)

    def resumed(self) -> Epochs:
        """Return the epochs of a loaded epoch, without a seed for the next one if it only repeats the epoch's own."""
        return replace(self, pending=None) if self.pending == self.seed and self.number == 0 else self

    def beginning_with(self, origins: dict[int, Origin]) -> Epochs:
        """Return the same epochs with a graph's origins at the places and paths that have none."""
        known = {place: {**origin, **self.origins.get(place, {})} for place, origin in origins.items()}
        return replace(self, origins=known)

    def agreed(self, run: Run) -> Epochs:
        """Return the same epochs with the seed and the numbers on which the service has agreed."""
        return replace(self, seed=run.seed, number=run.epoch, drawn=run.drawn, begun=run.number)

    def run(self) -> Run:
        """Return the run of the epoch under way, on which its session depends. Raise before the first epoch."""
        if self.seed is None:
            raise ValueError("no epoch is under way yet: ask for the following one first")
        number = self.begun if self.follows is None else self.follows
        origins = dict(self.origins)
        return Run(self.seed, self.number, drawn=self.drawn, number=number, buffered=self.buffered, origins=origins)
