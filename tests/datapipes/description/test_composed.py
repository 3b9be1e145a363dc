"""Operators that are functions: their results belong to them alone."""

from __future__ import annotations

import copy
import inspect
import pydoc
from typing import Any

import pytest

from datapipes.iter import (
    BatchAsyncMapper,
    Demultiplexer,
    Forker,
    IterableWrapper,
    Mapper,
    RoundRobinDemultiplexer,
    UnZipper,
)
from datapipes.map import Mapper as MapMapper
from datapipes.map import SequenceWrapper
from datapipes.map import UnZipper as MapUnZipper

OPERATORS: Any = (Forker, Demultiplexer, RoundRobinDemultiplexer, UnZipper, MapUnZipper, BatchAsyncMapper)


def made_by(stage: Any) -> list[Any]:
    return [operator for operator in OPERATORS if isinstance(stage, operator)]


def test_a_stage_belongs_to_the_operator_that_gave_it() -> None:
    pairs: Any = IterableWrapper([("a", 1), ("b", 2)])
    assert [made_by(child) for child in pairs.fork(2)] == [[Forker], [Forker]]
    assert made_by(Demultiplexer(pairs, 2, len)[1]) == [Demultiplexer]
    assert made_by(pairs.round_robin_demux(2)[0]) == [RoundRobinDemultiplexer]
    column = pairs.unzip(2)[0]
    assert (made_by(column), type(column)) == ([UnZipper], Mapper)
    [by_key, _] = SequenceWrapper([("a", 1)]).unzip(2)
    assert (made_by(by_key), type(by_key)) == ([MapUnZipper], MapMapper)
    assert made_by(pairs) == made_by(pairs.map(str)) == made_by("a") == []


def test_copies_know_it_as_well() -> None:
    child = IterableWrapper([1]).fork(2)[1]
    assert made_by(copy.copy(child)) == made_by(copy.deepcopy(child)) == [Forker]
    assert repr(child) == "IterableWrapper([1]).fork(2)[1]"


def test_what_was_there_before_is_nobodys() -> None:
    source = IterableWrapper([1])
    with pytest.warns(UserWarning, match="distributes nothing"):
        [given] = RoundRobinDemultiplexer(datapipe=source, num_instances=1)
    assert given is source
    assert made_by(source) == []


def test_it_looks_as_it_is_written() -> None:
    assert str(inspect.signature(MapUnZipper)).startswith(
        "(source_datapipe: 'MapDataPipe[Any]', sequence_length: 'int',"
    )
    assert inspect.getsource(Forker).startswith("@composed\ndef Forker(")
    assert inspect.isclass(Forker)
    assert "streams of the same elements" in pydoc.plain(pydoc.render_doc(Forker))
    with pytest.raises(TypeError, match=r"Forker\(\) missing 1 required positional argument: 'num_instances'"):
        Forker(IterableWrapper([1]))  # type: ignore[call-arg]  # on purpose
