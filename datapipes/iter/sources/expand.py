"""shard_expand: names with ranges in braces, spelled out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.operators.flattening import Flattening

_RANGE = re.compile(r"\{([0-9]+)\.\.([0-9]+)\}")


@operator
class ShardExpander(Flattening[str]):
    """Each name once for every number in its ranges ``{first..last}``, the last range varying fastest.

    Numbers get zeros in front if the bounds are equally long and the first begins with one. Names are made one by one,
    so a range may be long.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(["train-{08..11}.tar", "test.tar"]).shard_expand())
    ['train-08.tar', 'train-09.tar', 'train-10.tar', 'train-11.tar', 'test.tar']
    """

    _fluent: ClassVar[str | None] = "shard_expand"

    source_datapipe: IterDataPipe[str]

    def _inner(self, element: str) -> Iterator[str]:
        texts, ranges = [], []
        end = 0
        for found in _RANGE.finditer(element):
            texts.append(element[end : found.start()])
            ranges.append(_checked(found[1], found[2], element))
            end = found.end()
        return _spelled(texts, ranges, element[end:])


def _checked(first: str, last: str, name: str) -> tuple[int, int, int]:
    """The first number of a range, how many there are, and to how many digits they are filled with zeros."""
    bounds = f"{{{first}..{last}}} in {name!r:.200}"
    if len(first) > len(last):
        raise ValueError(f"shard_expand: the low bound must be shorter than the high bound, or as long: {bounds}")
    if len(first) < len(last) and first.startswith("0") and first != "0":
        raise ValueError(f"shard_expand: the low bound must not start with 0 if it is shorter: {bounds}")
    if int(first) >= int(last):
        raise ValueError(f"shard_expand: bad range, the low bound must be below the high bound: {bounds}")
    return int(first), int(last) - int(first) + 1, len(first) if len(first) == len(last) else 0


def _spelled(texts: list[str], ranges: list[tuple[int, int, int]], end: str) -> Iterator[str]:
    """Every combination, in order."""
    for combination in range(prod(times for _, times, _ in ranges)):
        name, rest = end, combination
        for text, (first, times, digits) in zip(reversed(texts), reversed(ranges), strict=True):
            rest, number = divmod(rest, times)
            name = f"{text}{str(first + number).zfill(digits)}{name}"
        yield name
