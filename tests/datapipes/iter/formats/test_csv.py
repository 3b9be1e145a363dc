"""parse_csv and parse_csv_as_dict give the rows that the csv module finds, in text and in bytes alike."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes.errors import BadArgument
from datapipes.iter import CSVDictParser, CSVParser, IterableWrapper
from tests.datapipes.iter.mishaps import outcomes


def parsed(content: str | bytes, method: str = "parse_csv", **options: Any) -> Any:
    file = io.BytesIO(content) if isinstance(content, bytes) else io.StringIO(content)
    return getattr(IterableWrapper([("a.csv", file)], deepcopy=False), method)(**options)


def test_rows_of_every_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")
    (tmp_path / "b.csv").write_text("")
    (tmp_path / "c.csv").write_text("5,6")
    files = IterableWrapper([str(tmp_path / name) for name in ("a.csv", "b.csv", "c.csv")])
    for mode in ("r", "rb"):
        dp = files.open_files(mode).parse_csv()
        assert isinstance(dp, CSVParser)
        assert list(dp) == list(dp) == [["1", "2"], ["3", "4"], ["5", "6"]]


QUOTED = 'name,"with, comma","two\nlines","a ""quote"""\n\n1,,3, 4 \n'
ROWS = [["name", "with, comma", "two\nlines", 'a "quote"'], [], ["1", "", "3", " 4 "]]


@pytest.mark.parametrize("content", [QUOTED, QUOTED.encode()])
def test_quotes_newlines_and_empty_fields(content: str | bytes) -> None:
    assert list(parsed(content)) == ROWS


def test_newlines_of_other_systems() -> None:
    assert list(parsed(b'a,"b\r\nc"\r\nd,e\r\n')) == [["a", "b\r\nc"], ["d", "e"]]


def test_as_tuples_and_with_paths() -> None:
    assert list(parsed("1,2\n", as_tuple=True)) == [("1", "2")]
    assert list(parsed("1,2\n", return_path=True)) == [("a.csv", ["1", "2"])]
    assert list(parsed("1,2\n", return_path=True, as_tuple=True)) == [("a.csv", ("1", "2"))]


@pytest.mark.parametrize("content", ["head\n1\n2\n", b"head\n1\n2\n"])
@pytest.mark.parametrize(("skip", "rows"), [(0, [["head"], ["1"], ["2"]]), (1, [["1"], ["2"]]), (3, []), (9, [])])
def test_skip_lines(content: str | bytes, skip: int, rows: list[list[str]]) -> None:
    assert list(parsed(content, skip_lines=skip)) == rows


@pytest.mark.parametrize("method", ["parse_csv", "parse_csv_as_dict"])
def test_skip_lines_below_zero_is_refused_with_the_call(method: str) -> None:
    with pytest.raises(BadArgument, match=rf"'skip_lines' is required.*, in \.{method}\(skip_lines=-1\)"):
        parsed("", method, skip_lines=-1)


@pytest.mark.parametrize(
    ("content", "options", "row"),
    [
        ("1;2", {"delimiter": ";"}, ["1", "2"]),
        ("'1,2',3", {"quotechar": "'"}, ["1,2", "3"]),
        ("1,2", {"quoting": csv.QUOTE_NONNUMERIC}, [1.0, 2.0]),
        ("1\t2", {"dialect": "excel-tab"}, ["1", "2"]),
        ("1, 2", {"skipinitialspace": True}, ["1", "2"]),
    ],
)
def test_options_of_the_csv_module(content: str, options: dict[str, Any], row: list[Any]) -> None:
    assert list(parsed(content, **options)) == [row]


def test_an_option_that_csv_cannot_use_is_an_error_of_the_iteration() -> None:
    dp = parsed("1", delimiter=";;")
    with pytest.raises(TypeError, match="delimiter") as caught:
        list(dp)
    assert ".parse_csv(delimiter=';;')" in caught.value.__notes__[0]


@pytest.mark.parametrize("method", ["parse_csv", "parse_csv_as_dict"])
def test_bytes_that_are_not_decoded_are_an_error(method: str) -> None:
    with pytest.raises(csv.Error, match="should return strings, not bytes"):
        list(parsed(b"1,2\n", method, decode=False))


UNDECODABLE = b"a,1\n\xff,2\nb,3\n"


def test_undecodable_bytes_are_an_error_of_their_line() -> None:
    first, error, last = outcomes(parsed(UNDECODABLE))
    assert (first, last) == (["a", "1"], ["b", "3"])
    assert error.startswith("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff")


def test_in_a_text_file_they_are_an_error_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(UNDECODABLE)
    dp = IterableWrapper([str(tmp_path / "a.csv")]).open_files(encoding="utf-8").parse_csv()
    with pytest.raises(UnicodeDecodeError, match="can't decode byte 0xff"):
        list(dp)


@pytest.mark.parametrize(("errors", "field"), [("ignore", ""), ("replace", "\ufffd")])
def test_undecodable_bytes_are_treated_as_told(errors: str, field: str) -> None:
    assert list(parsed(UNDECODABLE, errors=errors)) == [["a", "1"], [field, "2"], ["b", "3"]]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8-sig", "utf-16", "utf-16-be", "utf-32-le"])
def test_encodings(encoding: str) -> None:
    content = 'ä,"two\nlines"\nö,2\n'
    assert list(parsed(content.encode(encoding), encoding=encoding)) == [["ä", "two\nlines"], ["ö", "2"]]
    assert list(parsed(content.encode(encoding), encoding=encoding, skip_lines=2)) == [["ö", "2"]]


def test_a_row_that_csv_refuses_costs_no_other() -> None:
    content = "a\n" + "x" * 30 + "\nb\n"
    limit = csv.field_size_limit(20)
    try:
        assert outcomes_of_csv(parsed(content)) == [["a"], "a.csv, line 2: field larger than field limit (20)", ["b"]]
    finally:
        csv.field_size_limit(limit)


def outcomes_of_csv(dp: Any) -> list[Any]:
    found: list[Any] = []
    it = iter(dp)
    while True:
        try:
            found.append(next(it))
        except StopIteration:
            return found
        except csv.Error as error:
            found.append(str(error))


def test_as_dicts_the_first_line_names_the_columns() -> None:
    for content in ("x,y\n1,2\n3,4\n", b"x,y\n1,2\n3,4\n"):
        dp = parsed(content, "parse_csv_as_dict")
        assert isinstance(dp, CSVDictParser)
        assert list(dp) == [{"x": "1", "y": "2"}, {"x": "3", "y": "4"}]


def test_as_dicts_each_file_has_its_own_header() -> None:
    files = [("a", io.StringIO("x\n1\n")), ("b", io.StringIO("y\n2\n")), ("c", io.StringIO(""))]
    dp = IterableWrapper(files, deepcopy=False).parse_csv_as_dict(return_path=True)
    assert list(dp) == [("a", {"x": "1"}), ("b", {"y": "2"})]


def test_as_dicts_with_options() -> None:
    assert list(parsed("junk\nx;y\n1;2\n", "parse_csv_as_dict", skip_lines=1, delimiter=";")) == [{"x": "1", "y": "2"}]
    assert list(parsed("1,2\n", "parse_csv_as_dict", fieldnames=["a", "b"])) == [{"a": "1", "b": "2"}]
    assert list(parsed("x,y\n1\n1,2,3\n", "parse_csv_as_dict", restkey="more", restval="?")) == [
        {"x": "1", "y": "?"},
        {"x": "1", "y": "2", "more": ["3"]},
    ]


def test_as_dicts_undecodable_bytes_are_an_error_of_their_line() -> None:
    first, error, last = outcomes(parsed(b"x,y\n" + UNDECODABLE, "parse_csv_as_dict"))
    assert (first, last) == ({"x": "a", "y": "1"}, {"x": "b", "y": "3"})
    assert error.startswith("UnicodeDecodeError")


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("before", [0, 1, 3, 300])
def test_a_nul_is_an_error_of_its_line(as_bytes: bool, before: int) -> None:
    content = "a,1\n" * before + "b,\0\nc,2\n"
    found = outcomes_of_csv(parsed(content.encode() if as_bytes else content, skip_lines=min(before, 1)))
    wrong = f"a.csv, line {before + 1}: line contains NUL"
    assert found == [["a", "1"]] * max(before - 1, 0) + [wrong, ["c", "2"]]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('a,b\n1,"two\nthree\n4,5\n', [["a", "b"]]),
        ('a\n"', [["a"]]),
        ('a,"b""', []),
        ('"a\n' * 3, [["a\na\n"]]),
    ],
)
def test_a_quote_that_is_never_closed_is_an_error(content: str, rows: list[Any]) -> None:
    for data in (content, content.encode()):
        *found, error = outcomes_of_csv(parsed(data))
        lines = len(content.splitlines())
        assert error == f"a.csv, line {lines}: the file ends within quotes that were opened and never closed"
        assert found == rows or content.startswith('"a')
    *found, error = outcomes_of_csv(parsed("x,y\n" + content, "parse_csv_as_dict", ragged="keep"))
    assert "the file ends within quotes" in error


@pytest.mark.parametrize("content", ["a,b\\", '"a"\na\\\\\\'])
def test_an_escape_that_nothing_follows_is_an_error(content: str) -> None:
    *_, error = outcomes_of_csv(parsed(content, escapechar="\\"))
    assert error.endswith("the file ends with an escape character that escapes nothing")
    assert list(parsed("a\\\\", escapechar="\\")) == [["a\\"]]


def test_ragged_rows_are_kept_or_refused() -> None:
    content = "\n1,2\n3\n\n4,5,6\n7,8\n"
    assert list(parsed(content)) == [[], ["1", "2"], ["3"], [], ["4", "5", "6"], ["7", "8"]]
    assert outcomes_of_csv(parsed(content, ragged="error", as_tuple=True)) == [
        *((), ("1", "2"), "a.csv, line 3: 1 fields in a row, but the first row has 2", ()),
        *("a.csv, line 5: 3 fields in a row, but the first row has 2", ("7", "8")),
    ]
    with pytest.raises(BadArgument, match=r"ragged must be 'keep' or 'error', got 'no', in .*parse_csv"):
        parsed(content, ragged="no")


def test_as_dicts_ragged_rows_are_refused_unless_they_are_to_be_filled() -> None:
    content = "x,y\n1\n\n1,2,3\n4,5\n"
    assert outcomes_of_csv(parsed(content, "parse_csv_as_dict")) == [
        *("a.csv, line 2: 1 fields in a row, but the header has 2",),
        *("a.csv, line 4: 3 fields in a row, but the header has 2", {"x": "4", "y": "5"}),
    ]
    filled = [{"x": "1", "y": None}, {"x": "1", "y": "2", None: ["3"]}, {"x": "4", "y": "5"}]
    assert list(parsed(content, "parse_csv_as_dict", ragged="keep")) == filled
    assert filled == list(csv.DictReader(io.StringIO(content)))


@pytest.mark.parametrize("options", [{}, {"ragged": "keep"}, {"fieldnames": ["x", "y", "x"]}])
def test_as_dicts_the_last_of_two_columns_of_one_name_counts(options: dict[str, Any]) -> None:
    content = "x,y,x\n1,2,3\n4,5,6\n"
    rows = list(csv.DictReader(io.StringIO(content), fieldnames=options.get("fieldnames")))
    assert rows[-1] == {"x": "6", "y": "5"}
    assert list(parsed(content, "parse_csv_as_dict", **options)) == rows


def test_as_dicts_a_header_that_cannot_be_read_costs_the_file() -> None:
    files = [("a.csv", io.BytesIO(b"x,\xff\n1,2\n3,4\n")), ("b.csv", io.BytesIO(b"y\n5\n"))]
    error, row = outcomes(IterableWrapper(files, deepcopy=False).parse_csv_as_dict())
    assert error.endswith("invalid start byte, in a.csv, line 1")
    assert row == {"y": "5"}


def test_errors_name_the_file_and_the_line() -> None:
    content = b'a,"one\ntwo"\n\xff,1\nb,\xff\nc\n'
    assert outcomes(parsed(content)) == [
        ["a", "one\ntwo"],
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte, in a.csv, line 3",
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 2: invalid start byte, in a.csv, line 4",
        ["c"],
    ]


def test_bad_rows_are_left_out_and_counted(recwarn: pytest.WarningsRecorder) -> None:
    iterator = iter(parsed(b"a,1\n\xff,2\nb,\0\nc,3\nd\ne,4\n", ragged="error", on_error="skip"))
    assert list(iterator) == [["a", "1"], ["c", "3"], ["e", "4"]]
    assert list(iterator.errors.values()) == [3]
    assert "a.csv, line 2" in str(recwarn[0].message)


def test_a_text_stream_is_not_read_on_after_an_error(tmp_path: Path) -> None:
    lines = [b"row %d,x\n" % n for n in range(5000)]
    lines[3000] = b"\xff,y\n"
    (tmp_path / "a.csv").write_bytes(b"".join(lines))
    *rows, error = outcomes(IterableWrapper([str(tmp_path / "a.csv")]).open_files(encoding="utf-8").parse_csv(), 9999)
    assert error.startswith("UnicodeDecodeError")
    assert rows == [line.decode().rstrip().split(",") for line in lines[: len(rows)]]  # none is lost on the way


ALPHABET = st.text(st.sampled_from('a,"\n\r;\\ '), max_size=30)


@given(ALPHABET, st.sampled_from([{}, {"delimiter": ";"}, {"quoting": csv.QUOTE_NONE}, {"skipinitialspace": True}]))
def test_the_rows_are_those_of_the_csv_module(content: str, options: dict[str, Any]) -> None:
    try:
        expected: Any = list(csv.reader(io.StringIO(content), **options))
        list(csv.reader(io.StringIO(content + "\n"), strict=False, **options))
    except csv.Error:
        return
    found = outcomes_of_csv(parsed(content, **options))
    if found and isinstance(found[-1], str):
        assert "within quotes" in found.pop()
        with_more = list(csv.reader(io.StringIO(content + 'x"\n'), **options))  # the quote is open: more text is in it
        assert len(with_more) == len(expected)
        expected.pop()
    assert found == expected


def test_field_names_that_the_user_gives_may_be_fewer_than_the_fields() -> None:
    content = "1,2,3\n4,5\n6\n"
    told = outcomes_of_csv(parsed(content, "parse_csv_as_dict", fieldnames=["x", "y"]))
    assert told == [
        *({"x": "1", "y": "2", None: ["3"]}, {"x": "4", "y": "5"}),
        "a.csv, line 3: 1 fields in a row, but the header has 2",
    ]
    strict = parsed(content, "parse_csv_as_dict", fieldnames=["x", "y"], ragged="error")
    with pytest.raises(csv.Error, match="3 fields in a row, but the header has 2"):
        next(iter(strict))
