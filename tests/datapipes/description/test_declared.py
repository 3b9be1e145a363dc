"""Operators declare their fields and their parents; what is derived from one may hold more."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from datapipes.description import structure
from datapipes.description.structure import parents, pipes_in, with_parents
from datapipes.iter import Batcher, Filter, IterableWrapper, IterDataPipe, Zipper
from loader2 import DataLoader2
from tests.specimens.catalogue import SPECIMENS


def test_an_operator_declares_where_its_parents_are() -> None:
    checked = set()
    for stage in structure.walk(*(specimen.pipe() for specimen in SPECIMENS)):
        if structure.is_native(stage) and type(stage).__module__.startswith(("datapipes.", "reading_services.")):
            checked.add(type(stage))
            declared = vars(type(stage)).get("_parents")
            assert declared is not None, f"{stage!r} is searched like a class of a user's"
            fields = type(stage).__dataclass_fields__
            elsewhere = [name for name in vars(stage) if name not in declared and name not in fields]
            assert not any(list(pipes_in(vars(stage)[name])) for name in elsewhere), f"{stage!r} holds more"
    assert len(checked) > 90


class Beside(Batcher[Any]):
    """A class of a user's, derived from an operator, that looks something up in another stream."""

    def __init__(self, datapipe: IterDataPipe[Any], beside: IterDataPipe[Any]) -> None:
        super().__init__(datapipe, 2)
        self.beside = beside


class Words(IterableWrapper[Any]):
    def __init__(self, words: Iterable[Any], others: list[Any]) -> None:
        super().__init__(words)
        self.others = others


def test_what_is_derived_from_an_operator_may_hold_more() -> None:
    a, b, c = (IterableWrapper([letter]) for letter in "abc")
    assert parents(Beside(a, b)) == [a, b]
    copy = with_parents(Beside(a, b), lambda parent: c)
    assert (copy.datapipe, copy.beside, copy.batch_size) == (c, c, 2)
    assert parents(Words([a], [b])) == [b]


def test_an_operator_is_called_as_its_fields_say() -> None:
    assert str(inspect.signature(Filter)).startswith("(datapipe: 'IterDataPipe[T_co]', filter_fn: 'Callable")
    assert list(inspect.signature(Filter).parameters)[2:] == ["input_col", "on_error", "max_errors"]
    with pytest.raises(TypeError, match=r"Filter.__init__\(\) missing 1 required positional argument: 'filter_fn'"):
        Filter(IterableWrapper([1]))  # type: ignore[call-arg]  # that is the test
    assert Zipper._parents == ("datapipes",)


def test_making_a_loader_is_a_few_calls_for_each_stage() -> None:
    def calls_of(graph: IterDataPipe[Any]) -> int:
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            DataLoader2(graph)
        finally:
            sys.setprofile(before)
        return calls

    def graph() -> IterDataPipe[Any]:
        return IterableWrapper(range(9)).shuffle().sharding_filter().map(str).filter(bool).batch(8).prefetch(2)

    calls_of(graph())  # a class is looked at when the first of its kind is met
    assert calls_of(graph()) <= 120
