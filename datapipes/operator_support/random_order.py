"""Random orders: permutations whose numbers are computed on demand, random draws, and bases of random stages.

A short permutation of 0, 1, 2 ... is torch's ``randperm``. A long one is a Feistel network. A number is split into a
high and a low half, and by turns each half is shifted by a random number that a table has for the other half. Each
round can be undone, so no number comes twice. The tables are as long as the square root of the length. The halves can
stand for a few more numbers than the length: a result beyond the end is mixed again until it is below the end, which
can be undone as well. It is written by hand because ``randperm`` takes memory and time for the whole length.

The order follows from the seed. A short one is one of the 2**32 orders that torch's generators distinguish, which are
all orders of up to twelve numbers. A long one is one of 2**64.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, count
from operator import length_hint
from struct import Struct
from typing import Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar, overload

import torch

from datapipes.description import passes
from datapipes.position.seeds import SeedInRun, derive, draw_default_seed

T = TypeVar("T")

_ROUNDS: Final = 8
_CHUNK: Final = 8192
"""Numbers that are computed at a time. With more, torch would wake threads, which takes long on a busy machine."""
_SHORT: Final = 1 << 15
"""Up to this length, an order is computed as a whole, for the same reason."""
_DIGIT: Final = 16
"""Bits of a half that are the index into one table. The longest halves have two tables each."""

_WORDS: Final = Struct("<16I")
_COUNTER: Final = Struct("<QQ")

_Tables: TypeAlias = list[torch.Tensor]


class Seeded:
    """Base of random stages: their seed is the run's, unless it is pinned."""

    _seed: int | None = None

    def set_seed(self, seed: int) -> Self:
        """Pin this stage's seed, which replaces the loader's. Epochs still differ, and repeat with the same seed."""
        self._seed = seed
        passes.start_over(self)
        return self


class Shuffling(Seeded):
    """Base of stages whose shuffling can be switched off."""

    _enabled: bool = True

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Switch shuffling off or on, for the iterations that start from now on."""
        self._enabled = shuffle
        return self


class DrawingByNumber(Seeded):
    """Base of stages that draw random numbers for each element, by the element's number.

    An element that is made again has the same draws: its number is the count of elements before it in the stage, or its
    position in a stream that is read by position, or its key in a map-style pipe.
    """

    _draws_by_number: ClassVar[bool] = True
    _seed_in_run: SeedInRun | None = None

    def _draws_of(self, number: int) -> Iterator[float]:
        """Return the draws for an element. Without a session, an unpinned stage draws from torch's generator."""
        if self._seed_in_run is not None:
            seed = self._seed_in_run.seed
        else:
            seed = draw_default_seed() if self._seed is None else derive("pinned", self._seed)
        return draws_of(seed, number)


def draws_of(seed: int, number: int) -> Iterator[float]:
    """Yield endless draws from 0 (inclusive) to 1 (exclusive): a pure function of a seed and a number.

    They are words of 32 bits of a keyed hash. 16 of them take a microsecond, a fifth of the time of a new generator.

    >>> draws = draws_of(seed=1, number=7)
    >>> next(draws) == next(draws_of(1, 7)), next(draws) == next(draws_of(1, 8))
    (True, False)
    """
    key = (seed % 2**64).to_bytes(8, "little")
    for block in count():
        for word in _WORDS.unpack(blake2b(_COUNTER.pack(number % 2**64, block), key=key).digest()):
            yield word / 2**32


class DrawBlocks(Generic[T]):
    """Endless random draws, made in blocks of one size. ``block(number)`` is a pure function of its number."""

    def __init__(self, size: int, block: Callable[[int], list[T]]) -> None:
        self._size = size
        self._block = block
        self._number = 0  # of the current block
        self._left: Iterator[T] | None = None  # the rest of the current block
        self._behind = 0

    @property
    def count(self) -> int:
        """Number of draws so far."""
        return self._behind if self._left is None else (self._number + 1) * self._size - length_hint(self._left)

    def go_to(self, count: int) -> None:
        """Continue after this number of draws."""
        self._behind, self._left = count, None

    def following(self) -> Iterator[T]:
        """Return the draws from here on."""
        return chain.from_iterable(self._blocks(*divmod(self.count, self._size)))

    def block(self) -> Iterator[T]:
        """Return the draws from here on to the end of a block, at least one."""
        number, offset = divmod(self.count, self._size)
        left = iter(self._block(number)[offset:])
        self._number, self._left = number, left
        return left

    def _blocks(self, number: int, offset: int) -> Iterator[Iterator[T]]:
        while True:
            self._number, self._left = number, iter(self._block(number)[offset:])
            yield self._left
            number, offset = number + 1, 0


def shares(seed: int, size: int) -> DrawBlocks[float]:
    """Return draws of numbers from 0 (inclusive) to 1 (exclusive)."""

    def block(number: int) -> Any:
        generator = torch.Generator().manual_seed(derive(seed, number))
        return torch.rand(size, generator=generator, dtype=torch.float64).tolist()

    return DrawBlocks(size, block)


class Permutation(Sequence[int]):
    """The numbers below ``length``, or those of a range of that length, in a random order; or a slice of them.

    >>> order = Permutation(10**12, seed=1)
    >>> order[10**9 : 10**9 + 3][1] == order[10**9 + 1]
    True
    >>> sorted(Permutation(5, seed=1))
    [0, 1, 2, 3, 4]
    """

    def __init__(self, length: int, seed: int) -> None:
        self._length = length
        self._positions = range(length)
        self._of = range(length)
        self._laid_out: torch.Tensor | None = None
        if length <= _SHORT:
            self._laid_out = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
            return
        self._low_bits = ((length - 1).bit_length() + 1) // 2
        lows, self._highs = 1 << self._low_bits, ((length - 1) >> self._low_bits) + 1
        self._rounds = [
            (self._drawn(self._highs, lows, derive(seed, i, "high")), self._drawn(lows, self._highs, derive(seed, i)))
            for i in range(_ROUNDS // 2)
        ]

    @staticmethod
    def _drawn(below: int, keys: int, seed: int) -> _Tables:
        """Return random numbers for the keys, in one table for each digit of a key."""
        generator = torch.Generator().manual_seed(seed)
        most = 1 << _DIGIT
        lengths = [min(most, ((keys - 1) >> shift) + 1) for shift in range(0, (keys - 1).bit_length(), _DIGIT)]
        return [torch.randint(below, (length,), generator=generator) for length in lengths]

    def of(self, numbers: range) -> Permutation:
        """Return the numbers of a range of the same length, in this order.

        >>> sorted(Permutation(3, seed=1).of(range(5, 11, 2)))
        [5, 7, 9]
        """
        new = copy.copy(self)
        new._of = numbers
        return new

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, which: int) -> int: ...
    @overload
    def __getitem__(self, which: slice) -> Permutation: ...
    def __getitem__(self, which: int | slice) -> int | Permutation:
        positions = self._positions[which]
        if isinstance(positions, int):
            return int(self._numbers(torch.tensor([positions])))
        part = copy.copy(self)
        part._positions = positions
        return part

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._chunks())

    def _chunks(self) -> Iterator[list[int]]:
        for numbers in self.blocks(_CHUNK):
            yield numbers.tolist()

    def blocks(self, size: int) -> Iterator[torch.Tensor]:
        """Yield the numbers in tensors of this size."""
        at_once = max(1, _CHUNK // size) * size
        for first in range(0, len(self), at_once):
            part = self._positions[first : first + at_once]
            yield from torch.split(self._numbers(part.start + part.step * torch.arange(len(part))), size)

    def _numbers(self, positions: torch.Tensor) -> torch.Tensor:
        numbers, of = self._below_length(positions), self._of
        return numbers if of == range(self._length) else numbers * of.step + of.start

    def _below_length(self, positions: torch.Tensor) -> torch.Tensor:
        if self._laid_out is not None:
            return self._laid_out.index_select(0, positions)  # plain indexing starts threads
        numbers = self._mixed(positions)
        while len(beyond := (numbers >= self._length).nonzero().squeeze(1)):
            numbers.index_copy_(0, beyond, self._mixed(numbers.index_select(0, beyond)))
        return numbers

    def _mixed(self, numbers: torch.Tensor) -> torch.Tensor:
        high, low = numbers >> self._low_bits, numbers & ((1 << self._low_bits) - 1)
        for for_high, for_low in self._rounds:
            for table, digit in zip(for_high, _digits(low, len(for_high)), strict=True):
                high -= table.index_select(0, digit)
                high += (high >> 63) & self._highs  # for those below zero
            for table, digit in zip(for_low, _digits(high, len(for_low)), strict=True):
                low ^= table.index_select(0, digit)
        return (high << self._low_bits) | low


def _digits(keys: torch.Tensor, count: int) -> list[torch.Tensor]:
    """Return the digits of keys, the lowest first."""
    if count == 1:
        return [keys]
    return [(keys >> (i * _DIGIT)) & ((1 << _DIGIT) - 1) for i in range(count)]
