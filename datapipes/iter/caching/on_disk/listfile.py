"""The list of the files made from one element, which marks them as complete.

It is the file ``<path>.torchdata_list`` with one line for each file: its path, a tab and its size. Lists of torchdata
have no sizes. Like every file of a cache it is written completely or not at all; it is written last. Its entries are
checked before use. It may name files anywhere, and must be trusted as much as the files beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from datapipes.errors import BadArgument
from datapipes.iter.files.atomic import write

_SUFFIX = ".torchdata_list"


class ListedFile(NamedTuple):
    """One of the files, and its size if it is known."""

    path: str
    size: int | None


def list_of(path: str) -> str:
    """Return the path of the list for an element's path."""
    return path + _SUFFIX


def read_list(path: str) -> list[ListedFile] | None:
    """Return the files that a list names, or None if there is no list."""
    try:
        with open(list_of(path), "rb") as file:
            return [_member(line) for line in file.read().split(b"\n") if line]
    except FileNotFoundError:
        return None


def write_list(path: str, made: Iterable[str]) -> None:
    """Write the list of the files made for an element's path."""
    write(list_of(path), b"".join(os.fsencode(f"{one}\t{os.stat(one).st_size}\n") for one in made))


def needs_listable(path: str) -> None:
    """Refuse a name with a line break, which would be several lines of a list; archive members can have any name."""
    if "\n" in path:
        raise BadArgument(f"a cache cannot list a file with a line break in its name: {path!r:.200}")


def _member(line: bytes) -> ListedFile:
    path, tab, size = line.rpartition(b"\t")
    if tab and size.isdigit():
        return ListedFile(os.fsdecode(path), int(size))
    return ListedFile(os.fsdecode(line), None)
