"""Specimen: an example graph that the laws are tried on, built anew whenever one is asked for.

A specimen is built by a function that is given a ``Tap``. The function sends its first source through the tap, and
those that are read in step with it through ``tap.partner``; ``tap.function`` and ``tap.generator`` take the user's
functions. The plain tap hands all of them back as they are; the law of errors uses others, which make an element fail
or leave it out, and one that gives fewer elements finds the shortest graph that breaks a law.

Elements are compared by ``shown``: a text that tells apart whatever differs in type or value, and that does not change
when somebody changes the element afterwards.
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

    def beside(self, source: Pipe) -> Pipe:
        """Another source, of which is not known whether it is read in step with the first one."""
        return source

    def function(self, fn: Function) -> Function:
        """A user's function of the first source's elements."""
        self.functions += 1
        return fn

    def generator(self, fn: Function) -> Function:
        """A user's function that makes an iterable of each of the first source's elements."""
        self.generators += 1
        return fn


class Short(Tap):
    """Gives another tap the first elements of a source."""

    def __init__(self, most: int, tap: Tap) -> None:
        super().__init__()
        self.most, self.tap = most, tap
        self.function, self.generator = tap.function, tap.generator  # type: ignore[method-assign]  # they are its own

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
    """The first elements of an iterable that is no sequence, which is none either."""

    def __init__(self, most: int, elements: Iterable[Any]) -> None:
        self.most, self.elements = most, elements

    def __iter__(self) -> Iterator[Any]:
        return islice(self.elements, self.most)

    def __repr__(self) -> str:
        return f"First({self.most}, {self.elements!r})"


Build: TypeAlias = Callable[[Tap], Pipe]


def _build_short(build: Build, most: int, tap: Tap) -> Pipe:
    return build(Short(most, tap))


@dataclass(frozen=True)
class Specimen:
    """An example graph of one operator, pipe or service, and what may be expected of it."""

    operator: str
    title: str
    build: Build
    random: Order = ""
    """What the order depends on: nothing, the loader's seed and the epoch, the epoch alone; or nobody has said it."""
    after_fault: AfterFault = "goes on"
    """After an exception: all elements follow that it did not hit; or the same exception comes again and again, as from
    a generator that has to be run anew; or it depends. It is always the same when resumed."""
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
    is_as_here: bool = False
    """Whether the graph gives through the service what it gives in this process, in the same order."""
    raises: bool = False
    """Whether the stream raises by itself; such a specimen is for the law of errors alone."""
    thorough: bool = False
    """Whether to try all there is, whatever it costs."""
    by_source: tuple[Build, ...] = ()
    """The graph with each of its sources tapped in turn, if there are several and it is unknown which are in step."""

    def __str__(self) -> str:
        return f"{self.operator}: {self.title}"

    def shortened(self, most: int) -> Specimen:
        """The same over the first elements of the source, tried at every position."""
        build, *by_source = (partial(_build_short, build, most) for build in (self.build, *self.by_source))
        short = replace(self, build=build, by_source=tuple(by_source), stops=None, thorough=True)
        # A few elements may come in the same order by chance.
        return replace(short, random=self.random and "unknown")

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
    if type(element).__repr__ is object.__repr__ and hasattr(element, "__dict__"):  # it would print its address
        return f"{type(element).__name__}({shown(vars(element))})"
    return repr(element)
