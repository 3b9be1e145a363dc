"""Which epoch comes next, and its seed.

An epoch is (seed, number): the number counts the epochs since the seed was given, so that each differs from the one
before and all can be had again from the same seed. A loader that is never given a seed draws one from torch's default
generator before its first epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from datapipes.seeds import Run
from loader2.random import draw_default_seed


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epoch under way, or the last one, and the seed that waits for the next."""

    seed: int | None = None
    """None before the first epoch."""
    number: int = 0
    pending: int | None = None

    def following(self) -> Epochs:
        """The next epoch, under way.

        >>> first = Epochs(pending=7).following()
        >>> first, first.following()
        (Epochs(seed=7, number=0, pending=None), Epochs(seed=7, number=1, pending=None))
        """
        if self.pending is not None:
            return Epochs(self.pending)
        if self.seed is None:
            return Epochs(draw_default_seed())
        return Epochs(self.seed, self.number + 1)

    def then(self, seed: int) -> Epochs:
        """The same, with this seed waiting for the next epoch."""
        return replace(self, pending=seed)

    def resumed(self) -> Epochs:
        """A loaded epoch goes on: a seed that is given for it once more is not meant for the one after."""
        return replace(self, pending=None) if self.pending == self.seed and self.number == 0 else self

    def agreed(self, run: Run) -> Epochs:
        """The same, with the seed and the number that the epoch has got by agreement."""
        return replace(self, seed=run.seed, number=run.epoch)

    def run(self) -> Run:
        """What the session of the epoch under way depends on."""
        if self.seed is None:
            raise ValueError("no epoch is under way yet: ask for the following one first")
        return Run(self.seed, self.number)
