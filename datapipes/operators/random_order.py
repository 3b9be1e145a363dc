"""What random stages share: a seed that users may pin, a switch, and draws whose position is their count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from operator import length_hint
from typing import Any, Generic, Self, TypeVar

import torch

from datapipes.position.seeds import derive

T = TypeVar("T")


class Seeded:
    """Base of random stages: their seed is the run's, unless it is pinned."""

    _seed: int | None = None

    def set_seed(self, seed: int) -> Self:
        """Pin this stage's seed: it is used instead of the loader's; epochs of a loader still differ."""
        self._seed = seed
        return self


class Shuffling(Seeded):
    """Base of stages whose shuffling can be switched off."""

    _enabled: bool = True

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Switch shuffling off or on, for the iterations that start from now on."""
        self._enabled = shuffle
        return self


class Draws(Generic[T]):
    """Random draws without end, made in blocks of one size: ``block(number)`` is a pure function of its number."""

    def __init__(self, size: int, block: Callable[[int], list[T]]) -> None:
        self._size = size
        self._block = block
        self._number = 0  # of the block at hand
        self._left: Iterator[T] | None = None  # what is left of it
        self._behind = 0

    @property
    def count(self) -> int:
        """The number of draws so far."""
        return self._behind if self._left is None else (self._number + 1) * self._size - length_hint(self._left)

    def go_to(self, count: int) -> None:
        """Go on behind so many draws."""
        self._behind, self._left = count, None

    def following(self) -> Iterator[T]:
        """The draws from here on."""
        return chain.from_iterable(self._blocks(*divmod(self.count, self._size)))

    def _blocks(self, number: int, offset: int) -> Iterator[Iterator[T]]:
        while True:
            self._number, self._left = number, iter(self._block(number)[offset:])
            yield self._left
            number, offset = number + 1, 0


def shares(seed: int, size: int) -> Draws[float]:
    """Draws of numbers from 0 up to 1."""

    def block(number: int) -> Any:
        generator = torch.Generator().manual_seed(derive(seed, number))
        return torch.rand(size, generator=generator, dtype=torch.float64).tolist()

    return Draws(size, block)
