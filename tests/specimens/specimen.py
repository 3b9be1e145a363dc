"""What the specimens of the catalogue share: their names from the kit, their sources, and their files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from loader2.testing.specimen import Build, Function, Specimen, Tap, shown, shuffled

__all__ = [
    "Build",
    "Countable",
    "Function",
    "Specimen",
    "Tap",
    "everything",
    "folder",
    "in_memory",
    "numbers",
    "paths",
    "scratch",
    "shown",
    "shuffled",
    "unseekable",
]


class Countable:
    """An iterable that is no sequence, so that a stream of it cannot be sought."""

    def __init__(self, *elements: Any) -> None:
        self.elements = elements

    def __iter__(self) -> Iterator[Any]:
        yield from self.elements

    def __repr__(self) -> str:
        return f"Countable{self.elements!r:.40}"


def numbers(length: int) -> Pipe:
    """The numbers from 0, from a source that can be sought."""
    return IterableWrapper(range(length))


def unseekable(length: int) -> Pipe:
    """The numbers from 0, from a source that cannot be sought."""
    return IterableWrapper(Countable(*range(length)))


def in_memory() -> str | None:
    """A folder that is no disk, if there is one: what forces files to the disk is quick there."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


@cache
def everything() -> Path:
    """The folder of all that specimens read and write; it goes when the process ends."""
    path = Path(tempfile.mkdtemp(prefix="specimens-", dir=in_memory()))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@cache
def scratch() -> Path:
    """A folder for what specimens write."""
    path = everything() / "scratch"
    path.mkdir()
    return path


@cache
def folder() -> Path:
    """The folder of the specimens' files, which is only read."""
    path = everything() / "files"
    path.mkdir()
    (path / "a.csv").write_text('x,y\n1,one\n2,"two\nlines"\n3,three\n')
    (path / "b.csv").write_text("x,y\n4,four\n")
    (path / "empty.csv").write_text("")
    (path / "c.csv").write_text("x,y\n5,five\n6,six\n7,seven\n8,\n")
    (path / "latin.txt").write_bytes("one\ntwo\nmän\nfour\n".encode("latin-1"))
    (path / "inner").mkdir()
    (path / "inner" / "d.txt").write_text("first\n\nlast without an end")
    (path / "inner" / "e.csv").write_text("x,y\n9,nine\n")
    return path


def paths(*names: str) -> Pipe:
    """The paths of some of the specimens' files."""
    return IterableWrapper([str(folder() / name) for name in names])
