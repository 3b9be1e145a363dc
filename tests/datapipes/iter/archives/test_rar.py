"""load_from_rar: stored members without a program, others by one, and errors that name what is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import rarfile

from datapipes.errors import CorruptData
from datapipes.iter import IterableWrapper
from tests.archive_makers import COMPRESSIONS, FILES, rar, tar, zipped
from tests.datapipes.iter.files.given import OneWay, contents, files
from tests.datapipes.iter.mishaps import outcomes

EXPECTED = {f"a.rar/{name}": data for name, data in FILES.items()}
PACKED = rar({"1": b"what it holds", "2": b"two"}, compressed=frozenset({"1"}))


def test_stored_members() -> None:
    assert contents(files(("a.rar", rar())).load_from_rar()) == EXPECTED
    assert contents(files(("a.rar", OneWay(rar()))).load_from_rar()) == EXPECTED
    members = list(files(("a.rar", rar())).load_from_rar())
    assert {path: stream.read() for path, stream in reversed(members)} == EXPECTED
    stream = dict(members)["a.rar/in/2.bin"]
    stream.seek(62)
    assert stream.read(3) == b"\x3e\x3f\x00"


@pytest.fixture
def no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A search path with no program that unpacks; a test that needs one puts it into this folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(rarfile, "CURRENT_SETUP", None)
    return tmp_path


def test_a_packed_member_without_a_program_is_an_error_that_names_some(no_program: Path) -> None:
    members = dict(files(("a.rar", PACKED)).load_from_rar())
    assert members["a.rar/2"].read() == b"two"
    with pytest.raises(rarfile.RarCannotExec) as raised:
        members["a.rar/1"].read()
    assert any("install one of the programs unrar, unar, 7z, bsdtar" in note for note in raised.value.__notes__)


def unpacking(folder: Path, says: bytes) -> None:
    """A program that passes for `unrar`, and takes anything for the same content."""
    program = folder / "unrar"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.stdout.buffer.write({says!r})\n")
    program.chmod(0o755)


def test_a_packed_member_is_unpacked_by_a_program(no_program: Path) -> None:
    unpacking(no_program, b"what it holds")
    assert contents(files(("a.rar", PACKED)).load_from_rar()) == {"a.rar/1": b"what it holds", "a.rar/2": b"two"}


@pytest.mark.parametrize("says", [b"what it h", b"what it hides", b""])
def test_what_a_program_says_is_checked(no_program: Path, says: bytes) -> None:
    unpacking(no_program, says)
    with pytest.raises(CorruptData, match=r"a\.rar/1: after \d+ bytes"):
        contents(files(("a.rar", PACKED)).load_from_rar())


@pytest.mark.filterwarnings("ignore:corrupted")
@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not a RAR archive"),
        (zipped(), "not a RAR archive"),
        (rar()[:-8], "cut short|without the end block"),
        (rar()[:-9], "cut short|without the end block"),
        (rar().replace(b"the last", b"the list"), r"a\.rar/4\.txt: its checksum"),
        (rar().replace(b"in/2.bin", b"in/3.bin"), "damaged"),
    ],
)
def test_what_is_damaged_is_an_error(data: bytes, what: str) -> None:
    with pytest.raises(CorruptData, match=what) as raised:
        contents(files(("a.rar", data)).load_from_rar())
    assert "a.rar" in str(raised.value)


@pytest.mark.filterwarnings("ignore:corrupted")
@pytest.mark.parametrize("name", ["/etc/passwd", "../out", "in/../../out"])
def test_a_name_that_leads_outside_is_an_error(name: str) -> None:
    archive = rar({"1": b"one", name: b"out", "2": b"two"})
    found = outcomes(files(("a.rar", archive)).load_from_rar().map(lambda member: member[0]))
    assert [found[0], found[2]] == ["a.rar/1", "a.rar/2"]
    assert "leads outside" in found[1]


def test_rar_in_rar_is_refused_and_rar_in_tar_is_not() -> None:
    with pytest.raises(ValueError, match="Nested RAR archive is not supported"):
        contents(files(("a.rar", rar({"b.rar": rar()}))).load_from_rar().load_from_rar())
    packed = COMPRESSIONS["gz"](tar({"a.rar": rar()}))
    found = contents(files(("b.tar.gz", packed)).load_from_tar().load_from_rar())
    assert found == {f"b.tar.gz/{path}": data for path, data in EXPECTED.items()}


def test_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rarfile", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'loader2\[rar\]'"):
        IterableWrapper([]).load_from_rar()


def test_lengths_are_as_said() -> None:
    pipe: Any = files()
    assert len(pipe.load_from_rar(length=3)) == 3
    with pytest.raises(TypeError, match="RarArchiveLoader instance doesn't have valid length"):
        len(pipe.load_from_rar())
