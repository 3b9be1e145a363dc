"""A loader owns its graph, its service and its position: it takes copies, and lets go of everything when it should."""

from __future__ import annotations

import gc
import re
import threading
import tomllib
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, ClassVar

import cloudpickle
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import loader2
from datapipes.errors import BadArgumentType, LengthUnknown
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.map import SequenceWrapper
from loader2 import DataLoader2
from loader2.adapters import Shuffle
from reading_services import (
    DistributedReadingService,
    InProcessReadingService,
    MultiProcessingReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
    ThreadingReadingService,
)


def numbers(length: int) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


class Watched(IterDataPipe[int]):
    """Three numbers from a generator that tells when it was closed."""

    closed: ClassVar[list[str]] = []

    def __iter__(self) -> Iterator[int]:
        try:
            yield from range(3)
        finally:
            Watched.closed.append("closed")


@pytest.fixture
def closed() -> list[str]:
    Watched.closed.clear()
    return Watched.closed


# -- what it is given --------------------------------------------------------------------------------------------------


def test_graph_of_the_user_stays_as_it_is() -> None:
    source = numbers(6)
    graph: Any = source.shuffle(buffer_size=3).sharding_filter().batch(2)
    stages = [graph, graph.datapipe, graph.datapipe.source_datapipe, source]
    before = [dict(vars(stage)) for stage in stages]
    loader = DataLoader2(graph, Shuffle(False), InProcessReadingService(prefetch_cnt=2))
    assert [list(loader), list(loader)] == [[[0, 1], [2, 3], [4, 5]]] * 2
    loader.shutdown()
    assert [dict(vars(stage)) for stage in stages] == before
    assert loader.datapipe is not graph


def test_a_map_style_pipe_is_read_from_its_start() -> None:
    assert list(DataLoader2(SequenceWrapper("abc").map(str.upper))) == ["A", "B", "C"]


class Squares(Dataset[int]):
    """A data set that is computed, and so has an element at every index."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, i: int) -> int:
        return i * i


def test_a_map_style_dataset_of_torch_is_read_from_its_start() -> None:
    dataset = Squares()
    loader = DataLoader2(dataset)
    assert loader.datapipe.datapipe.sequence is dataset
    assert len(loader) == 5
    assert list(islice(loader, 3)) == [0, 1, 4]
    resumed = DataLoader2(Squares())
    resumed.load_state_dict(loader.state_dict())
    assert list(islice(resumed, 9)) == [9, 16]
    tensors: Any = DataLoader2(TensorDataset(torch.arange(3)))
    assert list(tensors) == [(0,), (1,), (2,)]


class Endless(IterableDataset[int]):
    """An iterable data set of torch."""

    def __iter__(self) -> Iterator[int]:
        return count()


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (Endless(), "got Endless: .*; wrap it in IterableWrapper"),
        ([1, 2], r"got list: \[1, 2\]; wrap it in IterableWrapper"),
        (None, "a state holds no graph"),
    ],
)
def test_what_is_no_graph_is_refused(given: Any, advice: str) -> None:
    with pytest.raises(BadArgumentType, match=advice):
        DataLoader2(given)


def test_public_attributes() -> None:
    loader = DataLoader2(numbers(3).shuffle(), Shuffle(False))
    assert loader.reading_service is None
    assert [type(adapter) for adapter in loader.datapipe_adapter_fns or ()] == [Shuffle]
    assert DataLoader2(numbers(3)).datapipe_adapter_fns is None
    assert repr(loader) == "DataLoader2(IterableWrapper(range(0, 3)).shuffle())"
    served = DataLoader2(numbers(3), reading_service=InProcessReadingService())
    assert repr(served) == "DataLoader2(IterableWrapper(range(0, 3)), reading_service=InProcessReadingService())"


def test_two_loaders_of_one_graph_and_one_service_are_independent() -> None:
    graph = numbers(20).shuffle()
    service = InProcessReadingService(prefetch_cnt=2)
    service.kept = ["as it was"]  # type: ignore[attr-defined]  # users' services have attributes of their own
    loaders = [DataLoader2(graph, reading_service=service) for _ in range(2)]
    for loader in loaders:
        loader.seed(5)
    first, second = map(iter, loaders)
    alone = next(first), next(first)
    loaders[1].reading_service.kept.append("changed")  # type: ignore[union-attr]  # as above, on the copy
    assert (next(second), next(second)) == alone
    loaders[0].shutdown()
    assert sorted([*alone, *second]) == list(range(20))
    assert service.kept == ["as it was"]  # type: ignore[attr-defined]  # as above
    loaders[1].shutdown()


def test_a_service_that_cannot_be_copied_is_refused() -> None:
    class Locked(ReadingServiceInterface):
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def initialize(self, datapipe: Any) -> Any:
            return datapipe

    with pytest.raises(
        BadArgumentType, match=r"Locked cannot be copied \(.*lock.*\); open objects that cannot be copied in i"
    ):
        DataLoader2(numbers(1), reading_service=Locked())


# -- epochs and iterators ----------------------------------------------------------------------------------------------


def test_each_epoch_is_complete() -> None:
    loader = DataLoader2(numbers(4))
    assert loader.valid_iterator_id is None
    for epoch in range(3):
        assert list(loader) == [0, 1, 2, 3]
        assert loader.valid_iterator_id == epoch


@pytest.mark.parametrize("elements", [[], [None], [None, 0, False]])
def test_any_element_is_data(elements: list[Any]) -> None:
    loader = DataLoader2(IterableWrapper(elements).map(lambda x: x))
    assert [list(loader), list(loader)] == [elements, elements]


def test_a_loop_that_is_left_is_followed_by_a_whole_epoch() -> None:
    loader = DataLoader2(numbers(9))
    for element in loader:
        if element == 2:
            break
    assert list(loader) == list(range(9))


def test_position_outlives_the_iterator() -> None:
    """``for x in loader: ... break`` drops the iterator at once; the loader still knows where it was."""
    loader = DataLoader2(numbers(9).shuffle(buffer_size=4).prefetch(2))
    loader.seed(1)
    whole = list(loader)
    loader.seed(1)
    for position, _ in enumerate(loader):
        if position == 3:
            break
    gc.collect()
    assert (
        list(DataLoader2.from_state(loader.state_dict(), datapipe=numbers(9).shuffle(buffer_size=4).prefetch(2)))
        == (whole[4:])
    )
    loader.shutdown()


@pytest.mark.parametrize("service", [None, InProcessReadingService(), InProcessReadingService(prefetch_cnt=3)])
def test_a_loader_lives_as_long_as_its_iterator(service: InProcessReadingService | None) -> None:
    # The loop refers to the iterator, and nothing refers to the loader.
    assert [element for element in DataLoader2(numbers(30), reading_service=service)] == list(range(30))  # noqa: C416 - list() would hold the loader


def test_an_exception_ends_neither_the_epoch_nor_the_loader() -> None:
    loader = DataLoader2(numbers(4).map(lambda x: 6 // (x - 1)))
    for _ in range(2):
        iterator = iter(loader)
        assert next(iterator) == -6
        with pytest.raises(ZeroDivisionError):
            next(iterator)
        assert list(iterator) == [6, 3]


# -- length ------------------------------------------------------------------------------------------------------------


def test_length_is_that_of_the_adapted_graph_and_then_of_what_the_service_made_of_it() -> None:
    loader: DataLoader2[Any] = DataLoader2(
        numbers(10), lambda pipe: pipe.batch(3), InProcessReadingService(init_fn=lambda pipe, info: pipe.header(2))
    )
    assert len(loader) == 4
    assert list(loader) == [[0, 1, 2], [3, 4, 5]]
    assert len(loader) == 2


def test_unknown_length_is_a_type_error() -> None:
    loader = DataLoader2(numbers(4).filter(lambda x: x > 1))
    with pytest.raises(TypeError, match=r"length of this DataLoader2 is not known beforehand: .*Filter"):
        len(loader)
    assert list(loader) == [2, 3]


# -- the end -----------------------------------------------------------------------------------------------------------


def test_shutdown_ends_everything_once(closed: list[str]) -> None:
    loader = DataLoader2(Watched().prefetch(1))
    iterator = iter(loader)
    assert next(iterator) == 0
    loader.shutdown()
    assert closed == ["closed"]
    loader.shutdown()
    assert closed == ["closed"]
    with pytest.raises(RuntimeError, match=r"has already been shut down; make a new one"):
        iter(loader)


def test_the_end_of_an_epoch_closes_what_has_not_come_to_its_end(closed: list[str]) -> None:
    loader = DataLoader2(numbers(1).zip(Watched().prefetch(1)))
    assert list(loader) == [(0, 0)]
    assert closed == ["closed"]


def test_with_shuts_down(closed: list[str]) -> None:
    loader = DataLoader2(Watched())

    def failing() -> None:
        with loader:
            for element in loader:
                raise KeyError(element)

    with pytest.raises(KeyError):
        failing()
    assert closed == ["closed"]
    with pytest.raises(RuntimeError, match="already been shut down"):
        iter(loader)


@pytest.mark.parametrize("graph", [numbers(5), numbers(5).map(str), Watched()], ids=str)
def test_an_iterator_that_had_more_to_give_says_that_its_loader_was_shut_down(graph: IterDataPipe[Any]) -> None:
    with DataLoader2(graph) as loader:
        iterator = iter(loader)
        next(iterator)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shut down, before the end of the epoch: leave the loop before"):
            next(iterator)


def test_an_iterator_at_its_end_stays_there_after_shutdown() -> None:
    with DataLoader2(numbers(2)) as loader:
        iterator = iter(loader)
        assert list(iterator) == [0, 1]
    assert list(iterator) == []


def test_deletion_shuts_down(closed: list[str]) -> None:
    loader = DataLoader2(Watched().prefetch(1))
    iterator = iter(loader)
    next(iterator)
    del loader
    assert closed == []
    del iterator
    assert closed == ["closed"]


def test_a_new_epoch_closes_the_one_that_was_left(closed: list[str]) -> None:
    loader = DataLoader2(Watched())
    next(iter(loader))
    assert closed == []
    next(iter(loader))
    assert closed == ["closed"]


# -- pickling ----------------------------------------------------------------------------------------------------------


def test_a_loader_is_pickled_before_it_is_iterated() -> None:
    loader = DataLoader2(
        numbers(8).shuffle().map(lambda x: 10 * x), [Shuffle(True)], InProcessReadingService(prefetch_cnt=1)
    )
    loader.seed(3)
    again: DataLoader2[int] = cloudpickle.loads(cloudpickle.dumps(loader))
    expected = list(loader)
    assert list(again) == expected
    assert expected != sorted(expected)
    for each in (loader, again):
        each.shutdown()
    with pytest.raises(TypeError, match=r"was iterated cannot be pickled or copied; .* save its position with state_d"):
        cloudpickle.dumps(loader)


# -- no service --------------------------------------------------------------------------------------------------------


def test_without_a_service_a_graph_runs_as_it_does_in_process() -> None:
    orders = []
    for service in (None, InProcessReadingService(), InProcessReadingService(prefetch_cnt=5)):
        with DataLoader2(numbers(30).shuffle().sharding_filter().shuffle(), reading_service=service) as loader:
            loader.seed(11)
            orders.append([list(loader), list(loader)])
    assert orders[0] == orders[1] == orders[2]
    assert orders[0][0] != orders[0][1]


def test_seeded_loaders_leave_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    loader = DataLoader2(numbers(30).shuffle())
    loader.seed(4)
    list(loader)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_stage_that_does_not_know_its_length_is_named() -> None:
    unknown = numbers(9).filter(abs)
    for graph in (unknown, unknown.batch(2), unknown.enumerate().shuffle(), numbers(9).zip(unknown.header(None))):
        for service in (None, InProcessReadingService(), ThreadingReadingService(2)):
            with pytest.raises(LengthUnknown, match=r"\.filter\(abs\).*\.set_length\(n\) below that stage") as caught:
                len(DataLoader2(graph.sharding_filter(), reading_service=service))
            assert caught.value.stage in (".filter(abs)", ".header(limit=None)")
    assert len(DataLoader2(unknown.set_length(8).batch(2))) == 4
    lossy = numbers(9).map(str, on_error="skip")
    for loader in (DataLoader2(lossy), DataLoader2(lossy.batch(2))):
        with pytest.raises(LengthUnknown, match="of this DataLoader2 is not known beforehand") as caught:
            len(loader)
        assert caught.value.stage == ".map(str, on_error='skip')"


def prepared(datapipe: Any, info: Any) -> Any:
    return datapipe


class OfAUser(ReadingServiceInterface):
    def __init__(self, size: int, name: str = "x") -> None:
        self.size = size
        self._name = name

    def initialize(self, datapipe: Any) -> Any:
        return datapipe


def test_a_service_prints_as_the_call_that_makes_it() -> None:
    workers = MultiProcessingReadingService(2, "fork", worker_init_fn=prepared)
    chain = SequentialReadingService(DistributedReadingService(timeout=5), workers, OfAUser(3, name="y"))
    assert re.sub(r"<prepared at test_loader\.py:\d+>", "prepared", repr(chain)) == (
        "SequentialReadingService(DistributedReadingService(timeout=5), "
        "MultiProcessingReadingService(num_workers=2, multiprocessing_context='fork', worker_init_fn=prepared), "
        "OfAUser(3, name='y'))"
    )
    assert repr(ThreadingReadingService(2, in_order=False)) == "ThreadingReadingService(2, in_order=False)"
    assert repr(InProcessReadingService()) == "InProcessReadingService()"


def test_the_number_of_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((Path(loader2.__file__).parents[1] / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "loader2.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", loader2.__version__)
