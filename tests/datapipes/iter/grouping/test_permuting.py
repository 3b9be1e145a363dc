"""A shuffle without a buffer_size permutes all of a source that is read by position; other sources keep the buffer."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from datapipes.errors import StateError
from datapipes.graph import Pipe, walk
from datapipes.iter import FileLister, IterableWrapper, IterDataPipe, ShardingFilter, Shuffler
from datapipes.iter.grouping.shuffle import DefaultSize
from datapipes.map import SequenceWrapper
from datapipes.position.iterator import iterate
from loader2 import DataLoader2
from reading_services import ThreadingReadingService
from tests.loader2.graphs import as_0_1_0
from tests.specimens.specimen import Countable

FULL = 10_000
MORE = 12_345
SEED = 5

Build = Callable[[Pipe], Pipe]


def numbers(length: int) -> Pipe:
    return IterableWrapper(range(length))


def whole(pipe: Pipe, seed: int = SEED) -> list[Any]:
    return list(loaded(pipe, seed))


def loaded(pipe: Pipe, seed: int = SEED, state: Any = None, service: Any = None) -> DataLoader2[Any]:
    dl: DataLoader2[Any] = DataLoader2(pipe, reading_service=service)
    if state is None:
        dl.seed(seed)
    else:
        dl.load_state_dict(state)
    return dl


def is_mixed(order: list[Any]) -> bool:
    """Whether the last of the elements may come first, which a buffer does not have then."""
    return any(number > FULL + 100 for number in order[:100])


def paired(element: Any) -> tuple[Any, Any]:
    return element, element


READ_BY_POSITION: dict[str, tuple[Build, Build]] = {
    "a range": (lambda s: s, lambda s: s),
    "every third": (lambda s: IterableWrapper(range(7, 7 + 3 * MORE, 3)), lambda s: s.map(lambda x: (x - 7) // 3)),
    "a list": (lambda s: IterableWrapper(list(range(MORE))), lambda s: s),
    "a list that is copied": (lambda s: IterableWrapper([[i] for i in range(MORE)]), lambda s: s.map(sum)),
    "a map-style pipe": (lambda s: SequenceWrapper(range(MORE)).to_iter_datapipe(), lambda s: s),
    "what is made of each": (lambda s: s.map(paired).map(paired), lambda s: s.map(lambda x: x[0][0])),
    "numbered": (lambda s: s.enumerate(), lambda s: s.map(lambda x: x[1])),
    "side by side": (lambda s: s.zip(s), lambda s: s.map(lambda x: x[1])),
    "one after the other": (lambda s: s.header(5).concat(s.skip(5)), lambda s: s),
    "in threads": (lambda s: s.threadpool_map(str), lambda s: s.map(int)),
    "made ahead": (lambda s: s.prefetch(2), lambda s: s),
}


@pytest.mark.parametrize("name", READ_BY_POSITION)
def test_all_is_permuted_and_the_position_is_a_count(name: str) -> None:
    above, below = READ_BY_POSITION[name]
    graph = below(above(numbers(MORE)).shuffle())
    order = whole(graph)
    assert sorted(order) == list(range(MORE))
    assert is_mixed(order)
    dl = loaded(graph)
    given = list(islice(dl, 7))
    state = dl.state_dict()
    assert {type(cell) for cell in state["cells"].values()} <= {int, bytes, type(None), dict}
    assert not any("size" in cell for cell in state["cells"].values() if isinstance(cell, dict))
    assert given + list(islice(loaded(graph, state=state), 50)) == order[:57]


@pytest.mark.parametrize("name", ["a range", "a list", "what is made of each", "numbered", "made ahead"])
def test_shards_are_dealt_out_of_the_same_order(name: str) -> None:
    above, below = READ_BY_POSITION[name]
    order = whole(below(above(numbers(MORE)).shuffle().sharding_filter()))
    shards = []
    for index in range(3):
        graph = below(above(numbers(MORE)).shuffle().sharding_filter())
        for stage in walk(graph):
            if isinstance(stage, ShardingFilter):
                stage.apply_sharding(3, index)
        shards.append(whole(graph))
    assert [list(shard) for shard in shards] == [order[index::3] for index in range(3)]


@pytest.mark.parametrize("length", [1, 2, 9_999, FULL])
def test_up_to_10_000_elements_the_order_is_that_of_the_buffer(length: int) -> None:
    assert whole(numbers(length).shuffle()) == whole(numbers(length).shuffle(buffer_size=FULL))


def test_one_more_is_permuted() -> None:
    graph = numbers(FULL + 1).shuffle()
    assert whole(graph) != whole(numbers(FULL + 1).shuffle(buffer_size=FULL))
    assert whole(graph) == whole(graph) != whole(graph, SEED + 1)


BUFFERED: dict[str, Callable[[Any], Pipe]] = {
    "given": lambda size: numbers(MORE).shuffle(buffer_size=FULL if size is None else size),
    "no sequence": lambda size: shuffled(IterableWrapper(Countable(*range(MORE))), size),
    "a filter": lambda size: shuffled(numbers(MORE).filter(lambda x: x >= 0), size),
    "errors let pass": lambda size: shuffled(numbers(MORE).map(abs, on_error="skip"), size),
    "a shard": lambda size: shuffled(numbers(MORE).sharding_filter(), size),
    "no end": lambda size: shuffled(numbers(MORE).cycle(), size),
    "a split": lambda size: shuffled(split(), size),
    "shuffled": lambda size: shuffled(numbers(MORE).shuffle(buffer_size=3), size),
    "a fork": lambda size: shuffled(numbers(MORE).fork(2)[0], size),
}


def shuffled(source: Pipe, size: int | None) -> Pipe:
    return source.shuffle() if size is None else source.shuffle(buffer_size=size)


def split() -> Pipe:
    return numbers(MORE).random_split({"a": 0.9, "b": 0.1}, seed=1, total_length=MORE, target="a")


@pytest.mark.parametrize("name", BUFFERED)
def test_what_cannot_be_read_so_or_has_a_size_keeps_the_buffer(name: str) -> None:
    build = BUFFERED[name]
    first, expected = (list(islice(loaded(build(size)), MORE)) for size in (None, FULL))
    assert first == expected


def test_a_size_that_is_given_is_printed() -> None:
    for pipe, text in (
        (numbers(1).shuffle(), "IterableWrapper(range(0, 1)).shuffle()"),
        (numbers(1).shuffle(buffer_size=FULL), "IterableWrapper(range(0, 1)).shuffle(buffer_size=10000)"),
    ):
        assert repr(pipe) == repr(pickle.loads(pickle.dumps(pipe))) == text
        assert pipe.buffer_size == pickle.loads(pickle.dumps(pipe)).buffer_size == FULL


def test_switched_off_and_pinned() -> None:
    assert whole(numbers(MORE).shuffle().set_shuffle(False)) == list(range(MORE))
    pinned = numbers(MORE).shuffle().set_seed(3)
    assert whole(pinned, 1) == whole(pinned, 2) != whole(numbers(MORE).shuffle(), 1)
    epochs = loaded(numbers(MORE).shuffle())
    assert list(epochs) != list(epochs)


def test_numbers_beyond_64_bits() -> None:
    first = 2**70
    order = whole(IterableWrapper(range(first, first + MORE)).shuffle())
    assert [number - first for number in order] == whole(numbers(MORE).shuffle())


class Subclassed(Shuffler[Any]):
    """A user's shuffle, which is one of the library's."""


class Reversing(Shuffler[Any]):
    """A user's shuffle with an ``__iter__`` of its own."""

    def __iter__(self) -> Any:
        yield from list(super().__iter__())[::-1]


def test_users_subclasses() -> None:
    assert is_mixed(whole(Subclassed(numbers(MORE))))
    assert not is_mixed(whole(Subclassed(numbers(MORE), buffer_size=FULL)))
    dl = loaded(Reversing(numbers(MORE)))
    given = list(islice(dl, 3))
    again = loaded(Reversing(numbers(MORE)), state=dl.state_dict())
    order = given + list(again)
    assert sorted(order) == list(range(MORE))


class Broken:
    def __init__(self, bad: int | None = None) -> None:
        self.bad = bad

    def __call__(self, number: int) -> int:
        if number == self.bad:
            raise ValueError(f"{number} is bad")
        return number


def outcomes(iterator: Iterator[Any]) -> list[Any]:
    found: list[Any] = []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except ValueError as error:
            found.append(str(error).partition("\n")[0])


@pytest.mark.parametrize("made", [lambda pipe, bad: pipe.map(bad).shuffle(), lambda pipe, bad: pipe.shuffle().map(bad)])
def test_what_cannot_be_made_keeps_its_position(made: Callable[[Pipe, Broken], Pipe]) -> None:
    fine, bad = made(numbers(MORE), Broken()), made(numbers(MORE), Broken(777))
    expected = ["777 is bad" if number == 777 else number for number in whole(fine)]
    assert outcomes(iter(loaded(bad))) == expected
    at = expected.index("777 is bad") + 1
    dl = loaded(bad)
    iterator = iter(dl)
    assert [next(iterator) for _ in range(at - 1)] == expected[: at - 1]
    with pytest.raises(ValueError, match=r"777 is bad\n(.*\n)*.*index 777|777 is bad"):
        next(iterator)
    assert list(loaded(bad, state=dl.state_dict())) == expected[at:]


def test_nothing_is_made_before_it_is_handed_on() -> None:
    asked: list[int] = []

    def noted(number: int) -> int:
        asked.append(number)
        return number

    given = list(islice(iterate(numbers(10**12).map(noted).shuffle()), 3))
    assert given == asked


# -- states of 0.1.0 ---------------------------------------------------------------------------------------------------


def in_shards(size: int | None) -> Pipe:
    return shuffled(numbers(MORE).map(paired), size).sharding_filter().map(sum).batch(10)


@pytest.mark.parametrize("taken", [0, 1, 400])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_that_0_1_0_began_goes_on_in_its_buffer(taken: int, workers: int) -> None:
    def service() -> Any:
        return ThreadingReadingService(workers) if workers else None

    with loaded(in_shards(FULL), service=service()) as begun:
        iterator = iter(begun)
        given = list(islice(iterator, taken))
        state = as_0_1_0(begun.state_dict())
        expected = given + list(iterator)
    with loaded(in_shards(None), state=state, service=service()) as dl:
        iterator = iter(dl)
        given += islice(iterator, 3)
        state = dl.state_dict()  # of today
    with loaded(in_shards(None), state=state, service=service()) as dl:
        assert given + list(dl) == expected
        following = list(dl)
        state = dl.state_dict()
    with loaded(in_shards(None), service=service()) as dl:
        list(dl)
        assert list(dl) == following, "the next epoch is one of today"
        third = list(dl)
    with loaded(in_shards(None), state=state, service=service()) as dl:
        assert list(dl) == third


def test_an_iterator_that_0_1_0_began_goes_on_in_its_buffer() -> None:
    begun = iterate(numbers(MORE).shuffle(buffer_size=FULL))
    given = list(islice(begun, 5))
    state = as_0_1_0(begun.state_dict())
    expected = given + list(begun)
    for _ in range(2):
        again = iterate(numbers(MORE).shuffle())
        again.load_state_dict(state)
        given += islice(again, 5)
        state = again.state_dict()
    assert given + list(again) == expected


# -- listings ----------------------------------------------------------------------------------------------------------


def files(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(name)
    return folder


def names(found: list[str]) -> list[str]:
    return [Path(path).name for path in found]


def listing(*folders: Path, size: int = 5) -> Pipe:
    return FileLister([str(folder) for folder in folders]).shuffle(buffer_size=DefaultSize(size))


LETTERS = [*"abcdefghijklmnopqrstuvwxyz"]


def test_a_listing_is_permuted_whole_and_a_state_has_no_path(tmp_path: Path) -> None:
    folder = files(tmp_path / "some", *LETTERS)
    order = whole(listing(folder))
    assert sorted(names(order)) == LETTERS
    assert order != whole(FileLister(str(folder)).shuffle(buffer_size=5))
    for taken in (0, 1, 25, 26):
        dl = loaded(listing(folder))
        given = list(islice(dl, taken))
        state = dl.state_dict()
        assert "some" not in str(state["cells"])
        assert given + list(loaded(listing(folder), state=state)) == order
    few = files(tmp_path / "few", *LETTERS[:5])
    assert whole(listing(few)) == whole(FileLister(str(few)).shuffle(buffer_size=5))


def test_a_listing_that_has_changed_is_refused(tmp_path: Path) -> None:
    folder = files(tmp_path / "some", *LETTERS)
    dl = loaded(listing(folder))
    next(iter(dl))
    state = dl.state_dict()
    files(folder, "one more")
    again = iter(loaded(listing(folder), state=state))
    for _ in range(2):
        with pytest.raises(StateError, match=r"shuffle\(.*the listed files are not those of the saved state"):
            next(again)


@pytest.mark.parametrize("taken", [0, 1, 9])
def test_an_error_in_a_listing_costs_its_folder(tmp_path: Path, taken: int) -> None:
    folders = [files(tmp_path / "a", *LETTERS[:5]), tmp_path / "missing", files(tmp_path / "b", *LETTERS[5:10])]
    dl = loaded(listing(*folders))
    iterator = iter(dl)
    with pytest.warns(UserWarning, match="does not exist"), pytest.raises(FileNotFoundError):
        next(iterator)
    given = list(islice(iterator, taken))
    state = dl.state_dict()
    left = list(iterator)
    assert sorted(names(given + left)) == LETTERS[:10]
    assert list(loaded(listing(*folders), state=state)) == left


def test_listings_that_are_shared_keep_the_buffer(tmp_path: Path) -> None:
    a, b = FileLister(str(files(tmp_path / "some", *LETTERS))).fork(2)
    graph = a.shuffle(buffer_size=DefaultSize(3)).zip(b)
    found = whole(graph)
    assert sorted(names([path for path, _ in found])) == LETTERS


class Folders(IterDataPipe[str]):
    """A user's class above a listing."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders

    def __iter__(self) -> Iterator[str]:
        yield from map(str, self.folders)


def test_a_listing_below_a_users_class_goes_on_exactly(tmp_path: Path) -> None:
    folders = Folders(files(tmp_path / "a", *"abc"), files(tmp_path / "b", *"def"))
    graph = folders.list_files().shuffle(buffer_size=DefaultSize(2))
    order = whole(graph)
    dl = loaded(graph)
    given = list(islice(dl, 2))
    assert given + list(loaded(graph, state=dl.state_dict())) == order
