"""Specimen: an example graph that the laws are tried on, built anew whenever one is asked for.

A specimen belongs to one operator and is built by a function that is given a ``Tap``. The function sends its first
source through the tap, and those that are read in step with it through ``tap.partner``; ``tap.function`` and
``tap.generator`` take the user's functions. The plain tap hands all of them back as they are; the law of errors uses
others, which make an element fail or leave it out.

Elements are compared by ``shown``: a text that tells apart whatever differs in type or value, and that does not change
when somebody changes the element afterwards.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from datapipes.elements.streams import StreamWrapper
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import ReadingServiceInterface

Function: TypeAlias = Callable[[Any], Any]
AfterFault: TypeAlias = Literal["goes on", "otherwise"]


class Tap:
    """Hands on what it is given, and counts the calls."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.functions = 0
        self.generators = 0

    def __call__(self, source: Pipe) -> Pipe:
        """A specimen's source, of one stage, whose elements may be made to fail."""
        self.lengths.append(sum(1 for _ in source))
        return source

    def partner(self, source: Pipe) -> Pipe:
        """A source that loses an element whenever the first one does, because both are read in step."""
        return source

    def function(self, fn: Function) -> Function:
        """A user's function of the first source's elements."""
        self.functions += 1
        return fn

    def generator(self, fn: Function) -> Function:
        """A user's function that makes an iterable of each of the first source's elements."""
        self.generators += 1
        return fn


Build: TypeAlias = Callable[[Tap], Pipe]


@dataclass(frozen=True)
class Specimen:
    """An example graph of one operator, and what may be expected of it."""

    operator: str
    title: str
    build: Build
    random: Literal["", "by seed", "pinned"] = ""
    """What the order depends on: nothing, the loader's seed and the epoch, the epoch alone."""
    after_fault: AfterFault = "goes on"
    """After an exception: all elements follow that it did not hit; or it depends, and is the same when resumed."""
    by: Literal["pickle", "cloudpickle"] = "pickle"
    """What pickles the graph."""
    memo: frozenset[str] = frozenset()
    """Attributes that remember what a pure function gave: filling them changes no element."""
    stops: tuple[int, ...] | None = None
    """The positions to look at, where there are too many to look at all."""
    service: Callable[[], ReadingServiceInterface] | None = None
    starts_processes: bool = False
    """Whether the service does, each time that the specimen is opened."""
    regroups: bool = False
    """Whether the service gives other elements than the graph does, so that they are counted by the loader alone."""
    raises: bool = False
    """Whether the stream raises by itself; such a specimen is for the law of errors alone."""

    def __str__(self) -> str:
        return f"{self.operator}: {self.title}"

    def pipe(self) -> Pipe:
        """The graph, built anew."""
        return self.build(Tap())

    def loader(self, pipe: Pipe = None, seed: int | None = None) -> DataLoader2[Any]:
        """A loader over a graph, by default one built anew."""
        service = None if self.service is None else self.service()
        loader: DataLoader2[Any] = DataLoader2(self.pipe() if pipe is None else pipe, reading_service=service)
        if seed is not None:
            loader.seed(seed)
        return loader


shuffled = partial(Specimen, random="by seed")
"""A specimen whose order depends on the loader's seed and the epoch."""


def shown(element: object) -> str:
    """An element as a text. A stream is shown by what is left in it."""
    match element:
        case StreamWrapper():
            return f"stream({element.read()!r})"
        case torch.Tensor():
            return f"tensor({element.dtype}, {element.tolist()})"
        case dict():
            return f"{type(element).__name__}({', '.join(f'{shown(k)}: {shown(v)}' for k, v in element.items())})"
        case list() | tuple():
            return f"{type(element).__name__}({', '.join(map(shown, element))})"
    return repr(element)


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
    """The folder of the specimens' files, in which nobody writes."""
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
