"""Graphs in which a user's function raises on the fourth element, and what names the stage that it belongs to."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from torch.utils.data import IterDataPipe as TorchIterDataPipe

from datapipes.iter import IterableWrapper, IterDataPipe

FILE = re.escape(Path(__file__).name)
HERE = rf"at {FILE}:\d+"


def fail_on_3(element: int) -> int:
    if element == 3:
        raise KeyError(5)
    return element


def fail_on(element: int, fatal: int) -> int:
    return fail_on_3(3 if element == fatal else 0) or element


def keep_unless_3(element: int) -> bool:
    return fail_on_3(element) == element


def first_child(element: int) -> int:
    return 0 * fail_on_3(element)


def fail_within(element: int) -> Iterator[int]:
    yield element
    yield fail_on_3(element)


def fail_in_batch(batch: list[int]) -> list[int]:
    return [fail_on_3(element) for element in batch]


class FailOn3:
    """A callable object, and one of its methods."""

    def __call__(self, element: int) -> int:
        return fail_on_3(element)

    def method(self, element: int) -> int:
        return fail_on_3(element)


class Failing(IterDataPipe[int]):
    """A user's class that raises by itself."""

    def __init__(self, source_datapipe: IterDataPipe[int]) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[int]:
        for element in self.source_datapipe:
            yield fail_on_3(element)


class OfTorch(TorchIterDataPipe):  # type: ignore[type-arg]  # torch's base, as users derive from it
    """The same, derived from torch."""

    def __init__(self, source_datapipe: Iterable[int]) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[int]:
        for element in self.source_datapipe:
            yield fail_on_3(element)


class Passing(IterDataPipe[int]):
    """A user's class that only hands on."""

    def __init__(self, source_datapipe: IterDataPipe[int]) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[int]:
        yield from self.source_datapipe


def numbers(length: int = 6) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


def words() -> IterDataPipe[str]:
    return IterableWrapper(["0", "1", "2", "x", "4", "5"])


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "map": (lambda: numbers().map(fail_on_3), rf"\.map\(<fail_on_3 {HERE}>\)"),
    "map lambda": (lambda: numbers().map(lambda x: fail_on_3(x)), rf"\.map\(<lambda {HERE}>\)"),
    "map builtin": (lambda: words().map(int), r"\.map\(int\)"),
    "map partial of builtin": (
        lambda: words().map(functools.partial(int, base=10)),
        r"\.map\(functools\.partial\(int, base=10\)\)",
    ),
    "map in C": (
        lambda: IterableWrapper([[1], [1], [1], []]).map(operator.itemgetter(0)),
        r"\.map\(operator\.itemgetter\(0\)\)",
    ),
    "map callable": (lambda: numbers().map(FailOn3()), rf"\.map\(<FailOn3 {HERE}>\)"),
    "map method": (lambda: numbers().map(FailOn3().method), rf"\.map\(<FailOn3\.method {HERE}>\)"),
    "map partial": (
        lambda: numbers().map(functools.partial(fail_on, fatal=3)),
        rf"\.map\(functools\.partial\(<fail_on {HERE}>, fatal=3\)\)",
    ),
    "map column": (
        lambda: IterableWrapper([(i, "x") for i in range(5)]).map(fail_on_3, input_col=0),
        rf"\.map\(<fail_on_3 {HERE}>, input_col=0\)",
    ),
    "filter": (lambda: numbers().filter(keep_unless_3), rf"\.filter\(<keep_unless_3 {HERE}>\)"),
    "filter lambda": (lambda: numbers().filter(lambda x: keep_unless_3(x)), rf"\.filter\(<lambda {HERE}>\)"),
    "filter builtin": (lambda: IterableWrapper(["a", "b", "c", 3]).filter(str.isalpha), r"\.filter\(str\.isalpha\)"),
    "filter's answer": (lambda: numbers().filter(lambda x: x if x == 3 else True), rf"\.filter\(<lambda {HERE}>\)"),
    "flatmap": (lambda: numbers().flatmap(lambda x: [fail_on_3(x)]), rf"\.flatmap\(fn=<lambda {HERE}>\)"),
    "flatmap generator": (lambda: numbers().flatmap(fail_within), rf"\.flatmap\(fn=<fail_within {HERE}>\)"),
    "flatmap builtin": (lambda: IterableWrapper(["a", "b", "c", 3]).flatmap(iter), r"\.flatmap\(fn=iter\)"),
    "demux": (lambda: numbers().demux(1, first_child)[0], rf"\.demux\(1, <first_child {HERE}>\)"),
    "demux builtin": (lambda: IterableWrapper(["0", "0", "0", "x"]).demux(1, int)[0], r"\.demux\(1, int\)"),
    "collate": (lambda: numbers().batch(2).collate(fail_in_batch), rf"\.collate\(conversion=<fail_in_batch {HERE}>\)"),
    "above a batch": (lambda: numbers().map(fail_on_3).batch(2).map(tuple), rf"\.map\(<fail_on_3 {HERE}>\)"),
    "below a filter": (lambda: numbers().filter(lambda x: x > 1).map(fail_on_3), rf"\.map\(<fail_on_3 {HERE}>\)"),
    "in the middle": (lambda: numbers().map(abs).map(fail_on_3).map(abs), rf"\.map\(<fail_on_3 {HERE}>\)"),
    "above a prefetch": (lambda: numbers().map(fail_on_3).prefetch(2), rf"\.map\(<fail_on_3 {HERE}>\)"),
    "in a cycle": (lambda: numbers().map(fail_on_3).cycle(1), rf"\.map\(<fail_on_3 {HERE}>\)"),
    "of a fork": (lambda: numbers().fork(1)[0].map(fail_on_3), rf"\.map\(<fail_on_3 {HERE}>\)"),
    "second input": (lambda: numbers(2).concat(numbers().map(fail_on_3)), rf"\.map\(<fail_on_3 {HERE}>\)"),
    "above a user's class": (lambda: Passing(numbers().map(fail_on_3)), rf"\.map\(<fail_on_3 {HERE}>\)"),
}
"""A graph whose fourth element raises, and the stage that the note has to name."""


def stop_on_3(element: int) -> int:
    if element == 3:
        raise StopIteration
    return element


STOPS: dict[str, Callable[[], Any]] = {
    "map": lambda: numbers().map(stop_on_3),
    "filter": lambda: numbers().filter(lambda x: stop_on_3(x) == x),
    "flatmap": lambda: numbers().flatmap(lambda x: [stop_on_3(x)]),
    "demux": lambda: numbers().demux(1, lambda x: 0 * stop_on_3(x))[0],
    "collate": lambda: numbers().batch(1).collate(lambda batch: stop_on_3(batch[0])),
    "builtin": lambda: IterableWrapper([iter([i] * (i != 3)) for i in range(6)], deepcopy=False).map(next),
}
