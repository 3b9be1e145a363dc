"""load_from_zip: the members as zipfile writes them, each against its checksum, and none beyond its limits."""

from __future__ import annotations

import io
import random
import stat
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import CorruptZip, UnsafeMember
from datapipes.iter import IterableWrapper
from tests.archive_makers import COMPRESSIONS, FILES, tar, zipped
from tests.datapipes.iter.files.given import Counting, OneWay, contents, files
from tests.datapipes.iter.mishaps import outcomes

EXPECTED = {f"a.zip/{name}": data for name, data in FILES.items()}
METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
LARGE = random.Random(1).randbytes(700_000) + bytes(700_000)


@given(st.dictionaries(st.text("aä☃ x", min_size=1, max_size=20), st.binary(max_size=400)), st.sampled_from(METHODS))
def test_members_are_those_that_zipfile_wrote(members: dict[str, bytes], method: int) -> None:
    found = [(p, s.read()) for p, s in files(("x.zip", zipped(members, method))).load_from_zip()]
    assert found == [(f"x.zip/{name}", data) for name, data in members.items()]


@pytest.mark.parametrize("method", METHODS)
def test_a_member_can_be_read_in_pieces_and_sought(method: int) -> None:
    ((path, stream),) = files(("a.zip", zipped({"x": LARGE, "folder/": b""}, method))).load_from_zip()
    assert path == "a.zip/x"
    assert b"".join(iter(lambda: stream.read(1234), b"")) == LARGE
    for at in (699_990, 5, 1_399_999):
        assert stream.seek(at) == at
        assert stream.read(20) == LARGE[at : at + 20]
    assert stream.seek(-3, io.SEEK_END) == len(LARGE) - 3
    assert stream.seek(0) == 0
    assert stream.read() == LARGE
    assert stream.read() == b""


def test_a_small_member_that_was_read_at_once_can_be_sought() -> None:
    stream = dict(files(("a.zip", zipped())).load_from_zip())["a.zip/in/2.bin"]
    assert stream.read() == FILES["in/2.bin"]
    assert stream.read() == b""
    stream.seek(62)
    assert stream.read(3) == b"\x3e\x3f\x00"


@pytest.mark.parametrize("outer", ["one way", "in a zip", "in a tar.gz"])
def test_what_cannot_be_sought_is_copied(outer: str) -> None:
    pipe = files(("a.zip", OneWay(zipped())))
    if outer != "one way":
        pipe = files(("b.zip", zipped({"a.zip": zipped()}))).load_from_zip()
    if outer == "in a tar.gz":
        pipe = files(("b.tar.gz", COMPRESSIONS["gz"](tar({"a.zip": zipped()})))).load_from_tar()
    assert {path.rpartition("a.zip/")[2]: data for path, data in contents(pipe.load_from_zip()).items()} == FILES


def test_an_archive_closes_with_the_last_of_its_members() -> None:
    archive = StreamWrapper(io.BytesIO(zipped()))
    members = list(IterableWrapper([("a.zip", archive)], deepcopy=False).load_from_zip())
    assert {path: stream.read() for path, stream in reversed(members)} == EXPECTED
    assert not archive.closed
    del members
    assert archive.closed


def test_members_are_passed_over_on_resume_without_being_read() -> None:
    data = zipped({f"{i}.bin": bytes(50_000) for i in range(20)}, zipfile.ZIP_STORED)

    def opened(file: io.BytesIO) -> Any:
        source = IterableWrapper([("a.zip", StreamWrapper(file))], deepcopy=False)
        return iter(source.load_from_zip().map(lambda member: member[0]))

    iterator, counting = opened(io.BytesIO(data)), Counting(data)
    for _ in range(19):
        next(iterator)
    resumed = opened(counting)
    resumed.load_state_dict(iterator.state_dict())
    assert list(resumed) == ["a.zip/19.bin"]
    assert counting.taken < 200_000  # of a million: directory and headers


def damaged(data: bytes, old: bytes, new: bytes, count: int = -1) -> bytes:
    assert old in data
    return data.replace(old, new, count)


@pytest.mark.filterwarnings("ignore:corrupted")
@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not a zip archive"),
        (b"anything else", "not a zip archive"),
        (zipped()[:-5], "not a zip archive"),
        (damaged(zipped({"foo": b"1"}), b"foo", b"fo/", 2)[:33] + zipped({"foo": b"1"})[33:], "is for"),
        (damaged(zipped({"1": b"one", "2": b"two"}), b"\x02\0\x02\0", b"\x02\0\x03\0"), "claims 3 members"),
        (damaged(zipped({"1": b"one"}, 0), b"one", b"two"), "a.zip/1: its checksum"),
    ],
)
def test_what_is_damaged_is_an_error_that_says_where(data: bytes, what: str) -> None:
    with pytest.raises(CorruptZip, match=what) as raised:
        contents(files(("a.zip", data)).load_from_zip())
    assert isinstance(raised.value, zipfile.BadZipFile)
    assert "a.zip" in str(raised.value)


@pytest.mark.filterwarnings("ignore:corrupted")
def test_what_lies_about_itself_is_an_error() -> None:
    plain = zipped({"x": b"data" * 100}, zipfile.ZIP_STORED)
    at = plain.rindex(b"PK\x01\x02")
    for offset, value, what in (
        (20, struct.pack("<I", 2**31), "does not agree with the directory|overlap"),
        (24, struct.pack("<I", 2**31), "does not agree with the directory"),
        (16, bytes(12), "does not agree with the directory"),
        (10, b"\x63\0", "of another kind"),
        (42, struct.pack("<I", 3), "no member header at byte 3"),
        (8, b"\x01\0", "of another kind"),
    ):
        lying = plain[: at + offset] + value + plain[at + offset + len(value) :]
        with pytest.raises(CorruptZip, match=what):
            contents(files(("a.zip", lying)).load_from_zip())


@pytest.mark.filterwarnings("ignore:corrupted")
@pytest.mark.parametrize("size", [0, 4, 100, 2**31])
def test_a_size_that_both_headers_lie_about_is_an_error(size: int) -> None:
    plain = zipped({"x": b"data" * 10}, zipfile.ZIP_STORED)
    at = plain.rindex(b"PK\x01\x02")
    for place in (18, 22, at + 20, at + 24):
        plain = plain[:place] + struct.pack("<I", size) + plain[place + 4 :]
    with pytest.raises(CorruptZip, match=r"it should have|cut short|overlap|checksum|more than"):
        contents(files(("a.zip", plain)).load_from_zip())


@pytest.mark.filterwarnings("ignore:corrupted")
def test_an_end_that_knows_of_nothing_is_an_error() -> None:
    plain = zipped()
    at = plain.rindex(b"PK\x05\x06")
    with pytest.raises(CorruptZip, match="claims that there are no members"):
        contents(files(("a.zip", plain[: at + 8] + bytes(12) + plain[at + 20 :])).load_from_zip())
    assert contents(files(("a.zip", zipped({}))).load_from_zip()) == {}


def test_sizes_that_follow_the_data_are_read(tmp_path: Path) -> None:
    way = OneWayWriter(tmp_path / "a.zip")
    with way, zipfile.ZipFile(way, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    assert contents(files(("a.zip", (tmp_path / "a.zip").read_bytes())).load_from_zip()) == EXPECTED


class OneWayWriter(io.FileIO):
    """A file that cannot be sought, as a pipe: zipfile then writes sizes behind the data."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w")

    def seekable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = 0, /) -> int:
        raise io.UnsupportedOperation("seek")

    def tell(self) -> int:
        raise io.UnsupportedOperation("tell")


@pytest.mark.filterwarnings("ignore:corrupted")
def test_members_that_overlap_are_refused() -> None:
    plain = zipped({"1": b"one" * 40, "2": b"two" * 40}, zipfile.ZIP_STORED)
    first, second = plain.index(b"PK\x01\x02"), plain.rindex(b"PK\x01\x02")
    lying = plain[: second + 42] + plain[first + 42 : first + 46] + plain[second + 46 :]
    with pytest.raises(CorruptZip, match="'1' and '2' overlap"):
        contents(files(("a.zip", lying)).load_from_zip())


@pytest.mark.filterwarnings("ignore:corrupted", "ignore:.*goes on after")
@pytest.mark.parametrize("name", ["/etc/passwd", "../out", "in/../../out", "..\\out"])
def test_a_name_that_leads_outside_is_an_error(name: str) -> None:
    archive = zipped({"1": b"one", name: b"out", "2": b"two"})
    found = outcomes(files(("a.zip", archive)).load_from_zip().map(lambda member: member[0]))
    assert [found[0], found[2]] == ["a.zip/1", "a.zip/2"]
    assert "leads outside" in found[1]
    assert contents(files(("a.zip", archive)).load_from_zip(on_error="skip")).keys() == {"a.zip/1", "a.zip/2"}


@pytest.mark.filterwarnings("ignore:corrupted")
@pytest.mark.parametrize(("mode", "what"), [(stat.S_IFLNK, "symbolic link"), (stat.S_IFIFO, "device")])
def test_what_is_no_regular_file_is_an_error(mode: int, what: str) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        info = zipfile.ZipInfo("x")
        info.create_system, info.external_attr = 3, (mode | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(UnsafeMember, match=what):
        contents(files(("a.zip", file.getvalue())).load_from_zip())


def test_folders_are_passed_over_and_lengths_are_as_said() -> None:
    assert contents(files(("a.zip", zipped({"in/": b"", "in/1": b"1"}))).load_from_zip()) == {"a.zip/in/1": b"1"}
    assert len(files().load_from_zip(length=7)) == 7
    with pytest.raises(TypeError, match="ZipArchiveLoader instance doesn't have valid length"):
        len(files().load_from_zip())


def test_an_open_zip_file_is_taken_too() -> None:
    assert contents(files(("a.zip", zipped())).decompress().load_from_zip()) == EXPECTED
