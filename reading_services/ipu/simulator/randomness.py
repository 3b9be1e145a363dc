"""Random numbers of the device: a stream of its own, so that host and device draw independently."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Randomness:
    """Seed and state of the device's generator.

    >>> one, other = Randomness(3), Randomness(3)
    >>> with one.drawn():
    ...     first = torch.rand(1)
    >>> with other.drawn():
    ...     again = torch.rand(1)
    >>> torch.equal(first, again), one.numbers == other.numbers, one.numbers[0]
    (True, True, 3)
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._state = torch.Generator().manual_seed(seed).get_state()

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Use the device's stream for torch's draws in the block. The host's stream is unchanged after it."""
        host = torch.get_rng_state()
        torch.set_rng_state(self._state)
        try:
            yield
        finally:
            self._state = torch.get_rng_state()
            torch.set_rng_state(host)

    @contextmanager
    def tried(self) -> Iterator[None]:
        """Use the device's stream in the block, and restore its state after it."""
        before = self._state
        with self.drawn():
            yield
        self._state = before

    @property
    def numbers(self) -> list[int]:
        """The seed and the state, as plain numbers."""
        return [self._seed, *self._state.view(torch.int64).tolist()]

    @numbers.setter
    def numbers(self, numbers: list[int]) -> None:
        self._seed, *state = numbers
        self._state = torch.tensor(state, dtype=torch.int64).view(torch.uint8)
