"""readlines gives every line of every stream; one that cannot be decoded costs no other."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument
from datapipes.iter import IterableWrapper, LineReader
from tests.datapipes.iter.mishaps import outcomes


def lines(*files: Any, **options: Any) -> LineReader:
    rows = [(f"file {i}", file) for i, file in enumerate(files)]
    dp = IterableWrapper(rows, deepcopy=False).readlines(**options)
    assert isinstance(dp, LineReader)
    return dp


def text(content: str) -> io.StringIO:
    return io.StringIO(content)


def test_a_path_and_a_line_without_its_newline() -> None:
    assert list(lines(text("a\nb\n"), text(""), text("c"))) == [("file 0", "a"), ("file 0", "b"), ("file 2", "c")]


def test_the_line_alone() -> None:
    assert list(lines(text("a\n\nb"), return_path=False)) == ["a", "", "b"]


def test_newlines_are_kept_if_told_to() -> None:
    assert list(lines(io.BytesIO(b"a\r\nb\n\nc"), return_path=False, strip_newline=False)) == [
        b"a\r\n",
        b"b\n",
        b"\n",
        b"c",
    ]


def test_only_newlines_are_stripped() -> None:
    assert list(lines(io.BytesIO(b" a \t\r\n"), return_path=False)) == [b" a \t"]
    assert list(lines(text(" a \t\n"), return_path=False)) == [" a \t"]


def test_bytes_stay_bytes_unless_they_are_decoded() -> None:
    assert list(lines(io.BytesIO("ä\n".encode()), return_path=False)) == ["ä".encode()]
    assert list(lines(io.BytesIO("ä\n".encode()), return_path=False, decode=True)) == ["ä"]
    assert list(lines(text("ä\n"), return_path=False, decode=True)) == ["ä"]


@pytest.mark.parametrize(("skip", "left"), [(0, ["a", "b", "c"]), (2, ["c"]), (3, []), (9, [])])
def test_skip_lines_of_each_file(skip: int, left: list[str]) -> None:
    content = "a\nb\nc\n"
    assert list(lines(text(content), text(content), skip_lines=skip, return_path=False)) == left * 2
    for encoding in ("utf-8", "utf-16"):
        binary = io.BytesIO(content.encode(encoding))
        assert list(lines(binary, skip_lines=skip, return_path=False, decode=True, encoding=encoding)) == left


def test_skip_lines_below_zero_is_refused_with_the_call() -> None:
    with pytest.raises(
        BadArgument, match=r"'skip_lines' is required to be a positive.*, in \.readlines\(skip_lines=-1\)"
    ):
        lines(skip_lines=-1)


UNDECODABLE = b"a\n\xff\nb\n"


@pytest.mark.parametrize("file", [io.BytesIO, lambda data: data.splitlines(keepends=True)])
def test_undecodable_bytes_are_an_error_of_their_line(file: Any) -> None:
    first, error, last = outcomes(lines(file(UNDECODABLE), return_path=False, decode=True))
    assert (first, last) == ("a", "b")
    assert error.startswith("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff")


@pytest.mark.parametrize(("errors", "line"), [("ignore", ""), ("replace", "\ufffd"), ("surrogateescape", "\udcff")])
def test_undecodable_bytes_are_treated_as_told(errors: str, line: str) -> None:
    assert list(lines(io.BytesIO(UNDECODABLE), return_path=False, decode=True, errors=errors)) == ["a", line, "b"]


def test_lines_that_are_skipped_may_hold_anything() -> None:
    assert list(lines(io.BytesIO(b"\xff\nb\n"), return_path=False, decode=True, skip_lines=1)) == ["b"]


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "shift_jis"]
)
def test_encodings(encoding: str) -> None:
    # The bytes of these letters include those of a newline in the encodings that take two or four for each.
    letters = "\u0a0a\u0a85" if encoding.startswith("utf") else "ab"
    content = f"{letters}\n\nx{letters}\r\nlast"
    binary = io.BytesIO(content.encode(encoding))
    dp = lines(binary, return_path=False, decode=True, encoding=encoding)
    assert list(dp) == [letters, "", f"x{letters}", "last"]


def test_a_file_cut_off_within_a_character_is_an_error() -> None:
    binary = io.BytesIO("a\nb".encode("utf-16")[:-1])
    first, error = outcomes(lines(binary, return_path=False, decode=True, encoding="utf-16"))
    assert first == "a"
    assert error.startswith("UnicodeDecodeError: 'utf-16")


def test_an_unknown_encoding_is_an_error() -> None:
    with pytest.raises(LookupError, match="unknown encoding: klingon"):
        list(lines(io.BytesIO(b"a"), decode=True, encoding="klingon"))


def test_any_file_will_do(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.gz", "wb") as file:
        file.write(b"a\nb\n")
    for decode, expected in ((True, ["a", "b"]), (False, [b"a", b"b"])):
        archive = StreamWrapper(gzip.GzipFile(tmp_path / "a.gz"))
        assert list(lines(archive, return_path=False, decode=decode)) == expected
        assert archive.closed
    with_lines: Iterable[str] = ["a\n", "b\n"]
    assert list(lines(with_lines, return_path=False, decode=True)) == ["a", "b"]


def test_a_row_that_is_no_pair_costs_its_own_element_only() -> None:
    rows: list[Any] = [("x", text("a")), ("no stream",), ("y", 5), ("z", text("b"))]
    found = outcomes(IterableWrapper(rows, deepcopy=False).readlines())
    assert (found[0], found[-1]) == (("x", "a"), ("z", "b"))
    assert [error.partition(":")[0] for error in found[1:-1]] == ["BadArgumentType"] * 2


def test_errors_name_the_file_and_the_line() -> None:
    (error,) = outcomes(lines(io.BytesIO(b"\xff\n\xff\n"), decode=True, skip_lines=1))
    assert error.endswith("invalid start byte, in file 0, line 2")
    *_, error = outcomes(lines(io.BytesIO("a\nb".encode("utf-16")[:-1]), decode=True, encoding="utf-16"))
    assert error.endswith("truncated data, in file 0, after line 1")


def test_a_stream_that_breaks_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % n for n in range(2000)))
    (tmp_path / "a.gz").write_bytes(whole[: len(whole) // 2])
    it = iter(lines(StreamWrapper(gzip.GzipFile(tmp_path / "a.gz")), return_path=False))
    with pytest.raises(EOFError, match=r"^file 0, after line \d+: Compressed file ended before"):
        list(it)


def test_a_text_stream_is_not_read_on_after_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"line\n" * 3000 + b"\xff\n" + b"line\n" * 3000)
    dp = IterableWrapper([str(tmp_path / "a.txt")]).open_files(encoding="utf-8").readlines(return_path=False)
    *found, error = outcomes(dp, 9999)
    assert set(found) == {"line"}
    assert error.endswith(f"a.txt, after line {len(found)}")
