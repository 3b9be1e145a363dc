"""What every law is made of: elements as texts, the positions to look at, and what must be equal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any, TypeVar

from loader2.testing.specimen import Specimen, shown

SEED = 7
SHORT = 5
"""Up to how many elements a stream is looked at after each of them: what a law costs grows with their square."""
LONG = 50
"""The same where all is tried."""
MOST_TOLD = 200
"""Characters of a value in a message."""
DRAWN = 2
"""How much to try of what is costly: the same in each run, and something else for each specimen."""

T = TypeVar("T")


class Broken(AssertionError):
    """What does not hold: where, and what came in place of what was expected, if there is something to compare."""

    def __init__(self, where: str, came: object = "", expected: object = "") -> None:
        super().__init__(where, came, expected)
        self.where, self.came, self.expected = where, came, expected

    def __str__(self) -> str:
        if self.came == self.expected:
            return self.where
        return f"{self.where}: {brief(self.came)} instead of {brief(self.expected)}"


def must(holds: bool, otherwise: str) -> None:
    """Raise unless something holds."""
    if not holds:
        raise Broken(otherwise)


def must_equal(found: object, expected: object, what: str) -> None:
    """Raise, with both sides, unless they are equal."""
    if found != expected:
        raise Broken(what, found, expected)


def brief(value: object) -> str:
    """A value for a message. Elements stand there as they print, and not as the texts that they were made."""
    text = f"[{', '.join(map(brief, value))}]" if isinstance(value, list) else str(value)
    return text if len(text) <= MOST_TOLD else f"{text[:MOST_TOLD]}..."


def apart(came: Any, expected: Any) -> tuple[str, Any, Any]:
    """Where two values differ first, and by what; the whole of them where that is short enough to be read."""
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
    """The next elements as texts: all that are left, or some."""
    return [shown(element) for element in islice(iterator, most)]


def positions(specimen: Specimen, length: int) -> list[int]:
    """After how many of ``length`` elements to look: wherever something begins or ends, and in between."""
    if specimen.stops is not None:
        return [k for k in specimen.stops if k <= length]
    if length <= (LONG if specimen.thorough else SHORT):
        return sorted(affordable(specimen, list(range(length + 1))))
    telling = [0, 1, length // 2, length - 1, length]
    others = [k for k in range(length) if k not in telling]
    return sorted(affordable(specimen, telling) + drawn(specimen, others)[:1])


def drawn(specimen: Specimen, choices: list[T]) -> list[T]:
    """Some of what might be tried on a specimen."""
    return Random(f"{specimen}/{len(choices)}").sample(choices, min(len(choices), DRAWN))


def affordable(specimen: Specimen, choices: list[T]) -> list[T]:
    """All of what might be tried on a specimen; some of it where each try starts processes."""
    return drawn(specimen, choices) if specimen.starts_processes and not specimen.thorough else choices
