"""Specimen: an example graph for the laws, built anew for each use.

A specimen's builder gets a ``Tap``. It sends its first source through the tap, and sources read in step with it through
``tap.partner``. ``tap.function`` and ``tap.generator`` take the user's functions. The plain tap returns all of
them unchanged. The law of errors uses taps that make an element fail or leave it out. A tap that gives fewer elements
finds the shortest graph that breaks a law.

Elements are compared by ``shown``: a text that differs if the type or value differs. Later changes of an element do not
change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeAlias

import torch

from datapipes.elements.streams import StreamWrapper
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import ReadingServiceInterface

Function: TypeAlias = Callable[[Any], Any]
Order: TypeAlias = Literal["", "by seed", "pinned", "unknown"]
AfterFault: TypeAlias = Literal["goes on", "goes on or stays", "otherwise"]


class Tap:
    """Tap that returns its arguments unchanged, and counts the calls."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.functions = 0
        self.generators = 0

    def __call__(self, source: Pipe) -> Pipe:
        """Return a specimen's source, of one stage, whose elements may be made to fail."""
        self.lengths.append(sum(1 for _ in source))
        return source

    def partner(self, source: Pipe) -> Pipe:
        """Return a source that loses an element whenever the first one does, because both are read in step."""
        return source

    def beside(self, source: Pipe) -> Pipe:
        """Return another source, of which it is unknown whether it is read in step with the first one."""
        return source

    def function(self, fn: Function) -> Function:
        """Return a user's function of the first source's elements."""
        self.functions += 1
        return fn

    def generator(self, fn: Function) -> Function:
        """Return a user's function that makes an iterable of each of the first source's elements."""
        self.generators += 1
        return fn


class FirstOf(Tap):
    """Tap that gives another tap the first elements of a source."""

    def __init__(self, most: int, tap: Tap) -> None:
        super().__init__()
        self.most, self.tap = most, tap
        self.function, self.generator = tap.function, tap.generator  # type: ignore[method-assign]  # the other tap's

    def __call__(self, source: Pipe) -> Pipe:
        return self.tap(self._first(source))

    def partner(self, source: Pipe) -> Pipe:
        return self.tap.partner(self._first(source))

    def beside(self, source: Pipe) -> Pipe:
        return self.tap.beside(self._first(source))

    def _first(self, source: IterableWrapper[Any]) -> Pipe:
        elements = source.iterable
        short = elements[: self.most] if isinstance(elements, Sequence) else First(self.most, elements)
        return IterableWrapper(short, source.deepcopy)


class First:
    """First elements of an iterable that is not a sequence, and is not one itself."""

    def __init__(self, most: int, elements: Iterable[Any]) -> None:
        self.most, self.elements = most, elements

    def __iter__(self) -> Iterator[Any]:
        return islice(self.elements, self.most)

    def __repr__(self) -> str:
        return f"First({self.most}, {self.elements!r})"


Build: TypeAlias = Callable[[Tap], Pipe]


def _build_short(build: Build, most: int, tap: Tap) -> Pipe:
    return build(FirstOf(most, tap))


@dataclass(frozen=True)
class Specimen:
    """Example graph of one operator, pipe or service, with the expectations of it."""

    operator: str
    title: str
    build: Build
    random: Order = ""
    """What the order depends on: nothing, the loader's seed and the epoch, or the epoch alone. It may be unknown."""
    after_fault: AfterFault = "goes on"
    """Elements after an exception. "goes on": all that it did not hit. "goes on or stays": or the same exception again
    and again, as from a generator that has to be run again. "otherwise": any. They are the same after a resume."""
    by: Literal["pickle", "cloudpickle"] = "pickle"
    """Module that pickles the graph."""
    memo: frozenset[str] = frozenset()
    """Attributes that cache the results of a pure function: filling them changes no element."""
    stops: tuple[int, ...] | None = None
    """Positions to try, if there are too many to try all."""
    service: Callable[[], ReadingServiceInterface] | None = None
    starts_processes: bool = False
    """Whether the service starts processes, each time that the specimen is opened."""
    regroups: bool = False
    """Whether the service gives other elements than the graph. Then only the loader counts them."""
    is_as_here: bool = False
    """Whether the graph gives the same elements through the service as in this process, in the same order."""
    raises: bool = False
    """Whether the stream raises by itself; only the law of errors tries it then."""
    thorough: bool = False
    """Whether to try all cases, however long it takes."""
    by_source: tuple[Build, ...] = ()
    """The graph with each of its sources tapped in turn, if there are several and it is unknown which are in step."""

    def __str__(self) -> str:
        return f"{self.operator}: {self.title}"

    def shortened(self, most: int) -> Specimen:
        """Return the specimen over the first elements of the source, tried at every position."""
        build, *by_source = (partial(_build_short, build, most) for build in (self.build, *self.by_source))
        short = replace(self, build=build, by_source=tuple(by_source), stops=None, thorough=True)
        # A few elements may have the same order by chance.
        return replace(short, random=self.random and "unknown")

    def pipe(self) -> Pipe:
        """Return a new graph."""
        return self.build(Tap())

    def loader(self, pipe: Pipe = None, seed: int | None = None) -> DataLoader2[Any]:
        """Return a loader over a graph, by default over a new one."""
        service = None if self.service is None else self.service()
        loader: DataLoader2[Any] = DataLoader2(self.pipe() if pipe is None else pipe, reading_service=service)
        if seed is not None:
            loader.seed(seed)
        return loader


shuffled = partial(Specimen, random="by seed")
"""A specimen whose order depends on the loader's seed and the epoch."""


def shown(element: object) -> str:
    """Return an element as text. A stream is shown by its remaining content."""
    match element:
        case StreamWrapper():
            return f"stream({element.read()!r})"
        case torch.Tensor():
            return f"tensor({element.dtype}, {element.tolist()})"
        case dict():
            return f"{type(element).__name__}({', '.join(f'{shown(k)}: {shown(v)}' for k, v in element.items())})"
        case list() | tuple():
            return f"{type(element).__name__}({', '.join(map(shown, element))})"
    if type(element).__repr__ is object.__repr__ and hasattr(element, "__dict__"):  # it would print its address
        return f"{type(element).__name__}({shown(vars(element))})"
    return repr(element)
