"""list_files gives the names of files, folder by folder, in an order that does not depend on the machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datapipes import iterate
from datapipes.errors import BadArgumentType, StateError
from datapipes.iter import FileLister, FSSpecFileLister, IoPathFileLister, IterableWrapper
from datapipes.position.plain_data import sealed
from tests.datapipes.iter.mishaps import outcomes

FILES = ["b.txt", "a.txt", "c.csv", "z/a.txt", "z/y/x.txt", "m/b.csv", "m/a.txt"]
IN_ORDER = ["a.txt", "b.txt", "c.csv", "m/a.txt", "m/b.csv", "z/a.txt", "z/y/x.txt"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    return tmp_path


def names(dp: FileLister, root: Path) -> list[str]:
    return [os.path.relpath(path, root) for path in dp]


def test_the_files_of_a_folder_in_order(root: Path) -> None:
    dp = FileLister(str(root))
    assert list(dp) == list(dp) == [str(root / name) for name in ("a.txt", "b.txt", "c.csv")]
    assert list(FileLister(str(root / "empty"))) == []


def test_recursive_gives_a_folder_and_then_its_folders(root: Path) -> None:
    assert names(FileLister(str(root), recursive=True), root) == IN_ORDER


def test_any_order_gives_the_same_files(root: Path) -> None:
    assert sorted(names(FileLister(str(root), recursive=True, non_deterministic=True), root)) == IN_ORDER


@pytest.mark.parametrize(
    ("masks", "matching"),
    [
        ("", IN_ORDER),
        ([], IN_ORDER),
        ("*.csv", ["c.csv", "m/b.csv"]),
        (["*.csv", "b.*"], ["b.txt", "c.csv", "m/b.csv"]),
        ("?.txt", ["a.txt", "b.txt", "m/a.txt", "z/a.txt", "z/y/x.txt"]),
        pytest.param(
            *("z/*", []),  # a mask is for the name of the file, not for its path
            marks=pytest.mark.filterwarnings("ignore:.*no file in"),
        ),
        pytest.param("*.none", [], marks=pytest.mark.filterwarnings("ignore:.*no file in")),
    ],
)
def test_masks(root: Path, masks: Any, matching: list[str]) -> None:
    assert names(FileLister(str(root), masks, recursive=True), root) == matching


def test_the_working_folder_is_the_default(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    assert list(FileLister()) == ["./a.txt", "./b.txt", "./c.csv"]
    assert list(FileLister("m")) == ["m/a.txt", "m/b.csv"]
    assert list(FileLister("m", abspath=True)) == [str(root / "m/a.txt"), str(root / "m/b.csv")]


@pytest.mark.parametrize("make", [str, Path])
def test_one_root_or_several(root: Path, make: Any) -> None:
    assert names(FileLister(make(root / "z")), root) == ["z/a.txt"]
    assert names(FileLister([make(root / "z"), make(root / "m")]), root) == ["z/a.txt", "m/a.txt", "m/b.csv"]
    assert list(FileLister([])) == []


def test_roots_from_a_pipe(root: Path) -> None:
    roots = IterableWrapper([str(root / "z"), str(root / "m")]).map(str)
    assert names(FileLister(roots), root) == ["z/a.txt", "m/a.txt", "m/b.csv"]
    listed: Any = roots.list_files("*.csv")
    assert names(listed, root) == ["m/b.csv"]


def test_a_root_that_is_a_file_stands_for_itself(root: Path) -> None:
    path = str(root / "a.txt")
    assert list(FileLister(path)) == [path]
    assert list(FileLister(path, "*.csv")) == []


@pytest.mark.parametrize("wrong", [5, [5], b"bytes", None])
def test_a_root_that_is_no_path_is_refused_with_the_call(wrong: Any) -> None:
    with pytest.raises(BadArgumentType, match=r"list_files\(\) needs a path, several paths, or a pipe of paths, got "):
        FileLister(wrong)


def test_a_missing_folder_warns_and_raises_when_it_is_reached(root: Path) -> None:
    missing = str(root / "missing")
    dp = FileLister([str(root / "m"), missing, str(root / "z")])
    with pytest.warns(UserWarning, match="'.*missing' does not exist"):
        found = outcomes(dp)
    assert found == [
        *(str(root / name) for name in ("m/a.txt", "m/b.csv")),
        f"FileNotFoundError: list_files(): no such file or folder: {missing!r}",
        str(root / "z/a.txt"),
    ]


def test_length() -> None:
    with pytest.raises(TypeError, match=r"^FileLister instance doesn't have valid length: \.list_files\("):
        len(FileLister("."))
    assert len(FileLister(".", length=7)) == 7


def test_links(root: Path) -> None:
    (root / "m" / "up").symlink_to(root, target_is_directory=True)  # followed, it would never end
    (root / "m" / "link.txt").symlink_to(root / "a.txt")
    (root / "m" / "broken.txt").symlink_to(root / "none")
    assert names(FileLister(str(root / "m"), recursive=True), root) == ["m/a.txt", "m/b.csv", "m/link.txt"]


@pytest.mark.parametrize(
    ("masks", "said"),
    [
        ("*.png", "no file in '{root}' matches '*.png'"),
        (["*.png", "*.jpg"], "no file in '{root}' matches '*.png, *.jpg'"),
    ],
)
@pytest.mark.parametrize("lister", [FileLister, FSSpecFileLister, IoPathFileLister])
def test_masks_that_nothing_matches_are_warned_of(lister: Any, masks: Any, said: str, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.warns(UserWarning, match=re.escape(said.format(root=tmp_path))):
        assert list(lister(str(tmp_path), masks)) == []


def test_masks_that_something_matches_in_a_folder_below_are_not(root: Path) -> None:
    assert names(FileLister(str(root), "x.txt", recursive=True), root) == ["z/y/x.txt"]
    assert list(IterableWrapper([str(root / "empty")]).map(str).list_files("x.txt")) == []  # one of many
    with pytest.warns(UserWarning, match=r"no file in .* matches 'x\.txt'"):
        assert list(FileLister(str(root / "empty"), "x.txt")) == []


@pytest.mark.parametrize("given", [1, 3])
def test_a_folder_that_has_changed_is_no_place_to_go_on(tmp_path: Path, given: int) -> None:
    for name in "bcde":
        (tmp_path / name).write_text(name)
    names = iterate(FileLister(str(tmp_path)))
    for _ in range(given):
        next(names)
    state = names.state_dict()
    (tmp_path / "z").write_text("behind all that was given")
    assert len(list(resumed(state, tmp_path))) == 5 - given
    (tmp_path / "a").write_text("in front of it")
    with pytest.raises(StateError, match="now has other files in place of those that were given"):
        next(resumed(state, tmp_path))


def resumed(state: dict[str, Any], folder: Path) -> Iterator[str]:
    names = iterate(FileLister(str(folder)))
    names.load_state_dict(state)
    return names


def test_an_older_state_of_a_lister_has_a_number_only(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    names = iterate(FileLister(str(tmp_path)))
    next(names)
    state = names.state_dict()
    for cell in state["cells"].values():
        if isinstance(cell, dict):
            assert cell.pop("mark")
    assert [Path(path).name for path in resumed(sealed(state), tmp_path)] == ["b", "c"]
