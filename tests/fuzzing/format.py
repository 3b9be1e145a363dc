"""A file format as the fuzzing kit knows it: how a small valid file is made and read, and what damage may lead to.

A format is one row of a table (``tests.fuzzing.formats``). Damage may have two outcomes: the same elements as of the
sound file, as far as ``same`` can ask for that, or an error of the kinds that the format declares. All else is a bug.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from datapipes.errors import Loader2Error
from datapipes.graph import Pipe


@dataclass(frozen=True)
class Format:
    """One row: a name, a small file, the graph that reads it, the errors that may come of damage."""

    name: str
    """The name of the file as well, so it ends as files of the format do: ``plain.tar``, ``rows.csv``."""
    make: Callable[[], bytes]
    """The bytes of a valid file of a few hundred bytes; the same whenever it is called."""
    read: Callable[[str], Pipe]
    """The graph that reads the file at a path, all of it."""
    errors: tuple[type[Exception], ...] = (Loader2Error,)
    """What may be raised for a damaged file."""
    same: Callable[[Sequence[Any], Sequence[Any]], bool] = operator.eq
    """(expected, found) -> bool: whether elements, as ``shown`` prints them, are as right as the format can tell.

    For a format without checksums, changed payload cannot be noticed; but what is missing must be.
    """
    same_after_cut: Callable[[Sequence[Any], Sequence[Any]], bool] = operator.eq
    """The same for a file that was cut short."""

    says_otherwise: Callable[[bytes], bool] = lambda data: False
    """Return whether damaged bytes are a valid file with other elements, so that the damage cannot be noticed."""

    def __str__(self) -> str:
        return self.name
