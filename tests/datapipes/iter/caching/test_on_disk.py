"""on_disk_cache ... end_caching: what is there is not made again, in the order of the source."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import IterDataPipe as TorchIterDataPipe

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import GraphError, LockTimeout
from datapipes.graph import list_dps, traverse_dps
from datapipes.iter import EndOnDiskCacheHolder, IterableWrapper, IterDataPipe
from datapipes.iter.files.locks import locked
from loader2 import DataLoader2
from loader2.adapters import CacheTimeout
from tests.datapipes.iter.caching.producers import left_in, noted, one_each, place, several_each
from tests.datapipes.iter.files.killed import PATIENCE
from tests.specimens.specimen import in_memory


def names(paths: Any) -> list[str]:
    return [os.path.basename(path) for path in paths]


def as_is(name: Any) -> tuple[Any, bytes]:
    return name, b"1"


# -- what is found, and what is made ---------------------------------------------------------------------------------


def test_made_once_and_then_found(tmp_path: Path) -> None:
    dp = one_each(tmp_path, "abc")
    assert isinstance(dp, EndOnDiskCacheHolder)
    for _ in range(2):
        assert list(dp) == [str(tmp_path / "cache" / name) for name in "abc"]
    assert noted(tmp_path) == ["a", "b", "c"]
    assert left_in(tmp_path) == ["a", "b", "c"]


def test_the_order_is_that_of_the_source_whatever_is_there(tmp_path: Path) -> None:
    list(one_each(tmp_path, "bd"))
    list(several_each(tmp_path, "e"))
    assert names(one_each(tmp_path, "abcde")) == ["a", "b", "c", "d", "ex", "ey", "ez"]
    assert noted(tmp_path) == ["b", "d", "e", "a", "c"]


def test_several_files_of_one(tmp_path: Path) -> None:
    dp = several_each(tmp_path, "ab")
    for _ in range(2):
        assert names(dp) == ["ax", "ay", "az", "bx", "by", "bz"]
    assert noted(tmp_path) == ["a", "b"]
    lines = (tmp_path / "cache" / "a.torchdata_list").read_text().splitlines()
    assert lines == [f"{tmp_path}/cache/a{part}\t6" for part in "xyz"]


def test_a_list_that_torchdata_wrote_is_read(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    for name in ("1", "two\tand"):
        (tmp_path / "cache" / name).write_text("")
    (tmp_path / "cache" / "a.torchdata_list").write_text(f"{tmp_path}/cache/1\n{tmp_path}/cache/two\tand\n")
    assert names(several_each(tmp_path, "a")) == ["1", "two\tand"]


@pytest.mark.parametrize("harm", ["gone", "short"])
def test_of_several_files_all_must_be_sound(tmp_path: Path, harm: str) -> None:
    list(several_each(tmp_path, "ab"))
    member = tmp_path / "cache" / "ay"
    if harm == "short":
        member.write_bytes(b"part")
    else:
        member.unlink()
    assert names(several_each(tmp_path, "ab")) == ["ax", "ay", "az", "bx", "by", "bz"]
    assert member.read_bytes() == b"part y"
    assert noted(tmp_path) == ["a", "b", "a"]


def test_more_elements_than_torchdata_could_keep_and_an_endless_source(tmp_path: Path) -> None:
    assert len(list(one_each(tmp_path, range(3)))) == 3
    assert len(list(one_each(tmp_path, [0, 1, 2] * 1000))) == 3000
    held = IterableWrapper("abc").cycle().on_disk_cache(partial(place, str(tmp_path)))
    dp = held.map(as_is).end_caching(same_filepath_fn=True, skip_read=True)
    assert names(islice(dp, 5)) == ["a", "b", "c", "a", "b"]


def test_what_became_nothing_is_tried_again(tmp_path: Path) -> None:
    held = IterableWrapper("abc").on_disk_cache(partial(place, str(tmp_path)))
    dp = held.filter(lambda name: name != "b").map(as_is).end_caching(same_filepath_fn=True, skip_read=True)
    for _ in range(2):
        assert names(dp) == ["a", "c"]
    assert left_in(tmp_path) == ["a", "c"]


def test_without_functions_the_names_are_the_paths(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    dp = IterableWrapper(["bare", "in/a/folder"]).on_disk_cache().map(as_is).end_caching(skip_read=True)
    for _ in range(2):
        assert list(dp) == ["bare", "in/a/folder"]
    assert (sorted(os.listdir(tmp_path)), os.listdir(tmp_path / "in" / "a")) == (["bare", "in"], ["folder"])


def test_caches_one_after_the_other_and_one_in_the_other(tmp_path: Path) -> None:
    def copied(path: str) -> tuple[str, StreamWrapper]:
        return path + ".copy", StreamWrapper(open(path, "rb"))

    first = one_each(tmp_path, "ab")
    second = first.on_disk_cache(lambda path: path + ".copy").map(copied).end_caching()
    assert names(second) == ["a.copy", "b.copy"]
    outer = IterableWrapper("cd").on_disk_cache(lambda name: place(str(tmp_path), name + ".copy"))
    inner = outer.on_disk_cache(partial(place, str(tmp_path))).map(as_is)
    nested = inner.end_caching(same_filepath_fn=True, skip_read=True).map(copied).end_caching()
    for _ in range(2):
        assert names(nested) == ["c.copy", "d.copy"]
    assert left_in(tmp_path) == ["a", "a.copy", "b", "b.copy", "c", "c.copy", "d", "d.copy"]


def test_a_folder_is_a_file_of_the_cache_only_for_whoever_looks_into_it(tmp_path: Path) -> None:
    (tmp_path / "cache" / "a").mkdir(parents=True)
    at = partial(place, str(tmp_path))
    held = IterableWrapper("a").on_disk_cache(at)
    with pytest.raises(IsADirectoryError):
        list(held.map(as_is).end_caching(same_filepath_fn=True, skip_read=True))
    looked_into = IterableWrapper("a").on_disk_cache(at, extra_check_fn=os.path.isdir)
    assert names(looked_into.map(as_is).end_caching(same_filepath_fn=True)) == ["a"]


def test_a_file_that_the_extra_check_refuses_is_made_again(tmp_path: Path) -> None:
    list(one_each(tmp_path, "ab"))
    held = IterableWrapper("ab").on_disk_cache(partial(place, str(tmp_path)), extra_check_fn=lambda p: p[-1] == "b")
    list(held.map(as_is).end_caching(same_filepath_fn=True, skip_read=True))
    assert [(tmp_path / "cache" / name).read_text() for name in "ab"] == ["1", "made of b"]


class Doubled(IterDataPipe[Any]):
    """A user's class, which knows nothing of sessions."""

    def __init__(self, source_datapipe: Any) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        for name in self.source_datapipe:
            yield name, [name.encode(), name.encode()]


class TorchDoubled(TorchIterDataPipe):  # type: ignore[type-arg]  # torch's class is generic only to type checkers
    __init__ = Doubled.__init__
    __iter__ = Doubled.__iter__


@pytest.mark.parametrize("kind", [Doubled, TorchDoubled])
def test_stages_in_between_may_be_users_own_or_run_ahead(tmp_path: Path, kind: Any) -> None:
    at = partial(place, str(tmp_path))
    between = kind(IterableWrapper("abc").on_disk_cache(at).prefetch(2))
    dp = EndOnDiskCacheHolder(between, filepath_fn=at)
    for _ in range(2):
        assert [Path(path).read_text() for path in dp] == ["aa", "bb", "cc"]
    assert between in list_dps(traverse_dps(dp))


@given(
    st.lists(st.integers(0, 5)),
    st.sets(st.integers(0, 5)),
    st.sets(st.sampled_from([f"{i}{p}" for i in range(6) for p in "xyz"])),
)
def test_whatever_is_there_or_was_lost_the_files_are_those_of_the_elements(
    names: list[int], there: set[int], lost: set[str]
) -> None:
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        list(several_each(Path(folder), there))
        for name in lost:
            Path(place(folder, name)).unlink(missing_ok=True)
        paths = list(several_each(Path(folder), names))
        assert paths == [place(folder, f"{name}{part}") for name in names for part in "xyz"]
        assert all(Path(path).read_text() == f"part {path[-1]}" for path in paths)
        again = {name for name in there if any(f"{name}{part}" in lost for part in "xyz")}
        assert sorted(map(int, noted(Path(folder)))) == sorted([*there, *(set(names) & again), *(set(names) - there)])


# -- waiting ---------------------------------------------------------------------------------------------------------


def test_the_adapter_sets_how_long_to_wait(tmp_path: Path) -> None:
    outer = one_each(tmp_path, "a").on_disk_cache().end_caching()
    (tmp_path / "cache").mkdir()
    waited: list[str] = []

    def load() -> None:
        try:
            list(DataLoader2(outer, CacheTimeout(0)))
        except LockTimeout as error:
            waited.append(str(error))

    with locked(place(str(tmp_path), "a"), 0):
        thread = threading.Thread(target=load)
        thread.start()
        thread.join(PATIENCE)
    assert waited[0].startswith("OnDiskCache Exception")
    assert "within 0 seconds" in waited[0]
    assert outer._timeout == 300
    assert CacheTimeout(7)(outer)._timeout == 7


def test_closing_an_iteration_ends_the_waiting_of_its_thread(tmp_path: Path) -> None:
    list(one_each(tmp_path, "a"))
    with locked(place(str(tmp_path), "b"), 0):
        it: Any = iter(one_each(tmp_path, "abc", timeout=10 * PATIENCE).prefetch(2))
        assert names([next(it)]) == ["a"]
        it.close()
    assert noted(tmp_path) == ["a"]
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_threads_make_each_file_once(tmp_path: Path) -> None:
    def load() -> None:
        list(several_each(tmp_path, range(20)))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(map(int, noted(tmp_path))) == list(range(20))


def test_a_cache_that_would_wait_for_itself_is_told(tmp_path: Path) -> None:
    outer = IterableWrapper([str(tmp_path / "x")]).on_disk_cache()
    dp = outer.on_disk_cache().map(as_is).end_caching(skip_read=True).map(as_is).end_caching(skip_read=True)
    with pytest.raises(GraphError, match="would wait for itself"):
        list(dp)
    assert os.listdir(tmp_path) == []


# -- positions -------------------------------------------------------------------------------------------------------


def test_a_resumed_epoch_makes_nothing_again(tmp_path: Path) -> None:
    loader = DataLoader2(several_each(tmp_path, "abc"))
    it = iter(loader)
    assert names(islice(it, 4)) == ["ax", "ay", "az", "bx"]
    state = loader.state_dict()
    resumed = DataLoader2.from_state(state, datapipe=several_each(tmp_path, "abc"))
    assert names(resumed) == ["by", "bz", "cx", "cy", "cz"]
    assert noted(tmp_path) == ["a", "b", "c"]
    loader.shutdown()


def test_what_is_random_in_between_depends_on_the_path_and_not_on_the_order(tmp_path: Path) -> None:
    def pieces(name: str) -> Iterator[str]:
        yield from (f"{name}{i}" for i in range(8))

    def orders(folder: str, elements: str) -> dict[str, list[str]]:
        at = partial(place, str(tmp_path / folder))
        held = IterableWrapper(elements).on_disk_cache(at)
        dp = held.flatmap(pieces).shuffle().map(as_is).end_caching(filepath_fn=at, skip_read=True)
        loader = DataLoader2(dp)
        loader.seed(1)
        made = names(loader)
        return {name: [one for one in made if one[0] == name] for name in elements}

    first = orders("1", "ab")
    assert first["a"] != sorted(first["a"])
    assert [one[1:] for one in first["a"]] != [one[1:] for one in first["b"]]
