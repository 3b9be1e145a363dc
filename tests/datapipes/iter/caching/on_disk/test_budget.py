"""With max_bytes, what was not used for the longest time makes room, and nothing else goes."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from datapipes.errors import BadArgument
from datapipes.iter import IterableWrapper
from tests.datapipes.iter.caching.producers import note, noted, place
from tests.datapipes.iter.files.killed import PATIENCE, killed_at

INDEX = ".loader2-cache-index"
SIZE = 10
FORK = multiprocessing.get_context("fork")


def ten_bytes(folder: str, name: object) -> tuple[object, bytes]:
    note(folder, name)
    return name, b"%10d" % int(str(name), 36)


def two_of_five(folder: str, name: object) -> Iterator[tuple[str, bytes]]:
    note(folder, name)
    for part in "xy":
        yield f"{name}{part}", b"12345"


def cache(folder: Path, names: Any, elements: int, **options: Any) -> Any:
    """A file of ten bytes for each name, and room for so many."""
    at = partial(place, str(folder))
    held = IterableWrapper(names).on_disk_cache(at, max_bytes=elements * SIZE, **options)
    return held.map(partial(ten_bytes, str(folder))).end_caching(same_filepath_fn=True, skip_read=True)


def pairs(folder: Path, names: Any, max_bytes: int) -> Any:
    """Two files of five bytes for each name."""
    at = partial(place, str(folder))
    held = IterableWrapper(names).on_disk_cache(at, max_bytes=max_bytes)
    return held.flatmap(partial(two_of_five, str(folder))).end_caching(filepath_fn=at, skip_read=True)


def files(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder / "cache"))
        for path in (folder / "cache").rglob("*")
        if path.is_file() and path.name != INDEX
    )


def test_the_oldest_make_room(tmp_path: Path) -> None:
    list(cache(tmp_path, "abcde", 3))
    assert files(tmp_path) == ["c", "d", "e"]
    list(cache(tmp_path, "abc", 3))
    assert files(tmp_path) == ["a", "b", "c"]
    assert noted(tmp_path) == [*"abcde", *"ab", "c"]


def test_what_is_read_is_in_use(tmp_path: Path) -> None:
    list(cache(tmp_path, "abcad", 3))
    assert files(tmp_path) == ["a", "c", "d"]
    assert noted(tmp_path) == [*"abcd"]


def test_the_files_of_one_element_go_together(tmp_path: Path) -> None:
    list(pairs(tmp_path, "ab", 1000))
    lists = (tmp_path / "cache" / "a.torchdata_list").stat().st_size
    list(pairs(tmp_path, "c", 2 * (SIZE + lists)))
    assert files(tmp_path) == ["b.torchdata_list", "bx", "by", "c.torchdata_list", "cx", "cy"]


def test_what_is_at_hand_stays_and_what_is_too_large_stays_while_it_is(tmp_path: Path) -> None:
    one, other = iter(cache(tmp_path, "ab", 1)), iter(cache(tmp_path, "cd", 1))
    assert [os.path.basename(next(it)) for it in (one, other)] == ["a", "c"]
    assert files(tmp_path) == ["a", "c"]
    next(one)
    assert files(tmp_path) == ["b", "c"]
    assert [os.path.basename(path) for path in other] == ["d"]
    assert files(tmp_path) == ["b", "d"]
    assert list(one) == []
    assert [Path(path).read_bytes() for path in cache(tmp_path, "xyz", 1)] == [b"%10d" % i for i in (33, 34, 35)]
    assert files(tmp_path) == ["z"]


def test_nothing_goes_that_the_cache_has_not_made(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    for name in ("a", "mine"):
        (tmp_path / "cache" / name).write_text("was here before")
    list(cache(tmp_path, "abcd", 1))
    assert files(tmp_path) == ["a", "d", "mine"]
    assert noted(tmp_path) == [*"bcd"]


def test_a_folder_for_many(tmp_path: Path) -> None:
    at = str(tmp_path / "cache")
    names = ["1/a", "2/a", "1/b", "2/b"]
    held = IterableWrapper(names).on_disk_cache(partial(place, str(tmp_path)), max_bytes=2 * SIZE, cache_dir=at)
    list(held.map(lambda name: (name, b"0123456789")).end_caching(same_filepath_fn=True, skip_read=True))
    assert files(tmp_path) == ["1/b", "2/b"]


def test_what_somebody_removed_is_not_counted_for_ever(tmp_path: Path) -> None:
    list(cache(tmp_path, "abc", 3))
    (tmp_path / "cache" / "b").unlink()
    list(cache(tmp_path, "de", 3))
    assert files(tmp_path) == ["c", "d", "e"]


def test_a_production_that_fails_is_not_counted(tmp_path: Path) -> None:
    def failing(name: str) -> Iterator[tuple[str, bytes]]:
        yield from two_of_five(str(tmp_path), name)
        raise ValueError("after two files")

    at = partial(place, str(tmp_path))
    held = IterableWrapper("a").on_disk_cache(at, max_bytes=SIZE)
    with pytest.raises(ValueError, match="after two files"):
        list(held.flatmap(failing).end_caching(filepath_fn=at, skip_read=True))
    assert files(tmp_path) == []
    list(cache(tmp_path, "b", 1))
    assert files(tmp_path) == ["b"]


def test_what_was_counted_stays_counted_when_making_it_again_fails(tmp_path: Path) -> None:
    def failing(name: str) -> Iterator[tuple[str, bytes]]:
        yield from two_of_five(str(tmp_path), name)
        raise ValueError("after two files")

    list(pairs(tmp_path, "a", 1000))
    (tmp_path / "cache" / "ay").unlink()
    at = partial(place, str(tmp_path))
    held = IterableWrapper("a").on_disk_cache(at, max_bytes=1000)
    with pytest.raises(ValueError, match="after two files"):
        list(held.flatmap(failing).end_caching(filepath_fn=at, skip_read=True))
    assert files(tmp_path) == ["a.torchdata_list", "ax"]
    list(cache(tmp_path, "b", 1))
    assert files(tmp_path) == ["b"]


def read_at_once(folder: Path, start: int) -> None:
    for path in cache(folder, [(start + i) % 12 for i in range(40)], 4):
        with open(path, "rb") as file:  # it is open, so it is not removed
            assert len(file.read()) == SIZE


def test_processes_count_together(tmp_path: Path) -> None:
    processes = [FORK.Process(target=read_at_once, args=(tmp_path, 3 * i)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
    assert [process.exitcode for process in processes] == [0] * 4
    list(cache(tmp_path, ["z"], 4))
    assert len(files(tmp_path)) == 4
    assert "z" in files(tmp_path)


def test_files_of_a_process_that_was_killed_anywhere_are_counted(tmp_path: Path) -> None:
    for call in count():
        folder = tmp_path / str(call)
        folder.mkdir()
        killed = killed_at(call, lambda folder=folder: list(pairs(folder, "a", 40)))  # type: ignore[misc]  # a lambda's default has no type
        list(cache(folder, "cd", 2))
        left = set(files(folder)) - {".a.loader2-lock"}
        assert left == {"c", "d"}, f"left by a process that was killed at call {call}"
        if not killed:
            break
    assert call > 20


def test_an_index_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / INDEX).write_bytes(b"no database" * 100)
    with pytest.raises(sqlite3.DatabaseError) as caught:
        list(cache(tmp_path, "a", 1))
    assert any(INDEX in note for note in caught.value.__notes__)


def test_arguments_are_checked() -> None:
    with pytest.raises(BadArgument, match="max_bytes must be positive"):
        IterableWrapper("a").on_disk_cache(max_bytes=0)
    with pytest.raises(BadArgument, match="cache_dir is the folder to which max_bytes applies"):
        IterableWrapper("a").on_disk_cache(cache_dir="x")
