"""Parts of all laws: elements as texts, positions to try, and assertions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any, TypeVar

from loader2.testing.specimen import Specimen, shown

SEED = 7
SHORT = 5
"""Longest stream that is tried after each element: the time of a law grows with the square of the length."""
LONG = 50
"""The same for a thorough specimen."""
MOST_TOLD = 200
"""Characters of a value in a message."""
DRAWN = 2
"""Number of cases for expensive checks. The choice is fixed for a specimen, and differs between specimens."""

T = TypeVar("T")


class Broken(AssertionError):
    """Broken law: where, and the found and the expected value if there are any."""

    def __init__(self, where: str, came: object = "", expected: object = "") -> None:
        super().__init__(where, came, expected)
        self.where, self.came, self.expected = where, came, expected

    def __str__(self) -> str:
        if self.came == self.expected:
            return self.where
        return f"{self.where}: {brief(self.came)} instead of {brief(self.expected)}"


def must(holds: bool, otherwise: str) -> None:
    """Raise unless a condition holds."""
    if not holds:
        raise Broken(otherwise)


def must_equal(found: object, expected: object, what: str) -> None:
    """Raise an error with both values unless they are equal."""
    if found != expected:
        raise Broken(what, found, expected)


def brief(value: object) -> str:
    """Return a value as text for a message, cut after ``MOST_TOLD`` characters."""
    text = f"[{', '.join(map(brief, value))}]" if isinstance(value, list) else str(value)
    return text if len(text) <= MOST_TOLD else f"{text[:MOST_TOLD]}..."


def apart(came: Any, expected: Any) -> tuple[str, Any, Any]:
    """Return the path of the first difference of two values, with both parts. The path of short values is empty."""
    path = ""
    while type(came) is type(expected) and max(len(str(came)), len(str(expected))) > MOST_TOLD:
        if isinstance(came, list | tuple) and len(came) == len(expected):
            keys: Any = range(len(came))
        elif isinstance(came, dict) and came.keys() == expected.keys():
            keys = came
        else:
            break
        key = next(key for key in keys if came[key] != expected[key])
        path, came, expected = f"{path}[{key!r}]", came[key], expected[key]
    return path and f", at {path}", came, expected


def taken(iterator: Iterator[Any], most: int | None = None) -> list[str]:
    """Return the next elements as texts: all that are left, or at most ``most``."""
    return [shown(element) for element in islice(iterator, most)]


def positions(specimen: Specimen, length: int) -> list[int]:
    """Return the numbers of elements after which to try a law: at both ends of the stream, and between."""
    if specimen.stops is not None:
        return [k for k in specimen.stops if k <= length]
    if length <= (LONG if specimen.thorough else SHORT):
        return sorted(affordable(specimen, list(range(length + 1))))
    telling = [0, 1, length // 2, length - 1, length]
    others = [k for k in range(length) if k not in telling]
    return sorted(affordable(specimen, telling) + drawn(specimen, others)[:1])


def drawn(specimen: Specimen, choices: list[T]) -> list[T]:
    """Return some of the choices, always the same for one specimen."""
    return Random(f"{specimen}/{len(choices)}").sample(choices, min(len(choices), DRAWN))


def affordable(specimen: Specimen, choices: list[T]) -> list[T]:
    """Return all choices, or some of them if each try starts processes."""
    return drawn(specimen, choices) if specimen.starts_processes and not specimen.thorough else choices
