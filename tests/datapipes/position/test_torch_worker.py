"""torch's DataLoader and torchdata's StatefulDataLoader load pipes rightly, with worker processes of their own."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

import pytest
import torch
import torch.utils.data.datapipes.iter as torch_pipes
from torch.utils.data import ChainDataset, DataLoader, IterableDataset, get_worker_info
from torchdata.stateful_dataloader import StatefulDataLoader

from datapipes.errors import BadArgument
from datapipes.graph import SHARDING_PRIORITIES, Pipe, apply_sharding, walk
from datapipes.iter import IterableWrapper, IterDataPipe, Mapper
from datapipes.map import SequenceWrapper
from tests.datapipes.position.written_for_torchdata import (
    Generator,
    InPairs,
    ItsOwnIterator,
    Noisy,
    OfTorch,
    TakesAPart,
)
from tests.many_ranks import on_ranks

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # more workers than this machine has cores
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),  # torchdata calls it
]

LENGTH = 20

batches = pytest.mark.parametrize("batch_size", [None, 4])


def numbers() -> IterDataPipe[int]:
    return IterableWrapper(range(LENGTH))


def sharded() -> IterDataPipe[int]:
    return numbers().shuffle().sharding_filter()


def of_torch(pipe: Pipe) -> Any:
    return OfTorch(pipe)


def is_small(number: int) -> bool:
    return number < 5


def is_large(number: int) -> bool:
    return number >= 5


SHARDED: dict[str, Callable[[], Any]] = {
    "operators": lambda: sharded().map(abs).batch(3).unbatch(),
    "a user's class at the end": lambda: Generator(sharded()),
    "a user's class in the middle": lambda: ItsOwnIterator(sharded()).map(abs),
    "a user's class that shards": lambda: TakesAPart(numbers().shuffle()),
    "a class of torch's kind at the end": lambda: OfTorch(sharded()),
    "a class of torch's kind in the middle": lambda: Mapper(of_torch(sharded()), abs),
    "a collection": lambda: SequenceWrapper(range(LENGTH)).shuffle().sharding_filter(),
    "a class derived from an operator": lambda: InPairs(sharded()).unbatch(0).flatmap(),
    "a sum of pipes": lambda: sharded().filter(is_small) + sharded().filter(is_large),
}
UNSHARDED: dict[str, Callable[[], Any]] = {
    "operators": lambda: numbers().shuffle().map(abs),
    "a user's class at the end": lambda: Generator(numbers().shuffle()),
    "a class of torch's kind at the end": lambda: OfTorch(numbers().shuffle()),
    "a sum of pipes": lambda: numbers().shuffle().filter(is_small) + numbers().filter(is_large),
    "a stream by key": lambda: numbers().enumerate().to_map_datapipe().to_iter_datapipe(),
}


@pytest.fixture
def forked() -> Iterator[None]:
    """Let workers be forks, whose functions need no pickle and whose warnings and output are the test's."""
    usual = multiprocessing.get_start_method()
    multiprocessing.set_start_method("fork", force=True)
    yield
    multiprocessing.set_start_method(usual, force=True)


def flat(loader: DataLoader[Any]) -> list[Any]:
    """The elements of a loader, out of their batches."""
    return [int(x) for batch in loader for x in torch.as_tensor(batch).flatten()]


def seeded(build: Callable[[], Any], seed: int, **options: Any) -> list[list[int]]:
    """Two epochs of a new loader."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        loader: DataLoader[Any] = DataLoader(build(), **options)
        return [flat(loader), flat(loader)]


@pytest.mark.parametrize(("num_workers", "batch_size"), [(0, None), (0, 4), (1, None), (2, None), (2, 4), (3, 4)])
@pytest.mark.parametrize("build", SHARDED.values(), ids=SHARDED.keys())
def test_each_element_comes_once_in_an_order_that_the_seed_decides(
    build: Callable[[], Any], num_workers: int, batch_size: int | None
) -> None:
    epochs = seeded(build, 1, num_workers=num_workers, batch_size=batch_size)
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(LENGTH))
    assert epochs[0] != epochs[1]
    assert epochs == seeded(build, 1, num_workers=num_workers, batch_size=batch_size)


@pytest.mark.parametrize("num_workers", [2, 3])
def test_all_workers_shuffle_alike(num_workers: int) -> None:
    numbered = numbers().shuffle().enumerate().sharding_filter()
    loader: DataLoader[Any] = DataLoader(numbered, batch_size=None, num_workers=num_workers)
    rows = list(loader)
    assert [number for number, _ in rows] == list(range(LENGTH))
    assert [element for _, element in rows] != list(range(LENGTH))


def test_below_the_sharding_workers_differ() -> None:
    pipe = Noisy(sharded()).map(itemgetter(1)).batch(10).shuffle()
    loader: DataLoader[Any] = DataLoader(pipe, batch_size=None, num_workers=2, collate_fn=list)
    drawn = [number for batch in loader for number in batch]
    assert len(set(drawn)) == LENGTH


@pytest.mark.parametrize("num_workers", [0, 1, 2, 3])
@pytest.mark.parametrize("build", UNSHARDED.values(), ids=UNSHARDED.keys())
@pytest.mark.filterwarnings("ignore:.*has no sharding_filter")
def test_without_a_sharding_filter_each_worker_gives_all(build: Callable[[], Any], num_workers: int) -> None:
    for epoch in seeded(build, 1, num_workers=num_workers, batch_size=None):
        assert sorted(epoch) == sorted([*range(LENGTH)] * max(num_workers, 1))


class TakesItsPart(IterDataPipe[int]):
    """Written as torch's documents show it: the class looks up which worker it is in."""

    def __init__(self, length: int, start: int = 0) -> None:
        self.start, self.length = start, length

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        yield from range(self.start + worker, self.length, workers)


class TorchsOwn(IterableDataset[int]):
    """The same, and no pipe at all."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        yield from range(LENGTH) if info is None else range(info.id, LENGTH, info.num_workers)


class Bounds(IterDataPipe[int]):
    """Is given its part by a ``worker_init_fn``, which is the other way that torch's documents show."""

    def __init__(self) -> None:
        self.start, self.end = 0, LENGTH

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.end))


def divide(worker: int) -> None:
    """Give a worker's copy of ``Bounds`` its part."""
    info = get_worker_info()
    assert info is not None
    end: Any = info.dataset
    while not isinstance(end, Bounds):
        end = end.datapipe
    each = -(-LENGTH // info.num_workers)
    end.start, end.end = worker * each, min((worker + 1) * each, LENGTH)


def is_mine(number: int) -> bool:
    """Whether an element is this worker's."""
    info = get_worker_info()
    return info is None or number % info.num_workers == info.id


SHARDING_ITSELF: dict[str, tuple[Callable[[], Any], Callable[[int], None] | None]] = {
    "a class at the end": (lambda: TakesItsPart(LENGTH), None),
    "a class in the middle": (lambda: TakesItsPart(LENGTH).map(abs).batch(3).unbatch(), None),
    "a class behind a class": (lambda: Generator(TakesItsPart(LENGTH)), None),
    "a dataset of torch's in a wrapper": (lambda: IterableWrapper(TorchsOwn(), deepcopy=False).shuffle(), None),
    "a generator that reads one": (lambda: IterableWrapper([LENGTH]).flatmap(TakesItsPart), None),
    "a function": (lambda: numbers().filter(is_mine), None),
    "a function in a function": (lambda: numbers().filter(lambda x: is_mine(x)), None),
    "a sum of pipes": (lambda: TakesItsPart(5) + TakesItsPart(LENGTH, start=5), None),
    "a worker_init_fn": (lambda: Bounds().map(abs), divide),
}


@pytest.mark.usefixtures("forked")
@pytest.mark.filterwarnings("ignore:.*has no sharding_filter")
@pytest.mark.parametrize("num_workers", [0, 1, 2, 3])
@pytest.mark.parametrize(("build", "init"), SHARDING_ITSELF.values(), ids=SHARDING_ITSELF.keys())
def test_who_shards_himself_loses_nothing(
    build: Callable[[], Any], init: Callable[[int], None] | None, num_workers: int
) -> None:
    for epoch in seeded(build, 1, num_workers=num_workers, batch_size=None, worker_init_fn=init):
        assert sorted(epoch) == list(range(LENGTH))


@pytest.mark.parametrize("name", ["a class in the middle", "a dataset of torch's in a wrapper", "a function"])
def test_who_shards_himself_as_torch_shows_is_not_warned(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    build, _ = SHARDING_ITSELF[name]
    loader: DataLoader[Any] = DataLoader(build(), batch_size=None, num_workers=2, worker_init_fn=warn_aloud)
    assert sorted(loader) == list(range(LENGTH))
    assert "sharding_filter" not in capfd.readouterr().err


def warn_aloud(worker: int) -> None:
    """Print warnings, which a worker would hand to a recorder that pytest has in the parent's process."""
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, *where, **how: print(message, file=sys.__stderr__, flush=True)


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("build", UNSHARDED.values(), ids=UNSHARDED.keys())
def test_without_a_sharding_filter_one_worker_warns(
    build: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    loader: DataLoader[Any] = DataLoader(build(), batch_size=None, num_workers=3, worker_init_fn=warn_aloud)
    assert sorted(loader) == sorted([*range(LENGTH)] * 3)
    said = capfd.readouterr().err
    expected = 2 if isinstance(loader.dataset, ChainDataset) else 1  # one for each of its parts
    assert said.count("has no sharding_filter(): each of the 3 workers gives all of it, so every element") == expected
    assert "IterableWrapper(range(0, 20))" in said


def error_of(loader: Iterable[Any]) -> str:
    """The error that a loader raises, as text: the traceback of the error itself would keep the workers alive."""
    try:
        list(loader)
    except (ValueError, UserWarning) as error:
        told = "".join(traceback.format_exception(error))
        traceback.clear_frames(error.__traceback__)
        return told
    raise AssertionError("there was no error")


@pytest.mark.usefixtures("forked")
def test_the_warning_can_be_an_error() -> None:
    assert "UserWarning: " in error_of(DataLoader(numbers(), batch_size=None, num_workers=2))
    assert list(DataLoader(numbers(), batch_size=None, num_workers=1)) == list(range(LENGTH))


@pytest.mark.usefixtures("forked")
def test_what_a_function_reads_besides_is_not_sharded() -> None:
    beside = numbers().batch(10).map(sum)
    loader: DataLoader[Any] = DataLoader(sharded().map(lambda x: list(beside)), batch_size=None, num_workers=2)
    assert list(loader) == [[45, 145]] * LENGTH


@pytest.mark.parametrize("build", [SHARDED["operators"], SHARDED["a user's class at the end"]])
def test_persistent_workers_shuffle_anew_each_epoch(build: Callable[[], Any]) -> None:
    loader: DataLoader[Any] = DataLoader(build(), batch_size=None, num_workers=2, persistent_workers=True)
    epochs = [flat(loader) for _ in range(3)]
    assert all(sorted(epoch) == list(range(LENGTH)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_map_style_pipes_are_shuffled_by_the_loader(num_workers: int) -> None:
    collections: list[Any] = [
        SequenceWrapper(range(LENGTH)).map(abs),
        numbers().sharding_filter().enumerate().to_map_datapipe(),
        SequenceWrapper(range(LENGTH // 2)).concat(SequenceWrapper(range(LENGTH // 2, LENGTH))).in_memory_cache(),
    ]
    for pipe in collections:
        loader: DataLoader[Any] = DataLoader(pipe, batch_size=3, shuffle=True, num_workers=num_workers)
        epochs = [flat(loader), flat(loader)]
        assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(LENGTH))
        assert epochs[0] != epochs[1] != list(range(LENGTH))


def refuse(number: int) -> int:
    if number == 11:
        raise ValueError(f"no {number}, please")
    return number


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("shape", [None, Generator, OfTorch])
def test_an_error_in_a_worker_surfaces_with_its_stage(num_workers: int, shape: Callable[[Pipe], Any] | None) -> None:
    pipe: Any = numbers().sharding_filter().map(refuse)
    loader: DataLoader[Any] = DataLoader(pipe if shape is None else shape(pipe), 5, num_workers=num_workers)
    told = error_of(loader)
    assert "ValueError: " in told
    assert "no 11, please" in told
    assert "raised in stage .map(<refuse at test_torch_worker.py:" in told


def test_workers_that_are_spawned_get_the_graph_by_pickle() -> None:
    loader: DataLoader[Any] = DataLoader(
        Generator(numbers().sharding_filter().map(abs)), batch_size=None, num_workers=1, multiprocessing_context="spawn"
    )
    assert list(loader) == list(range(LENGTH))


# -- shuffle= ----------------------------------------------------------------------------------------------------------

SWITCHED = {
    name: SHARDED[name]
    for name in (
        *("operators", "a user's class in the middle", "a class of torch's kind at the end", "a collection"),
        *("a class of torch's kind in the middle", "a class derived from an operator"),
    )
}


@pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("build", SWITCHED.values(), ids=SWITCHED.keys())
def test_a_loader_switches_shuffles_on_and_off(build: Callable[[], Any], num_workers: int, loader: Any) -> None:
    graph = build()
    before = repr(graph), [dict(vars(stage)) for stage in walk(graph)]
    how = {"batch_size": None, "num_workers": num_workers}
    switched_off = loader(graph, shuffle=False, **how)
    assert [flat(switched_off), flat(switched_off)] == [list(range(LENGTH))] * 2
    switched_on = loader(switched_off.dataset, None, True, num_workers=num_workers)
    epochs = [flat(switched_on), flat(switched_on)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(LENGTH))
    assert epochs[0] != epochs[1] != list(range(LENGTH))
    assert (repr(graph), [dict(vars(stage)) for stage in walk(graph)]) == before
    assert flat(loader(graph, **how)) != list(range(LENGTH))


@pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
def test_a_graph_without_a_shuffle_is_not_shuffled(loader: Any) -> None:
    graph = numbers().sharding_filter()
    assert loader(graph, shuffle=False).dataset is graph
    assert flat(loader(graph, shuffle=False)) == list(range(LENGTH))
    with pytest.raises(BadArgument, match=r"there is none in .*: put \.shuffle\(\) into the graph, above"):
        loader(graph, shuffle=True)
    with pytest.raises(BadArgument, match=r"there is none in "):
        loader(of_torch(graph), shuffle=True)


def test_what_holds_no_pipe_of_ours_is_torchs_affair() -> None:
    class Uncounted(DataLoader[Any]):
        """A user's loader, whose own arguments stay as they are."""

        def __init__(self, dataset: Any, shuffle: bool) -> None:
            self.asked = shuffle
            super().__init__(dataset, batch_size=None, shuffle=shuffle)

    plain: Any = [3, 1, 2]
    assert sorted(DataLoader(plain, shuffle=True)) == [1, 2, 3]
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        DataLoader(TorchsOwn(), shuffle=True)
    mine = Uncounted(sharded(), shuffle=True)
    assert mine.asked
    assert sorted(mine) == list(range(LENGTH))
    torchs: Any = torch_pipes.IterableWrapper(range(3))
    assert list(DataLoader(torchs.shuffle(), batch_size=None, shuffle=False)) == [0, 1, 2]


@pytest.mark.parametrize(
    "modules", ["torchdata.stateful_dataloader, datapipes", "datapipes, torchdata.stateful_dataloader"]
)
def test_the_stateful_loader_may_be_imported_before_and_after(modules: str) -> None:
    program = (
        f"import {modules}\n"
        "graph = datapipes.iter.IterableWrapper(range(9)).shuffle()\n"
        "print(list(torchdata.stateful_dataloader.StatefulDataLoader(graph, None, shuffle=False)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == f"{list(range(9))}\n"


# -- seeds of the user's -----------------------------------------------------------------------------------------------


def pinned() -> Any:
    return numbers().shuffle().set_seed(5)


PINNED: dict[str, Callable[[Any], Any]] = {
    "operators": lambda pipe: pipe.sharding_filter().map(abs),
    "a user's class": lambda pipe: Generator(pipe.sharding_filter()),
    "a class of torch's kind": lambda pipe: OfTorch(pipe.sharding_filter()),
    "a chain of data sets": lambda pipe: ChainDataset([pipe.sharding_filter()]),
}
IN_WORKERS: dict[str, dict[str, Any]] = {
    "no workers": {},
    "workers of one epoch": {"num_workers": 2},
    "persistent workers": {"num_workers": 2, "persistent_workers": True},
}


@pytest.mark.parametrize("options", IN_WORKERS.values(), ids=IN_WORKERS)
@pytest.mark.parametrize("above", PINNED.values(), ids=PINNED)
@pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
def test_a_pinned_seed_gives_each_epoch_an_order_and_the_same_ones_again(
    loader: Any, above: Callable[[Any], Any], options: dict[str, Any]
) -> None:
    pipe = pinned()
    passes = [list(pipe) for _ in range(4)]
    assert passes[0] != passes[1] != passes[2] != passes[0]
    end = above(pipe)
    for _ in range(2):
        pipe.set_seed(5)
        assert list(pipe) == passes[0]
        through = loader(end, batch_size=None, **options)
        assert [flat(through) for _ in range(2)] == passes[1:3]
        del through  # and its workers
        assert "persistent_workers" in options or list(pipe) == passes[3]


def test_workers_that_are_spawned_are_told_the_number_of_the_epoch() -> None:
    pipe = pinned()
    passes = [list(pipe) for _ in range(2)]
    loader: Any = DataLoader(pipe.set_seed(5), batch_size=None, num_workers=1, multiprocessing_context="spawn")
    assert [flat(loader) for _ in range(2)] == passes


def test_persistent_workers_count_on_from_a_position_with_a_pinned_seed() -> None:
    passes = [list(pipe) for pipe in [pinned()] for _ in range(3)]
    pipe = pinned()
    list(pipe)
    elements, states = epoch_with_states(StatefulDataLoader(pipe.sharding_filter(), batch_size=None, num_workers=2))
    assert elements == list(map(str, passes[1]))
    resumed: Any = StatefulDataLoader(
        pinned().sharding_filter(), batch_size=None, num_workers=2, persistent_workers=True
    )
    resumed.load_state_dict(states[6])
    assert [list(resumed), list(resumed)] == [passes[1][7:], passes[2]]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("above", PINNED.values(), ids=PINNED)
def test_the_generator_of_a_loader_decides_the_order(num_workers: int, above: Callable[[Any], Any]) -> None:
    def epochs(seed: int, end: Any) -> list[list[int]]:
        generator = torch.Generator().manual_seed(seed)
        loader: Any = DataLoader(end, batch_size=None, num_workers=num_workers, generator=generator)
        return [flat(loader), flat(loader)]

    end = above(numbers().shuffle())
    torch.manual_seed(0)
    first, second = epochs(1, end)
    assert first != second
    torch.manual_seed(2)
    assert epochs(1, end) == epochs(1, above(numbers().shuffle())) == [first, second]
    assert epochs(3, end) != [first, second]
    before = torch.get_rng_state()
    if num_workers == 0:
        epochs(1, end)
        assert torch.equal(before, torch.get_rng_state())
    without: Any = DataLoader(end, batch_size=None)
    assert flat(without) not in (first, second)


# -- lengths ----------------------------------------------------------------------------------------------------------


class Doubled(IterDataPipe[int]):
    """A class of a user's, which says how many elements all of its copies give together."""

    def __init__(self, source_datapipe: IterDataPipe[int], length: int) -> None:
        self.source_datapipe, self.length = source_datapipe, length

    def __iter__(self) -> Iterator[int]:
        for element in self.source_datapipe:
            yield from (element, element)

    def __len__(self) -> int:
        return self.length


MEASURED: dict[str, Callable[[], Any]] = {
    "batches": lambda: IterableWrapper(range(18)).shuffle().sharding_filter().batch(4),
    "whole batches": lambda: IterableWrapper(range(18)).sharding_filter().map(abs).batch(4, drop_last=True),
    "rows": lambda: Doubled(IterableWrapper(range(9)), 18).sharding_filter(),
    "a collection": lambda: SequenceWrapper(range(18)).to_iter_datapipe().sharding_filter().batch(4),
    "a part of a rank": lambda: apply_sharding(
        IterableWrapper(range(36)).sharding_filter().batch(4), 2, 1, SHARDING_PRIORITIES.DISTRIBUTED
    ),
    "a declared length": lambda: IterableWrapper(range(18)).sharding_filter().filter(bool).set_length(17),
    "one by a class": lambda: Doubled(IterableWrapper(range(9)).sharding_filter(), 18),
}


@pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
@pytest.mark.parametrize("num_workers", [0, 1, 2, 3])
@pytest.mark.parametrize("build", MEASURED.values(), ids=MEASURED.keys())
def test_the_length_of_a_loader_is_how_much_it_gives(build: Callable[[], Any], num_workers: int, loader: Any) -> None:
    graph = build()
    alone = len(graph)
    loaded = loader(graph, batch_size=None, num_workers=num_workers)
    assert len(loaded) == len(list(loaded))
    assert len(graph) == alone


@pytest.mark.parametrize("drop_last", [False, True])
def test_the_length_of_a_loader_that_batches_is_how_much_it_gives(drop_last: bool) -> None:
    graph = IterableWrapper(range(19)).sharding_filter()
    loader: Any = StatefulDataLoader(graph, batch_size=4, num_workers=3, drop_last=drop_last)
    assert len(loader) == len(list(loader)) == (3 if drop_last else 6)


def measured_on(rank: int) -> tuple[int, int, int, int]:
    graph = IterableWrapper(range(20)).shuffle().sharding_filter().batch(4)
    loaders: list[Any] = [DataLoader(graph, batch_size=None, num_workers=count) for count in (0, 2)]
    lengths = [(len(loader), len(list(loader))) for loader in loaders]
    return (*lengths[0], *lengths[1])


def test_the_length_of_a_loader_on_a_rank_is_how_much_it_gives_there() -> None:
    assert on_ranks(2, measured_on) == [(3, 3, 4, 4)] * 2


# -- StatefulDataLoader ------------------------------------------------------------------------------------------------

RESUMABLE: dict[str, Callable[[], Any]] = {
    "operators": lambda: sharded().map(abs).batch(2).shuffle(buffer_size=3).unbatch(),
    "a collection": SHARDED["a collection"],
    "a user's class at the end": lambda: Noisy(sharded()).map(itemgetter(1)),
    "a user's class in the middle": SHARDED["a user's class in the middle"],
    "a class of torch's kind in the middle": SHARDED["a class of torch's kind in the middle"],
    "no sharding_filter": UNSHARDED["a user's class at the end"],
}


def epoch_with_states(loader: Any) -> tuple[list[str], list[Any]]:
    elements, states = [], []
    for element in loader:
        elements.append(str(element))
        states.append(loader.state_dict())
    return elements, states


@pytest.mark.filterwarnings("ignore:.*has no sharding_filter")
@pytest.mark.parametrize("num_workers", [0, 2])
@batches
@pytest.mark.parametrize("build", RESUMABLE.values(), ids=RESUMABLE.keys())
def test_a_stateful_loader_goes_on_where_another_one_was(
    build: Callable[[], Any], num_workers: int, batch_size: int | None
) -> None:
    def loader() -> Any:
        return StatefulDataLoader(build(), batch_size=batch_size, num_workers=num_workers)

    original = loader()
    for epoch in range(2):
        elements, states = epoch_with_states(original)
        for done in (1, len(elements) // 2, len(elements) - 1) if epoch == 0 else (2,):
            resumed = loader()
            resumed.load_state_dict(states[done - 1])
            assert list(map(str, resumed)) == elements[done:]


@pytest.mark.parametrize("build", [RESUMABLE["operators"], SHARDED["a user's class at the end"]])
def test_persistent_workers_go_on_with_the_epoch_after_the_one_that_was_loaded(build: Callable[[], Any]) -> None:
    def loader() -> Any:
        return StatefulDataLoader(build(), batch_size=None, num_workers=2, persistent_workers=True)

    original = loader()
    epochs = [epoch_with_states(original) for _ in range(3)]
    resumed = loader()
    resumed.load_state_dict(epochs[1][1][4])
    assert list(map(str, resumed)) == epochs[1][0][5:]
    assert list(map(str, resumed)) == epochs[2][0]


def test_a_class_of_torchs_kind_at_the_end_is_replayed_by_the_loader() -> None:
    original: Any = StatefulDataLoader(OfTorch(sharded()), batch_size=None, num_workers=2)
    elements, states = epoch_with_states(original)
    resumed: Any = StatefulDataLoader(OfTorch(sharded()), batch_size=None, num_workers=2)
    resumed.load_state_dict(states[6])
    assert list(map(str, resumed)) == elements[7:]


@pytest.mark.usefixtures("forked")
def test_stopping_a_loader_half_way_leaves_nobody_behind() -> None:
    def endless() -> Iterator[int]:
        while True:
            yield 1

    loader: DataLoader[Any] = DataLoader(
        IterableWrapper(endless(), deepcopy=False).sharding_filter().prefetch(2), batch_size=None, num_workers=2
    )
    assert list(islice(loader, 5)) == [1] * 5
