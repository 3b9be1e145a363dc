"""Types that a user's type checker sees: the checker of this repository reads this file, and the tests run it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy
import pytest
import torch
from torch.utils.data import Dataset

from datapipes import iterate
from datapipes.elements.streams import StreamWrapper
from datapipes.iter import (
    CSVParser,
    FlatMapper,
    Header,
    HttpReader,
    IterableWrapper,
    IterDataPipe,
    Mapper,
    MapToIterConverter,
    MemoryCell,
    Mixer,
    Prefetcher,
    Rows2Columnar,
    ShardingFilter,
    Skipper,
    TarArchiveLoader,
)
from datapipes.map import MapDataPipe, SequenceWrapper
from datapipes.position.iterator import PipeIterator
from loader2 import DataLoader2
from loader2.iteration import DataLoader2Iterator
from reading_services import MultiProcessingReadingService


class Squares(Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index * index


def test_whatever_has_a_length_and_elements_can_be_wrapped() -> None:
    of_tensor = SequenceWrapper(torch.zeros(3, 2))
    assert_type(of_tensor, SequenceWrapper[torch.Tensor])
    of_dataset = SequenceWrapper(Squares())
    assert_type(of_dataset, SequenceWrapper[int])
    of_array = SequenceWrapper(numpy.zeros(3))
    assert_type(SequenceWrapper([1, 2]), SequenceWrapper[int])
    assert_type(SequenceWrapper({"a": 1.0}), SequenceWrapper[float])
    assert_type(of_tensor.to_iter_datapipe(), MapToIterConverter[torch.Tensor])
    assert (len(of_tensor), len(of_dataset), len(of_array)) == (3, 4, 3)
    for row in DataLoader2(of_tensor):
        assert_type(row, torch.Tensor)


class Countdown(IterDataPipe[int]):
    def __init__(self, start: int) -> None:
        self.start = start

    def __iter__(self) -> Iterator[int]:
        yield from range(self.start, 0, -1)


def test_an_iterator_can_say_where_it_is() -> None:
    for pipe in (IterableWrapper([3, 2, 1]), Countdown(3)):
        numbers = iterate(pipe)
        assert_type(numbers, PipeIterator[int])
        assert next(numbers) == 3
        again = iterate(pipe)
        again.load_state_dict(numbers.state_dict())
        assert (list(again), again.errors) == ([2, 1], {})
    assert_type(iter(Countdown(3)), Iterator[int])


def test_a_loader_gives_what_its_graph_gives() -> None:
    service = MultiProcessingReadingService(2, "fork")
    loader = DataLoader2(Countdown(3).sharding_filter(), reading_service=service)
    with loader:
        numbers = iter(loader)
        assert_type(numbers, DataLoader2Iterator[int])
        assert_type(next(numbers), int)
        assert_type(loader.state_dict(), dict[str, Any])
        assert_type(loader.errors, dict[str, int])


def joined(texts: list[str]) -> str:
    return " ".join(texts)


def test_batches_and_what_is_made_of_them_keep_the_type_of_their_elements() -> None:
    numbers, texts = IterableWrapper([1, 2, 3]), IterableWrapper(["a", "b", "c"])
    assert_type(numbers.batch(2), IterDataPipe[list[int]])
    assert_type(numbers.batch(2, drop_last=True).batch(3), IterDataPipe[list[list[int]]])
    assert_type(texts.batch(2, wrapper_class=joined), IterDataPipe[str])
    assert_type(texts.batch(2, False, joined), IterDataPipe[str])
    assert_type(texts.batch(2).collate(joined), IterDataPipe[str])
    assert_type(texts.batch(2).collate(collate_fn=joined), IterDataPipe[str])
    assert_type(texts.batch(2).collate(), IterDataPipe[Any])
    assert_type(texts.shuffle(buffer_size=2).batch(2).map(joined), Mapper[str])
    by_key = SequenceWrapper(["a", "b", "c"])
    assert_type(by_key.batch(2), MapDataPipe[list[str]])
    assert_type(by_key.batch(2, wrapper_class=joined), MapDataPipe[str])
    assert list(texts.batch(2).collate(joined)) == list(by_key.batch(2, wrapper_class=joined)) == ["a b", "c"]


def test_several_streams_in_one_keep_the_types_of_all() -> None:
    a, b, c = IterableWrapper([1]), IterableWrapper(["x"]), IterableWrapper([b"y"])
    assert_type(a.zip(b), IterDataPipe[tuple[int, str]])
    assert_type(a.zip(b, c), IterDataPipe[tuple[int, str, bytes]])
    assert_type(a.zip(b, c, a), IterDataPipe[tuple[int, str, bytes, int]])
    assert_type(a.zip(b, c, a, b), IterDataPipe[tuple[int, str, bytes, int, str]])
    assert_type(a.zip(a, a, a, a, a), IterDataPipe[tuple[Any, ...]])
    assert_type(a.zip(*[b, b]), IterDataPipe[tuple[Any, ...]])
    assert_type(a.mux(b), IterDataPipe[int | str])
    assert_type(a.mux(b, c), IterDataPipe[int | str | bytes])
    assert_type(a.mux_longest(b), IterDataPipe[int | str])
    assert_type(a.concat(b, c, b), IterDataPipe[int | str | bytes])
    assert_type(a.mux(a), IterDataPipe[int])
    d, e = SequenceWrapper([1]), SequenceWrapper(["x"])
    assert_type(d.zip(e), MapDataPipe[tuple[int, str]])
    assert_type(d.zip(e, e, d), MapDataPipe[tuple[int, str, str, int]])
    assert_type(d.concat(e), MapDataPipe[int | str])
    assert list(a.zip(b, c, a, b)) == [(1, "x", b"y", 1, "x")]


def test_a_slip_is_an_error_of_a_type_checker() -> None:
    numbers, by_key = IterableWrapper([1, 2, 3]), SequenceWrapper([1, 2, 3])
    assert len(numbers.batch(2)) == len(by_key.batch(2)) == 2  # every pipe may be asked for its length
    with pytest.raises(AttributeError, match="did you mean 'shuffle'"):
        numbers.shufle()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # on purpose
    with pytest.raises(AttributeError, match="did you mean 'shuffle'"):
        by_key.shufle()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # on purpose
    with pytest.raises(TypeError, match="buffer_size=100"):
        numbers.shuffle(100)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]  # on purpose
    with pytest.raises(TypeError, match="batch_size is a whole number"):
        numbers.batch("4")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]  # on purpose


def test_a_method_has_the_parameters_of_its_operator_and_gives_its_class() -> None:
    paths = IterableWrapper(["a.tar"])
    members = paths.open_files("rb").load_from_tar("r:*", max_bytes=1000)
    assert_type(members, TarArchiveLoader)
    assert_type(members.mode, str)
    assert_type(iter(members), Iterator[tuple[str, StreamWrapper]])
    assert_type(members.read_from_stream(chunk=1).rows2columnar(["x"]), Rows2Columnar)
    assert_type(paths.open_files().parse_csv(skip_lines=1, delimiter=";"), CSVParser)
    assert_type(paths.list_files("*.txt").read_from_http(timeout=(1, 2), verify=False), HttpReader)


def length_of(text: str) -> int:
    return len(text)


def test_a_method_hands_on_the_type_of_the_elements() -> None:
    numbers, texts = IterableWrapper([1, 2, 3]), IterableWrapper(["a", "b"])
    assert_type(numbers.header(2), Header[int])
    assert_type(numbers.take(2).skip(1), Skipper[int])
    assert_type(numbers.mix({texts: 2.0}, stop="first"), Mixer[int | str])
    assert_type(iter(numbers.sliding_window(2)), Iterator[list[int]])
    assert_type(texts.map(length_of).filter(bool).prefetch(), Prefetcher[int])
    assert_type(texts.threadpool_map(length_of, max_workers=1).memory_cell(), MemoryCell[int])
    assert_type(iter(texts.enumerate()), Iterator[tuple[int, str]])
    assert_type(texts.flatmap(str.splitlines), FlatMapper[str])
    assert_type(texts.fork(2), list[IterDataPipe[str]])
    assert_type(texts.demux(2, length_of, buffer_size=3)[0].sharding_filter(), ShardingFilter[str])
    assert_type(SequenceWrapper([1]).in_memory_cache()[0], int)
    assert_type(iter(SequenceWrapper(["a"]).shuffle().cycle(1)), Iterator[str])
    assert list(texts.map(length_of)) == [1, 1]


def test_a_slip_in_what_a_method_is_given_is_an_error_of_a_type_checker() -> None:
    numbers, paths = IterableWrapper([1, 2, 3]), IterableWrapper(["a.tar"])
    with pytest.raises(TypeError, match="did you mean 'limit'"):
        numbers.header(limt=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # on purpose
    with pytest.raises(TypeError, match="limit is a whole number"):
        numbers.header("3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(TypeError, match="skip_lines is a whole number"):
        paths.open_files().parse_csv(skip_lines="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(TypeError, match="num_instances"):
        numbers.fork()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # on purpose
    with pytest.raises(TypeError, match=r"load_from_tar\(\) needs tuples"):
        list(paths.load_from_tar())  # type: ignore[misc]  # on purpose; pyright lets it pass
    with pytest.raises(AttributeError, match="did you mean 'header'"):
        numbers.repeat(2).heder(3)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # on purpose
    with pytest.raises(AttributeError, match="has no attribute 'mod'"):
        paths.open_files().mod  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018  # on purpose


def test_another_type_checker_sees_the_same(tmp_path: Path) -> None:
    settings = {"enableTypeIgnoreComments": False, "reportUnnecessaryTypeIgnoreComment": "error"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    shutil.copy(__file__, tmp_path)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert ran.stdout.startswith("{"), ran.stderr
    report = json.loads(ran.stdout)
    assert report["generalDiagnostics"] == []
    assert report["summary"]["filesAnalyzed"] == 1
