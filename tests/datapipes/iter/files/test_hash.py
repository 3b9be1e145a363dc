"""check_hash lets pass what has the expected hash, and hands it on as it was."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, BadArgumentType, HashMismatch
from datapipes.iter import HashChecker, IterableWrapper

DATA = b"some data\nin lines\n" * 1000
SHA = {"a": hashlib.sha256(DATA).hexdigest()}
MD5 = {"a": hashlib.md5(DATA).hexdigest()}


def checked(data: Any, hashes: Any = SHA, **options: Any) -> list[Any]:
    return list(IterableWrapper([("a", data)], deepcopy=False).check_hash(hashes, **options))


class OneWay(io.BytesIO):
    """A stream that cannot go back, as over a network."""

    def seekable(self) -> bool:
        return False

    def seek(self, *args: Any) -> int:
        raise io.UnsupportedOperation("seek")

    tell = seek


@pytest.mark.parametrize("data", [DATA, bytearray(DATA), memoryview(DATA), DATA.decode()])
def test_data_in_memory_passes_unchanged(data: Any) -> None:
    assert checked(data)[0][1] is data
    assert checked(data, MD5, hash_type="md5") == [("a", data)]


def test_upper_case_digits_are_the_same_digits() -> None:
    assert checked(DATA, {"a": SHA["a"].upper()}) == [("a", DATA)]


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("kind", [io.BytesIO, OneWay])
def test_streams(kind: type[io.BytesIO], wrapped: bool) -> None:
    def stream() -> Any:
        return StreamWrapper(kind(DATA)) if wrapped else kind(DATA)

    [(name, again)] = checked(stream())
    assert (name, again.read()) == ("a", DATA)
    assert isinstance(again, StreamWrapper)
    [(_, at_end)] = checked(stream(), rewind=False)
    assert at_end.read() == b""


def test_a_stream_goes_back_to_where_it_was() -> None:
    stream = io.BytesIO(b"before" + DATA)
    stream.seek(6)
    assert checked(stream)[0][1].read() == DATA


def test_a_large_stream_that_cannot_go_back_is_kept_on_disk() -> None:
    data = bytes(20 << 20)
    [(_, stream)] = checked(OneWay(data), {"a": hashlib.sha256(data).hexdigest()})
    assert stream.file_obj._rolled
    assert stream.read() == data
    stream.close()


def test_members_of_archives(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar, zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        member = tarfile.TarInfo("a")
        member.size = len(DATA)
        tar.addfile(member, io.BytesIO(DATA))
        zipped.writestr("a", DATA)
    with tarfile.open(tmp_path / "a.tar.gz", "r:gz") as tar, zipfile.ZipFile(tmp_path / "a.zip") as zipped:
        for stream in (tar.extractfile("a"), zipped.open("a")):
            assert checked(stream)[0][1].read() == DATA


@pytest.mark.parametrize("kind", [bytes, io.BytesIO, OneWay])
def test_what_differs_does_not_pass(kind: Any) -> None:
    with pytest.raises(RuntimeError, match=r"of 'a' does not match the expected one, [0-9a-f]{64}: "):
        checked(kind(DATA[:-1]))
    with pytest.raises(HashMismatch, match="Unspecified hash for file 'a'"):
        checked(kind(DATA), {"b": SHA["a"]})


def test_a_password_in_a_url_is_not_told() -> None:
    with pytest.raises(HashMismatch, match=r"'https://\*\*\*@host/a'"):
        list(IterableWrapper([("https://me:secret@host/a", b"")]).check_hash({}))


def test_text_streams_and_what_is_no_pair_are_refused() -> None:
    with pytest.raises(BadArgumentType, match="open 'a' in mode 'rb'"):
        checked(io.StringIO("text"))
    with pytest.raises(BadArgumentType, match=r"check_hash\(\) needs pairs of a name and its data, got 1"):
        list(IterableWrapper([1]).check_hash({}))  # type: ignore[misc]  # what is refused


def test_the_kind_of_hash_is_checked_when_the_graph_is_built() -> None:
    with pytest.raises(BadArgument, match="hash_type should be one of sha256, md5, got 'crc32'"):
        IterableWrapper([("a", b"")]).check_hash({}, "crc32")


def test_the_length_is_that_of_the_source() -> None:
    dp = IterableWrapper([("a", DATA), ("a", DATA)]).check_hash(SHA)
    assert isinstance(dp, HashChecker)
    assert len(dp) == 2
    with pytest.raises(TypeError, match="valid length"):
        len(IterableWrapper([("a", DATA)]).check_hash(SHA, on_error="skip"))


def test_what_does_not_match_can_be_left_out_or_tried_again() -> None:
    pairs = [("a", DATA), ("a", b"damaged"), ("a", DATA)]
    with pytest.warns(UserWarning, match="goes on after HashMismatch"):
        assert len(list(IterableWrapper(pairs).check_hash(SHA, on_error="skip"))) == 2

    class Flaky(io.BytesIO):
        fails = 1

        def read(self, *args: Any) -> bytes:
            if self.tell() and self.fails:
                self.fails -= 1
                raise OSError("the line is busy")
            return super().read(1000)

    with pytest.warns(UserWarning, match="the line is busy"):
        [(_, stream)] = checked(Flaky(DATA), on_error="retry(1)")
    assert b"".join(iter(lambda: stream.read(1000), b"")) == DATA

    class FlakyOneWay(OneWay):
        reads = 0

        def read(self, *args: Any) -> bytes:
            self.reads += 1
            if self.reads == 2:
                raise OSError("gone")
            return super().read(1000)

    with pytest.warns(UserWarning, match="gone"), pytest.raises(ValueError, match="closed file"):
        checked(FlakyOneWay(DATA), on_error="retry(1)")


def test_streams_that_were_refused_leave_no_temporary_file() -> None:
    def pieces() -> Iterator[bytes]:
        yield DATA
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        checked(pieces())
