"""The list of the files that were made of one element: the mark that all of them are there.

It is the file ``<path>.torchdata_list``, one line for each file: its path, and after a tab its size, which torchdata
did not write. Like every file of a cache it is written completely or not at all, and it is written last. What it says
is checked before it is believed; it is as much to be trusted as the files beside it, and may name files anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from datapipes.errors import BadArgument
from datapipes.iter.files.atomic import write

_SUFFIX = ".torchdata_list"


class ListedFile(NamedTuple):
    """One of the files, and its size if that is known."""

    path: str
    size: int | None


def list_of(path: str) -> str:
    """The list that belongs to the path of a cache's element."""
    return path + _SUFFIX


def read_list(path: str) -> list[ListedFile] | None:
    """The files that a list names; None if there is no list."""
    try:
        with open(list_of(path), "rb") as file:
            return [_member(line) for line in file.read().split(b"\n") if line]
    except FileNotFoundError:
        return None


def write_list(path: str, made: Iterable[str]) -> None:
    """List the files that were made."""
    write(list_of(path), b"".join(os.fsencode(f"{one}\t{os.stat(one).st_size}\n") for one in made))


def needs_listable(path: str) -> None:
    """Refuse a name that would be several lines of a list; a member of an archive can have any name."""
    if "\n" in path:
        raise BadArgument(f"a cache cannot list a file with a line break in its name: {path!r:.200}")


def _member(line: bytes) -> ListedFile:
    path, tab, size = line.rpartition(b"\t")
    if tab and size.isdigit():
        return ListedFile(os.fsdecode(path), int(size))
    return ListedFile(os.fsdecode(line), None)
