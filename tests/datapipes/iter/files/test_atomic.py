"""A file is there completely or not at all, whatever happens to its writer."""

from __future__ import annotations

import os
import stat
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from datapipes.errors import BadArgument
from datapipes.iter.files.atomic import replacing, write
from tests.datapipes.iter.files.killed import PATIENCE, killed_at


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("old", [None, b"the old one"])
def test_a_writer_that_is_killed_anywhere_leaves_the_old_file_or_the_new_one(tmp_path: Path, old: bytes | None) -> None:
    target = tmp_path / "a.bin"
    outcomes = set()
    for call in count():
        target.unlink(missing_ok=True)
        if old is not None:
            target.write_bytes(old)
        killed = killed_at(call, lambda: write(target, b"the new one"))
        found = target.read_bytes() if target.exists() else None
        assert found in (old, b"the new one"), f"killed at call {call}"
        outcomes.add(found)
        if not killed:
            break
        write(target, b"the next one")
        assert names(tmp_path) == ["a.bin"], f"left by a writer that was killed at call {call}"
    assert outcomes == {old, b"the new one"}
    assert call > 5


def write_half(path: Path, error: type[BaseException]) -> None:
    with replacing(path) as file:
        file.write(b"half of the ")
        raise error


def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "a", "old")
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            write_half(tmp_path / "a", error)
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_folders_are_made_and_a_bare_name_is_a_file_here(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write("bare", "1")
    write("b/c/d", "2")
    assert (names(tmp_path), names(tmp_path / "b" / "c")) == (["b", "bare"], ["d"])


def test_a_name_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    write(tmp_path / ("é" * 127), "1")
    assert len(names(tmp_path)) == 1


def test_text_and_appending(tmp_path: Path) -> None:
    with replacing(tmp_path / "a", "w", encoding="latin-1") as file:
        file.write("mä")
    with replacing(tmp_path / "a", "ab") as file:
        file.write(b"n")
    with replacing(tmp_path / "b", "a") as file:
        file.write("new")
    assert (tmp_path / "a").read_bytes() == "män".encode("latin-1")
    assert (tmp_path / "b").read_bytes() == b"new"
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("mode", ["", "r", "x", "wa", "w+", "bt", "wbt", "ww"])
def test_other_modes_are_refused(tmp_path: Path, mode: str) -> None:
    with pytest.raises(BadArgument, match="replaced with mode 'w' or 'a'"), replacing(tmp_path / "a", mode):
        pass
    assert names(tmp_path) == []


def test_appenders_wait_for_each_other(tmp_path: Path) -> None:
    def append(i: int) -> None:
        for _ in range(5):
            with replacing(tmp_path / "a", "a") as file:
                file.write(f"{i}\n")

    threads = [threading.Thread(target=append, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted((tmp_path / "a").read_text().split()) == [str(i) for i in range(4) for _ in range(5)]
    assert names(tmp_path) == ["a"]


def test_two_writers_at_once_do_not_mix(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as first:
        first.write(b"first, ")
        with replacing(tmp_path / "a") as second:
            second.write(b"second")
        assert (tmp_path / "a").read_bytes() == b"second"
        first.write(b"and last")
    assert (tmp_path / "a").read_bytes() == b"first, and last"
    assert names(tmp_path) == ["a"]


def test_permissions_stay_and_a_link_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "a", "old")
    (tmp_path / "a").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    write(tmp_path / "link", "beside")
    write(tmp_path / "a", "new")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert ((tmp_path / "a").read_text(), (tmp_path / "link").read_text()) == ("new", "beside")


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileExistsError, match="not a regular file"):
        write(tmp_path / "fifo", "")
    with pytest.raises(IsADirectoryError):
        write(tmp_path / "folder", "")
    assert names(tmp_path) == ["fifo", "folder"]


def test_a_planted_link_in_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".a.0.loader2-part").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        write(tmp_path / "a", "new")
    (tmp_path / ".a.0.loader2-part").unlink()
    os.link(tmp_path / "precious", tmp_path / ".a.0.loader2-part")
    write(tmp_path / "a", "new")
    assert (tmp_path / "precious").read_text() == "precious"
    assert names(tmp_path) == ["a", "precious"]
