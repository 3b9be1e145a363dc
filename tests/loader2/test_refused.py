"""Graphs that can never be opened are refused when the loader is made; a failing opening says where, however often."""

from __future__ import annotations

import inspect
import pickle
import pydoc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import torch

from datapipes import allow
from datapipes.errors import BadArgument, BadArgumentType, GraphError, UnsavableElement
from datapipes.graph import Pipe
from datapipes.iter import FileLister, IterableWrapper, IterDataPipe
from datapipes.position.iterator import iterate
from loader2 import DataLoader2
from loader2.torch_arguments import INSTEAD
from reading_services import MultiProcessingReadingService, ThreadingReadingService
from tests.datapipes.position.written_for_torchdata import Generator, SaysWhereItIs


def numbers() -> IterDataPipe[int]:
    return IterableWrapper(range(4))


class Refuses(SaysWhereItIs):
    """Cannot be started."""

    def reset(self) -> None:
        raise ValueError("no start")


@pytest.mark.parametrize("again", [lambda pipe: pipe.cycle(2), lambda pipe: pipe.in_memory_cache()])
@pytest.mark.parametrize("reads", [lambda pipe: pipe, Generator])
def test_what_goes_back_beside_a_sibling_is_refused(again: Callable[[Any], Pipe], reads: Callable[[Any], Any]) -> None:
    a, b = numbers().fork(2)
    pipe = reads(again(a)).zip(b)
    with pytest.raises(GraphError, match="one child of a fork"):
        DataLoader2(pipe)
    with pytest.raises(GraphError, match="one child of a fork"):
        iter(pipe)


def test_an_opening_that_fails_fails_alike_again_and_names_the_stage() -> None:
    loader: DataLoader2[Any] = DataLoader2(Refuses(SaysWhereItIs(numbers()).shuffle()).map(str))
    iterator = iter(loader)
    attempts: list[Callable[[], Any]] = [lambda: next(iterator), lambda: next(iterator), loader.state_dict]
    for attempt in attempts:
        with pytest.raises(ValueError, match="no start") as error:
            attempt()
        (note,) = error.value.__notes__
        assert note.startswith("raised in stage Refuses(")


def test_arguments_of_torchs_loader_are_refused_with_what_has_their_place() -> None:
    graph: Any = IterableWrapper(range(3))
    torchs: Any = {"batch_size": 2, "shuffle": True, "num_workers": 4}
    with pytest.raises(
        BadArgumentType, match=r"put \.batch\(2\) into .*\.shuffle\(\).*MultiProcessingReadingService\(4\)"
    ):
        DataLoader2(graph, **torchs)
    taken = set(inspect.signature(torch.utils.data.DataLoader.__init__).parameters) - {"self", "dataset", "in_order"}
    assert set(INSTEAD) <= taken

    class Own(DataLoader2[int]):
        def __init__(self, graph: Any, num_workers: int) -> None:
            super().__init__(graph.header(num_workers))

    assert list(Own(graph, num_workers=2)) == [0, 1]

    class Named(DataLoader2[int]):
        def __init__(self, data_pipe: Any, show_progress: bool = False) -> None:
            super().__init__(datapipe=data_pipe, progress=show_progress)

    assert list(Named(graph)) == [0, 1, 2]
    assert list(pickle.loads(pickle.dumps(DataLoader2(graph)))) == [0, 1, 2]


def test_help_and_signature_have_the_arguments_of_the_constructor() -> None:
    assert [*inspect.signature(DataLoader2).parameters] == [
        *("datapipe", "datapipe_adapter_fn", "reading_service", "progress")
    ]
    text = "".join(pydoc.plain(pydoc.render_doc(DataLoader2)).replace("|", " ").split())  # however it is broken
    assert "DataLoader2(datapipe:IterDataPipe" in text.replace("'", "")


# -- slips, each with what to write instead ----------------------------------------------------------------------------

Loader: Any = DataLoader2
Processes: Any = MultiProcessingReadingService
Threads: Any = ThreadingReadingService

SLIPS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a service without brackets": (
        lambda: Loader(numbers(), reading_service=MultiProcessingReadingService),
        BadArgumentType,
        r"MultiProcessingReadingService is a class: write MultiProcessingReadingService\(\.\.\.\)",
    ),
    "a number in place of a service": (
        lambda: Loader(numbers(), reading_service=4),
        BadArgumentType,
        r"write MultiProcessingReadingService\(4\)",
    ),
    "something else in place of a service": (
        lambda: Loader(numbers(), reading_service=object()),
        BadArgumentType,
        r"has no method initialize\(\)",
    ),
    "a seed for the loader": (
        lambda: Loader(numbers(), seed=3),
        BadArgumentType,
        r"there is no such argument; call dl\.seed\(3\)",
    ),
    "workers of a service": (
        lambda: Processes(workers=2),
        BadArgumentType,
        "did you mean num_workers=",
    ),
    "workers of threads": (
        lambda: Threads(workers=2),
        BadArgumentType,
        "did you mean num_workers=",
    ),
    "a service misspelt": (
        lambda: Loader(numbers(), readingservice=None),
        BadArgumentType,
        "did you mean reading_service=",
    ),
    "children of a fork": (
        lambda: Loader(numbers().fork(2)),
        BadArgumentType,
        r"load one of these pipes, or put them together first, as in a, b = graph\.fork\(2\); a\.zip\(b\)",
    ),
    "take of less than nothing": (lambda: numbers().take(-1), BadArgument, r"take\(-1\): .* 0 or more"),
    "collate without batch": (
        lambda: list(numbers().collate()),
        TypeError,
        r"put \.batch\(n\) above \.collate\(\)",
    ),
    "collate of dicts without batch": (
        lambda: list(IterableWrapper([{"x": 1}]).collate()),
        TypeError,
        r"of type dict, which is not a batch: put \.batch\(n\)",
    ),
    "unbatch of a record batch": (
        lambda: list(IterableWrapper([pyarrow.record_batch({"x": [1, 2]})]).unbatch()),
        IndexError,
        r"a RecordBatch becomes rows by \.flatmap\(lambda batch: batch\.to_pylist\(\)\)",
    ),
    "a pattern for a folder": (
        lambda: list(FileLister("*.nothing")),
        FileNotFoundError,
        r"write FileLister\('\.', '\*\.nothing'\)",
    ),
}


@pytest.mark.filterwarnings("ignore:list_files")
@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_refused_with_what_to_write_instead(slip: str) -> None:
    make, kind, says = SLIPS[slip]
    with pytest.raises(kind, match=says) as error:
        make()
    assert type(error.value) is kind


def test_the_remedies_work() -> None:
    a, b = numbers().fork(2)
    assert list(DataLoader2(a.zip(b))) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    batches = IterableWrapper([pyarrow.record_batch({"x": [1, 2]})])
    assert list(batches.flatmap(lambda batch: batch.to_pylist())) == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize("path", ["labels.csv", "images/a", "*.csv", "https://example.org/x"])
def test_the_letters_of_a_path_are_warned_of(path: str) -> None:
    with pytest.warns(UserWarning, match="gives the letters of this text") as told:
        IterableWrapper(path)
    assert f"write IterableWrapper([{path!r}])" in str(told[0].message)
    assert list(IterableWrapper("abc")) == ["a", "b", "c"]  # without a warning, which would be an error


def test_a_mask_without_a_wildcard_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    with pytest.warns(UserWarning, match=r"matches '\.csv'; a mask is a pattern of the whole name, such as '\*\.csv'"):
        assert list(FileLister(tmp_path, ".csv")) == []


def test_a_number_of_workers_is_kept_as_an_int() -> None:
    service = Processes(2.0)
    assert repr(service) == "MultiProcessingReadingService(num_workers=2)"


def test_memory_that_runs_out_names_the_buffer() -> None:
    def fail(element: int) -> int:
        if element == 7:
            raise MemoryError
        return element

    with pytest.raises(MemoryError) as error:
        list(IterableWrapper(range(9)).map(fail).shuffle(buffer_size=5))
    (note,) = error.value.__notes__
    assert "memory ran out while .shuffle(buffer_size=5) holds 5 elements; a smaller buffer takes less" in note


class Picture:
    """An element that makes itself again by code, as a picture of Pillow does."""

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)


@pytest.mark.parametrize("is_allowed", [False, True])
def test_what_cannot_be_allowed_is_advised_to_be_made_behind_the_buffer(is_allowed: bool) -> None:
    if is_allowed:
        allow(Picture)
    iterator = iterate(IterableWrapper([1, 2, 3]).filter(bool).map(lambda _: Picture()).shuffle(buffer_size=2))
    next(iterator)
    with pytest.raises(UnsavableElement, match=r"as in \.shuffle\(\)\.map\(decode\)") as error:
        iterator.state_dict()
    assert "allow it" not in str(error.value)
