"""end_caching: which files it saves, and failures, with nothing left behind, and saying why."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType, GraphError, HashMismatch, StateError, TooManyErrors
from datapipes.iter import IterableWrapper, OnDiskCacheHolder
from datapipes.position.plain_data import sealed
from tests.datapipes.iter.caching.producers import left_in, place


def names(paths: Any) -> list[str]:
    return [os.path.basename(path) for path in paths]


def as_is(name: Any) -> tuple[Any, bytes]:
    return name, b"1"


# -- what is saved ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        ([b"in ", b"pieces"], {}, b"in pieces"),
        (io.BytesIO(b"a stream"), {}, b"a stream"),
        (io.StringIO("text é"), {"mode": "wt"}, "text é".encode()),
        ("text", {"mode": "t"}, b"text"),
        ("text", {"mode": "w", "skip_read": True}, b"text"),
        (bytearray(b"bytes"), {"skip_read": True}, b"bytes"),
        (iter([b"one ", b"by one"]), {"mode": "b"}, b"one by one"),
    ],
)
def test_kinds_of_data(tmp_path: Path, data: Any, options: dict[str, Any], expected: bytes) -> None:
    held = IterableWrapper([str(tmp_path / "x")]).on_disk_cache()
    assert names(held.map(lambda path: (path, data)).end_caching(**options)) == ["x"]
    assert (tmp_path / "x").read_bytes() == expected


@pytest.mark.parametrize(
    ("data", "options", "complaint"),
    [
        (b"bytes", {}, "is already bytes: use skip_read=True"),
        (["text"], {}, "mode 'wb' writes bytes, .* has str: use mode 'w'"),
        (b"bytes", {"mode": "w", "skip_read": True}, "mode 'w' writes text, .* has bytes: use mode 'wb'"),
    ],
)
def test_data_of_the_wrong_kind(tmp_path: Path, data: Any, options: dict[str, Any], complaint: str) -> None:
    held = IterableWrapper([str(tmp_path / "x")]).on_disk_cache()
    with pytest.raises(BadArgumentType, match=complaint):
        list(held.map(lambda path: (path, data)).end_caching(**options))
    assert os.listdir(tmp_path) == []


def test_what_is_no_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgumentType, match=r"end_caching\(\) needs pairs of a name and its data, got 1"):
        list(IterableWrapper([str(tmp_path / "x")]).on_disk_cache().map(lambda path: 1).end_caching())


def test_names_that_would_lose_a_file_are_refused(tmp_path: Path) -> None:
    def twice(path: str) -> Iterator[tuple[str, str]]:
        yield from [(path + "1", "1"), (path + "1", "2")]

    held = IterableWrapper([str(tmp_path / "x")]).on_disk_cache()
    with pytest.raises(BadArgument, match="same path"):
        list(held.flatmap(twice).end_caching("w"))
    with pytest.raises(BadArgument, match="line break"):
        list(held.map(lambda path: (path + "\n/etc/passwd", "1")).end_caching("w"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", [["a"], ("a", "b"), None, 3])
def test_a_path_must_be_one_path(path: Any) -> None:
    held = IterableWrapper("a").on_disk_cache(lambda name: path)
    with pytest.raises(AssertionError, match=r"filepath_fn, .*lambda at .*, must give one path as str"):
        list(held.map(as_is).end_caching())


# -- hashes ----------------------------------------------------------------------------------------------------------


def test_hashes_are_checked_when_a_file_is_made_and_when_it_is_found(tmp_path: Path) -> None:
    path = str(tmp_path / "x")
    known = {path: hashlib.sha256(b"sound").hexdigest()}
    made: list[bytes] = []

    def make(path: str) -> tuple[str, list[bytes]]:
        return path, [made[-1]]

    dp = IterableWrapper([path]).on_disk_cache(hash_dict=known).map(make).end_caching()
    made.append(b"damaged")
    with pytest.raises(RuntimeError, match="does not match"):
        list(dp)
    assert os.listdir(tmp_path) == []
    made.append(b"sound")
    assert list(dp) == [path]
    (tmp_path / "x").write_bytes(b"damaged on the disk")
    assert list(dp) == [path]
    assert (tmp_path / "x").read_bytes() == b"sound"
    without = IterableWrapper([path]).on_disk_cache(hash_dict={}).map(make).end_caching()
    with pytest.raises(HashMismatch, match="Unspecified hash for file"):
        list(without)
    assert (tmp_path / "x").read_bytes() == b"sound"


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_production_that_fails_leaves_nothing_and_the_next_one_works(
    tmp_path: Path, error: type[BaseException]
) -> None:
    failing = [True]

    def make(name: str) -> Iterator[tuple[str, list[bytes]]]:
        yield name + "1", [b"1"]
        if failing[0]:
            raise error
        yield name + "2", [b"2"]

    at = partial(place, str(tmp_path))
    dp = IterableWrapper("ab").on_disk_cache(at).flatmap(make).end_caching(filepath_fn=at, timeout=0)
    for _ in range(2):
        with pytest.raises(error):
            next(iter(dp))
        assert left_in(tmp_path) == []
    failing[0] = False
    assert names(dp) == ["a1", "a2", "b1", "b2"]


def test_an_iterator_goes_on_after_an_error(tmp_path: Path) -> None:
    def make(name: str) -> tuple[str, bytes]:
        if name == "b":
            raise ValueError("no b")
        return name, b"1"

    held = IterableWrapper("abc").on_disk_cache(partial(place, str(tmp_path)))
    it = iter(held.map(make).end_caching(same_filepath_fn=True, skip_read=True))
    assert names([next(it)]) == ["a"]
    with pytest.raises(ValueError, match="no b") as caught:
        next(it)
    assert "raised in stage .map(<" in caught.value.__notes__[0]
    assert names(it) == ["c"]
    skipping = held.map(make).end_caching(same_filepath_fn=True, skip_read=True, on_error="skip")
    counted: Any = iter(skipping)
    with pytest.warns(UserWarning, match="goes on after ValueError: no b"):
        assert names(counted) == ["a", "c"]
    assert sum(counted.errors.values()) == 1


def test_errors_that_the_stages_in_between_let_pass_are_counted(tmp_path: Path) -> None:
    held = IterableWrapper("abc").on_disk_cache(partial(place, str(tmp_path)))
    made = held.map(lambda name: (name, {"a": b"1"}[name]), on_error="skip")
    it: Any = iter(made.end_caching(same_filepath_fn=True, skip_read=True))
    with pytest.warns(UserWarning, match="goes on after KeyError"):
        assert names(it) == ["a"]
    assert list(it.errors.values()) == [2]


def fail_on_even(number: int) -> tuple[str, bytes]:
    if number % 2 == 0:
        raise ValueError("even")
    return str(number), b"1"


def test_a_limit_in_between_is_for_the_whole_stream_and_is_resumed(tmp_path: Path) -> None:
    def cache(folder: str, most: int) -> Any:
        at = partial(place, str(tmp_path / folder))
        made = IterableWrapper(range(8)).on_disk_cache(at).map(fail_on_even, on_error="skip", max_errors=most)
        return made.end_caching(same_filepath_fn=True, skip_read=True)

    it: Any = iter(cache("1", 4))
    with pytest.warns(UserWarning, match="even") as warned:
        assert names(islice(it, 2)) == ["1", "3"]
    assert len(warned) == 1
    resumed: Any = iter(cache("1", 4))
    resumed.load_state_dict(it.state_dict())
    assert list(resumed.errors.values()) == [2]
    assert names(resumed) == ["5", "7"]
    assert list(resumed.errors.values()) == [4]
    again: Any = iter(cache("2", 3))
    again.load_state_dict(it.state_dict())
    assert names([next(again)]) == ["5"]
    with pytest.raises(TooManyErrors, match="4 errors, more than max_errors=3"):
        next(again)


@pytest.mark.parametrize("between", [None, 3, {0: [1, 1]}, {1: [1]}, {1: [1, "a"]}, {"a": [1, 1]}])
def test_a_state_that_does_not_fit_is_refused(tmp_path: Path, between: Any) -> None:
    dp = IterableWrapper("ab").on_disk_cache(partial(place, str(tmp_path))).map(as_is, on_error="skip")
    it: Any = iter(dp.end_caching(same_filepath_fn=True, skip_read=True))
    next(it)
    state = it.state_dict()
    (at,) = [at for at, cell in state["cells"].items() if isinstance(cell, dict)]
    state["cells"][at]["between"] = between
    it = iter(dp.end_caching(same_filepath_fn=True, skip_read=True))
    with pytest.raises(StateError, match=r"between|position"):
        it.load_state_dict(sealed(state))


def test_graphs_that_are_not_complete() -> None:
    holder = IterableWrapper("a").on_disk_cache()
    assert isinstance(holder, OnDiskCacheHolder)
    with pytest.raises(RuntimeError, match=r"Please call `end_caching\(\)`"):
        list(holder.map(as_is))
    with pytest.raises(RuntimeError, match=r"Please call `end_caching\(\)`"):
        holder + holder
    with pytest.raises(RuntimeError, match="Expected `OnDiskCacheHolder` existing"):
        IterableWrapper("a").end_caching()
    with pytest.raises(RuntimeError, match="can only be invoked once"):
        holder.end_caching().map(as_is).end_caching()
    with pytest.raises(GraphError, match="cannot end 2"):
        holder.zip(IterableWrapper("b").on_disk_cache()).end_caching()
    for dp in (holder, holder.end_caching()):
        with pytest.raises(TypeError, match="valid length"):
            len(dp)


def test_stages_that_would_mean_something_else_are_refused() -> None:
    holder = IterableWrapper("a").on_disk_cache()
    with pytest.raises(GraphError, match=r"\.sharding_filter\(\) would see one element at a time"):
        holder.sharding_filter().end_caching()
    with pytest.raises(GraphError, match=r"\.header\(limit=2\) would start again with each element"):
        holder.header(2).end_caching()
    with pytest.raises(GraphError, match="would judge each element by a share of errors"):
        holder.map(as_is, on_error="skip", max_errors=0.5).end_caching()
    with pytest.raises(GraphError, match=r"IterableWrapper\('beside'\) would be read from its start"):
        holder.zip(IterableWrapper("beside")).end_caching()


def test_arguments_are_checked() -> None:
    dp = IterableWrapper("a")

    def several(name: str) -> Iterator[str]:
        yield name

    with pytest.raises(AssertionError, match="must return one path"):
        dp.on_disk_cache(several)  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(ValueError, match="hash_type should be one of sha256, md5"):
        dp.on_disk_cache(hash_dict={}, hash_type="crc")
    dp.on_disk_cache(hash_type="crc")
    with pytest.raises(ValueError, match="mutually exclusive"):
        dp.on_disk_cache().end_caching(filepath_fn=str, same_filepath_fn=True)
    with pytest.raises(ValueError, match="Invalid mode 'r'"):
        dp.on_disk_cache().end_caching("r")
    with pytest.raises(ValueError, match="timeout"):
        dp.on_disk_cache().end_caching(timeout=-1)
    with pytest.raises(TypeError, match="A callable function is expected"):
        dp.on_disk_cache("a")  # type: ignore[arg-type]  # the mistake that is tested


def test_a_cache_prints_as_the_calls_that_make_it() -> None:
    dp = IterableWrapper("ab").on_disk_cache(str, hash_dict={"a": "b"}).map(len).end_caching("w")
    assert repr(dp) == (
        "IterableWrapper('ab').on_disk_cache(filepath_fn=str, hash_dict={'a': 'b'}).map(len).end_caching(mode='w')"
    )
