"""save_to_disk writes each file completely or not at all, and gives its path."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import IterableWrapper, Saver


def saved(path: Path, data: Any, mode: str = "wb", **options: Any) -> list[Any]:
    return list(IterableWrapper([(str(path), data)], deepcopy=False).save_to_disk(mode, **options))


def pieces() -> Iterator[bytes]:
    yield from (b"one ", b"by one")


@pytest.mark.parametrize(
    ("mode", "data", "expected"),
    [
        ("wb", b"bytes", b"bytes"),
        ("b", bytearray(b"bytes"), b"bytes"),
        ("w", "té", "té".encode()),
        ("t", "té", "té".encode()),
        ("wt", io.StringIO("a stream"), b"a stream"),
        ("wb", io.BytesIO(b"a stream"), b"a stream"),
        ("wb", StreamWrapper(io.BytesIO(b"a stream")), b"a stream"),
        ("wb", pieces(), b"one by one"),
        ("wb", [b"one ", b"by one"], b"one by one"),
        ("wb", b"", b""),
    ],
)
def test_kinds_of_data(tmp_path: Path, mode: str, data: Any, expected: bytes) -> None:
    path = tmp_path / "new" / "a"
    assert saved(path, data, mode) == [str(path)]
    assert path.read_bytes() == expected
    assert os.listdir(path.parent) == ["a"]
    assert not isinstance(data, StreamWrapper) or data.closed


def test_a_file_is_replaced_or_appended_to(tmp_path: Path) -> None:
    for mode, expected in (("wb", "1"), ("wb", "1"), ("ab", "11"), ("a", "11x")):
        saved(tmp_path / "a", "x" if mode == "a" else b"1", mode)
        assert (tmp_path / "a").read_text() == expected


def test_the_path_is_what_the_function_makes_of_the_name(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    dp = IterableWrapper([("a", "1"), ("b", "2")]).save_to_disk(filepath_fn=lambda name: name + ".txt")
    assert isinstance(dp, Saver)
    assert (list(dp), len(dp)) == (["a.txt", "b.txt"], 2)
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt"]
    in_a_folder: Any = IterableWrapper([("a", "1")]).save_to_disk(filepath_fn=lambda name: tmp_path / name)
    assert list(in_a_folder) == [tmp_path / "a"]


def test_what_fails_leaves_the_old_file(tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"half of it"
        raise OSError("gone")

    saved(tmp_path / "a", b"old")
    with pytest.raises(OSError, match="gone"):
        saved(tmp_path / "a", failing())
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_another_try_saves_all_or_fails(tmp_path: Path) -> None:
    class Flaky(io.BytesIO):
        fails = 1

        def read(self, *args: Any) -> bytes:
            if self.tell() and self.fails:
                self.fails -= 1
                raise OSError("the line is busy")
            return super().read(3)

    with pytest.warns(UserWarning, match="busy"):
        saved(tmp_path / "a", Flaky(b"all of it"), on_error="retry(1)")
    assert (tmp_path / "a").read_bytes() == b"all of it"

    def failing() -> Iterator[bytes]:
        yield b"half of it"
        raise OSError("gone")

    with pytest.warns(UserWarning, match="gone"), pytest.raises(ValueError, match="was read before or has failed"):
        saved(tmp_path / "b", failing(), on_error="retry(1)")
    assert os.listdir(tmp_path) == ["a"]


def test_a_stream_that_has_nothing_yet_is_not_at_its_end(tmp_path: Path) -> None:
    class NonBlocking(io.BytesIO):
        def read(self, *args: Any) -> Any:
            return None

    with pytest.raises(BlockingIOError, match="no data yet"):
        saved(tmp_path / "a", NonBlocking())
    assert os.listdir(tmp_path) == []


def test_data_and_modes_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(BadArgumentType, match=r"mode 'w' writes text, .* has bytes: use mode 'wb'"):
        saved(tmp_path / "a", b"bytes", "w")
    with pytest.raises(BadArgumentType, match=r"mode 'wb' writes bytes, .* has str: use mode 'w'"):
        saved(tmp_path / "a", ["text"], "wb")
    with pytest.raises(BadArgumentType, match=r"save_to_disk\(\) needs pairs of a name and its data, got 'name'"):
        list(IterableWrapper(["name"]).save_to_disk())  # type: ignore[misc]  # what is refused
    with pytest.raises(BadArgumentType, match="expected a path as str"):
        list(IterableWrapper([(3, "")]).save_to_disk())
    for mode in ("r", "x", "", "w+", "wa"):
        with pytest.raises(BadArgument, match="Invalid mode"):
            IterableWrapper([]).save_to_disk(mode)
    assert os.listdir(tmp_path) == []


def test_errors_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    pairs = [(str(tmp_path / name), b"1") for name in "abc"]
    with pytest.warns(UserWarning, match="goes on after IsADirectoryError"):
        paths = list(IterableWrapper(pairs).save_to_disk("wb", on_error="skip"))
    assert [os.path.basename(path) for path in paths] == ["b", "c"]
