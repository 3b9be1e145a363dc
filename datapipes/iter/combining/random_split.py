"""random_split: the elements of one stream distributed at random to several, each of which reads the stream itself.

An element's stream is a pure function of the seed, the weights, the total length and the element's number. So the
children agree without communication, in one process or several, and the split is the same in every epoch. It is
computed from the start: weights are scaled to the total length, each element is drawn by the remaining shares, and the
share that it was drawn for is reduced by one. The position is a count.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import chain, compress, islice
from math import fsum, inf
from operator import length_hint
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch

from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, composed, operator
from datapipes.description.printing import stage
from datapipes.description.structure import draws_by_number, walk
from datapipes.errors import BadArgument, BadArgumentType
from datapipes.messages.warnings import warn
from datapipes.operator_support.checks import length_of, needs, needs_count
from datapipes.position.cells import Cell, count
from datapipes.position.opening import Opening
from datapipes.position.seeds import derive
from datapipes.position.user_classes import has_method

T_co = TypeVar("T_co", covariant=True)
Self = TypeVar("Self", bound="SplitterIterator[Any]")

_BLOCK = 4096


@composed
def RandomSplitter(
    source_datapipe: IterDataPipe[T_co],
    weights: Mapping[Any, float],
    seed: int,
    total_length: int | None = None,
    target: Hashable | None = None,
) -> Any:
    """A list of streams that share the elements at random, or one of these streams; each element is in one.

    Elements are assigned by their number. Shuffle the resulting streams and not the source: otherwise elements change
    streams from epoch to epoch.

    Args:
        weights: The share of each stream, by a key for it; the streams have this order. Shares are positive numbers in
            any unit: they are scaled to the number of elements.
        seed: Determines the split, with weights and length, in every epoch and process.
        total_length: The number of elements in the source, which must not have more. ``None``: its ``len()``.
        target: Key of the only stream to return, not in a list. ``None``: all of them.

    >>> from datapipes.iter import IterableWrapper
    >>> train, valid = IterableWrapper(range(10)).random_split(weights={"train": 0.8, "valid": 0.2}, seed=0)
    >>> len(train), len(valid), sorted([*train, *valid]) == list(range(10))
    (8, 2, True)
    """
    split = _RandomSplit(source_datapipe, weights, seed, total_length)
    random = [
        pipe
        for pipe in walk(source_datapipe)
        if has_method(pipe, "set_seed") and vars(pipe).get("_enabled", True) and not draws_by_number(pipe)
    ]
    if random:
        warn(
            f"random_split deals elements out by their number, but {stage(random[-1])} above it changes their order "
            "from epoch to epoch, so that elements change streams: shuffle the streams that it returns instead",
        )
    if target is None:
        return [SplitterIterator(split, key) for key in split.weights]
    if target not in split.weights:
        raise KeyError(f"{target!r:.80} does not match any key of `weights`: {list(split.weights)!r:.200}")
    return SplitterIterator(split, target)


@operator
class _RandomSplit(IterDataPipe[T_co]):
    """Shared source of the streams of one ``random_split``, and the rule of the split."""

    _fluent: ClassVar[str | None] = "random_split"

    source_datapipe: IterDataPipe[T_co]

    def __init__(
        self,
        source_datapipe: IterDataPipe[T_co],
        weights: Mapping[Any, float],
        seed: int,
        total_length: int | None = None,
    ) -> None:
        if not isinstance(weights, Mapping):
            raise BadArgumentType(
                "random_split needs `weights` to be a dict of keys and their weights, "
                f"got {type(weights).__name__}: {weights!r:.60}"
            )
        self.source_datapipe = source_datapipe
        self.weights = dict(weights)
        self.seed = seed
        needs(len(self.weights) > 0, self, "`weights` is empty: give a weight for each stream")
        for key, weight in self.weights.items():
            needs(0 < weight < inf, self, f"the weight of {key!r:.60} must be positive and finite, got {weight!r:.60}")
        if total_length is None:
            try:
                total_length = length_of(source_datapipe)
            except TypeError:
                raise BadArgumentType(
                    f"random_split needs `total_length`, because its source has no length: {source_datapipe!r:.200}"
                ) from None
        self.total_length = total_length
        needs_count(self, "total_length", 0, f"`total_length` must not be negative, got {total_length}")

    def _open(self, at: Opening) -> Iterator[T_co]:
        return at.source(self.source_datapipe)

    def shares(self) -> list[Fraction]:
        """Return the number of elements for each key. Weights count as written: 0.1 is exactly a tenth."""
        weights = [Fraction(repr(float(weight))) for weight in self.weights.values()]
        return [weight * self.total_length / sum(weights) for weight in weights]

    def dealt(self, target: Hashable, start: int = 0, shares: Sequence[float] = ()) -> Iterator[_ShareBlock]:
        """Yield blocks of flags for the elements of ``target``, from a block's first element and the shares there."""
        mine = list(self.weights).index(target)
        left = list(shares or map(float, self.shares()))
        for first in range(start, self.total_length, _BLOCK):
            before, remaining = tuple(left), self.total_length - first
            generator = torch.Generator().manual_seed(derive("random_split", self.seed, first // _BLOCK))
            drawn = torch.rand(min(_BLOCK, remaining), dtype=torch.float64, generator=generator).tolist()
            goes = [_deal(left, number, remaining - i) == mine for i, number in enumerate(drawn)]
            yield _ShareBlock(goes, first, before)


class _ShareBlock(NamedTuple):
    """Flags of some elements for one target, the number of the first, and the remaining shares there."""

    goes: list[bool]
    first: int
    shares: tuple[float, ...]


def _deal(left: list[float], drawn: float, remaining: int) -> int:
    """Draw a key by a number from 0 up to 1 and the remaining shares. Reduce the share of that key by one."""
    point = drawn * remaining
    key = -1
    while point >= 0 and key + 1 < len(left):
        key += 1
        point -= left[key]
    while not left[key]:  # rounding errors
        key -= 1
    left[key] -= 1
    if left[key] < 0:
        left[key] = 0
        whole = fsum(left)
        left[:] = [share * (remaining - 1) / whole if whole else 0 for share in left]
    return key


@operator
class SplitterIterator(IterDataPipe[T_co]):
    """One of the streams of ``random_split``. Each reads the source itself.

    >>> from datapipes.iter import IterableWrapper
    >>> train, _ = IterableWrapper(range(10)).random_split(weights={"train": 8, "valid": 2}, seed=0)
    >>> train.target, len(train)
    ('train', 8)
    """

    _parents: ClassVar[tuple[str, ...] | None] = ("main_datapipe",)
    main_datapipe: _RandomSplit[T_co]
    target: Hashable

    def override_seed(self: Self, seed: int) -> Self:
        """Set another seed for all streams of the same call, in iterations that start from now on."""
        self.main_datapipe.seed = seed
        return self

    def _open(self, at: Opening) -> Iterator[T_co]:
        main = self.main_datapipe
        cell = at.cell(lambda: _SplitCell(main.total_length))
        return self._elements(at.source(main), cell.going_on(main, self.target))

    def _elements(self, source: Iterator[T_co], blocks: Iterator[Iterator[bool]]) -> Iterator[T_co]:
        for goes in blocks:
            # compress takes from the source first: an element that could not be made has no stream. islice takes no
            # more elements than there are flags, because drawing further flags may be interrupted.
            yield from compress(islice(source, length_hint(goes)), goes)
            if length_hint(goes):
                return
        for _ in source:
            main = self.main_datapipe
            raise BadArgument(
                f"the source of {stage(main)} has more elements than the {main.total_length} of the split: "
                "give its length as total_length"
            )

    def _unpacked_from(self) -> tuple[_RandomSplit[T_co], int]:
        return self.main_datapipe, list(self.main_datapipe.weights).index(self.target)

    def _indexed(self) -> Indexed | None:
        main = self.main_datapipe
        source = indexed(main.source_datapipe)
        if source is None or source.length > main.total_length:
            return None  # reading a longer source to its end is an error
        length, at = source.length, source.at

        @cache
        def numbers() -> list[int]:
            goes = chain.from_iterable(block.goes for block in main.dealt(self.target))
            return list(compress(range(length), goes))

        return Indexed(lambda: len(numbers()), lambda i: at(numbers()[i]))

    def __len__(self) -> int:
        main = self.main_datapipe
        shares = main.shares()
        if any(share.denominator > 1 for share in shares):
            raise TypeError(
                f"{stage(main)}{stage(self)} doesn't have valid length: it cannot be known in advance, because the "
                f"weights do not divide {main.total_length} elements evenly"
            )
        return int(shares[list(main.weights).index(self.target)])


class _SplitCell(Cell):
    """Position in the split: the number of elements of the source that were assigned."""

    def __init__(self, total_length: int) -> None:
        self._total_length = total_length
        self._end = 0  # end of the current block
        self._left: Iterator[bool] = iter(())  # remaining flags of it
        self._start: tuple[int, tuple[float, ...]] = (0, ())  # its first element, and the remaining shares there

    def going_on(self, split: _RandomSplit[Any], target: Hashable) -> Iterator[Iterator[bool]]:
        """Yield blocks of flags for ``target`` from this position on. After an exception, repeat at most one block."""
        behind = self.save()
        for goes, first, shares in split.dealt(target, *self._start):
            end = first + len(goes)
            if end > behind:
                left = iter(goes[max(behind - first, 0) :])
                self._start, self._end, self._left = (first, shares), end, left  # without a call: no signal in between
                yield left

    def save(self) -> int:
        return self._end - length_hint(self._left)

    def load(self, saved: Any) -> None:
        self._end = count(saved, most=self._total_length)
