"""parse_json_files and parse_jsonl give what the json module reads; errors name file and line, and cost no other."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import CorruptData
from datapipes.iter import IterableWrapper, JsonLinesParser, JsonParser
from tests.datapipes.iter.mishaps import outcomes

TOO_LONG = (
    "Exceeds the limit (4300 digits) for integer string conversion: value has 5000 digits; "
    "use sys.set_int_max_str_digits() to increase the limit"
)


def files(*contents: str | bytes) -> Any:
    streams = [io.BytesIO(data) if isinstance(data, bytes) else io.StringIO(data) for data in contents]
    return IterableWrapper([(f"file {i}", stream) for i, stream in enumerate(streams)], deepcopy=False)


@pytest.mark.parametrize(
    "content", ['{"ä": [1, null]}', '{"ä": [1, null]}'.encode(), '{"ä": [1, null]}'.encode("utf-16")]
)
def test_a_document_for_each_file(content: str | bytes) -> None:
    dp = files(content, content).parse_json_files()
    assert isinstance(dp, JsonParser)
    assert len(dp) == 2
    assert list(dp) == [("file 0", {"ä": [1, None]}), ("file 1", {"ä": [1, None]})]


def test_options_of_the_json_module() -> None:
    assert list(files("[1.5]").parse_json_files(parse_float=str)) == [("file 0", ["1.5"])]
    assert list(files("[1.5]").parse_jsonl(return_path=False, parse_float=str)) == [["1.5"]]


def test_a_stream_is_closed_whether_or_not_it_can_be_read() -> None:
    streams = [StreamWrapper(io.StringIO(content)) for content in ("1", "{")]
    dp = IterableWrapper([("a", stream) for stream in streams], deepcopy=False).parse_json_files()
    assert len(outcomes(dp)) == 2
    assert all(stream.closed for stream in streams)


def test_a_document_that_is_none_is_an_error_that_names_its_file() -> None:
    with pytest.raises(json.JSONDecodeError, match=r"^file 0: Expecting value: line 2 column 1 \(char 2\)") as caught:
        list(files("[\n}").parse_json_files())
    assert (caught.value.lineno, caught.value.pos) == (2, 2)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert outcomes(files(b'"\xff"', "1" * 5000, "[" * 10**5, "2").parse_json_files()) == [
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 1: invalid start byte, in file 0",
        f"ValueError: file 1: {TOO_LONG}",
        "CorruptData: file 2: nested too deep",
        ("file 3", 2),
    ]


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_document_for_each_line_that_is_not_blank(as_bytes: bool) -> None:
    content = '{"x": 1}\n\n  \n[2]\r\n"three"'
    dp = files(content.encode() if as_bytes else content).parse_jsonl()
    assert isinstance(dp, JsonLinesParser)
    assert list(dp) == [("file 0", {"x": 1}), ("file 0", [2]), ("file 0", "three")]
    assert list(files("", "\n", "1\n").parse_jsonl(return_path=False)) == [1]


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_line_that_is_none_costs_no_other(as_bytes: bool) -> None:
    content = '1\n{"x":\n\n2\n[}\n3\n'
    assert outcomes(files(content.encode() if as_bytes else content).parse_jsonl(return_path=False)) == [
        *(1, "JSONDecodeError: file 0, line 2: Expecting value: line 2 column 1 (char 6)"),
        *(2, "JSONDecodeError: file 0, line 5: Expecting value: line 1 column 2 (char 1)", 3),
    ]


def test_a_line_that_cannot_be_decoded_costs_no_other() -> None:
    one, error, two = outcomes(files(b'1\n"\xff"\n2').parse_jsonl(return_path=False))
    assert (one, two) == (1, 2)
    assert error.endswith("invalid start byte, in file 0, line 2")


def test_lines_are_passed_over_without_being_parsed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("1\n\n2\n[}\n3\n4\n")
    parsed: list[str] = []
    for mode in ("r", "rb"):
        dp = IterableWrapper([str(tmp_path / "a.jsonl")]).open_files(mode)
        it: Any = iter(dp.parse_jsonl(return_path=False))
        assert [next(it), next(it)] == [1, 2]
        with pytest.raises(json.JSONDecodeError):
            next(it)
        again: Any = iter(dp.parse_jsonl(return_path=False))
        again.load_state_dict(it.state_dict())
        assert list(again) == [3, 4]
        assert not parsed


def test_after_an_error_of_a_text_stream_it_resumes_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"1\n" * 5000 + b'"\xff"\n' + b"2\n" * 5000)
    (tmp_path / "b.jsonl").write_bytes(b"3\n")
    paths = IterableWrapper([str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")])
    dp = paths.open_files(encoding="utf-8").parse_jsonl(return_path=False)
    it: Any = iter(dp)
    with pytest.raises(UnicodeDecodeError, match=r"a.jsonl, after line \d+"):
        list(it)
    again: Any = iter(dp)
    again.load_state_dict(it.state_dict())
    assert list(again) == list(it) == [3]


def test_bad_lines_are_left_out_and_counted(recwarn: pytest.WarningsRecorder) -> None:
    it: Any = iter(files("1\n{\n2\n").parse_jsonl(return_path=False, on_error="skip", max_errors=1))
    assert list(it) == [1, 2]
    assert list(it.errors.values()) == [1]
    assert issubclass(CorruptData, ValueError)
