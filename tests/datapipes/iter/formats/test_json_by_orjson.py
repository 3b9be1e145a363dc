"""parse_jsonl by orjson gives the values, errors and texts of json, for any lines and from any kind of stream."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from datapipes.elements.streams import StreamWrapper
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from datapipes.iter.formats import json as json_module
from datapipes.iter.formats.json_by_orjson import LineBlocks
from datapipes.messages.switches import FAST
from tests.datapipes.iter.mishaps import outcomes

Chance = random.Random

NUMBERS = [
    *("0", "-0", "-0.0", "1", "-1", "1e5", "1E+2", "1e18", "1e19", "1e22", "1e999", "-1e999", "1E400", "1e-400"),
    *(str(2**bits + more) for bits in (63, 64) for more in (-1, 0, 1)),
    *(str(-(2**bits) + more) for bits in (63, 64) for more in (-1, 0, 1)),
    *("4.9e-324", "2.4e-324", "2.2250738585072011e-308", "1.7976931348623157e308", "1.7976931348623159e308"),
    *("NaN", "Infinity", "-Infinity", "0.1", "0.30000000000000004", "9007199254740993.0", "8.5e-5"),
    *("123456789012345678", "1234567890123456789", "0.1234567890123456789", "1234567890" * 4),
]
NO_NUMBERS = ["nan", "01", "1.", ".5", "+1", "-", "1e", "0x1", "1_000", "٣"]
TEXTS = ['""', '"a"', '"ä"', '"\\u00e4"', '"\\ud83d\\ude00"', '"😀"', '"\\n\\"\\\\"', '"1234567890123456789"', '"[[{"']
ODD_TEXTS = [
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\u0000"',
    '"\\x"',
    '"\\u12"',
    '"\t"',
    '"\x00"',
    '"open',
    "'a'",
    '"\x7f"',
]
LITERALS = ["true", "false", "null"]
ENDS = [",", "]", "}", " 1", "],[2", "\f", "\v", "\u00a0", "//"]
DEPTHS = (5, 300, 499, 501, 800, 900, 950, 990, 1000, 1023, 1024, 1025, 2000, 100_000)


def document(chance: Chance, odd: float, depth: int = 0) -> str:
    """The text of a document; parts of it are none, with a chance of ``odd``."""
    kind = 0.0 if depth > 4 else chance.random()
    if kind < 0.35:
        return chance.choice(NO_NUMBERS if chance.random() < odd else NUMBERS)
    if kind < 0.6:
        return chance.choice(ODD_TEXTS if chance.random() < odd else TEXTS)
    if kind < 0.7:
        return chance.choice(["True", "nul", ""] if chance.random() < odd else LITERALS)
    inner = [document(chance, odd, depth + 1) for _ in range(chance.randrange(4))]
    comma = chance.choice([",", " , ", ",\t", ",\r"])
    if kind < 0.85:
        made = f"[{comma.join(inner)}]"
    else:
        made = "{" + comma.join(f"{chance.choice(TEXTS)}: {each}" for each in inner) + "}"
    if chance.random() < odd:
        return made[:-1]
    return made + chance.choice(ENDS) if chance.random() < odd else made


def line(chance: Chance) -> str:
    match chance.randrange(20):
        case 0:
            depth = chance.choice(DEPTHS)
            return "[" * depth + "]" * depth if chance.random() < 0.5 else '{"a":' * depth + "1" + "}" * depth
        case 1:
            return "[" + ",".join(["[1, 2]"] * chance.choice((200, 600))) + "]"
        case 2:
            return chance.choice(["", " ", "\t", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2003"])
        case 3:
            return "\ufeff" + document(chance, 0)
        case 4:
            return '{"a": 1, "b": 2, "a": 3}'
    return document(chance, chance.choice((0, 0, 0.1)))


def content(chance: Chance) -> str:
    newline = chance.choice(["\n", "\n", "\r\n"])
    return newline.join(line(chance) for _ in range(chance.randrange(1, 60))) + chance.choice(["", newline])


def encoded(text: str, chance: Chance) -> bytes:
    """The bytes of a text, sometimes with a wrong one, or in another encoding."""
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    match chance.randrange(12):
        case 0:
            data[chance.randrange(len(data)) :][:1] = bytes([chance.randrange(256)])
        case 1:
            return text.encode("utf-16")
        case 2:
            data[len(data) // 2 : len(data) // 2] = b"\xff\xed\xa0\x80"
    return bytes(data)


def from_file(folder: Path, data: bytes, buffering: int) -> Any:
    (folder / "a.jsonl").write_bytes(data)
    return StreamWrapper((folder / "a.jsonl").open("rb", buffering))


STREAMS: dict[str, Callable[[Path, str, Chance], Any]] = {
    "bytes": lambda folder, text, chance: io.BytesIO(encoded(text, chance)),
    "file": lambda folder, text, chance: from_file(folder, encoded(text, chance), 8192),
    "small buffer": lambda folder, text, chance: from_file(folder, encoded(text, chance), 17),
    "text": lambda folder, text, chance: io.StringIO(text, newline=""),
    "list": lambda folder, text, chance: text.split("\n"),
    "other bytes": lambda folder, text, chance: list(map(bytearray, encoded(text, chance).splitlines())),
}


def read(pipe: Pipe) -> list[str]:
    return [each if isinstance(each, str) and "Error" in each else repr(each) for each in outcomes(pipe)]


@pytest.mark.parametrize("kind", STREAMS)
def test_values_and_errors_are_those_of_json(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(60):
        found = []
        for fast in "01":
            monkeypatch.setenv(FAST, fast)
            chance = Chance(f"{kind}/{seed}")
            stream = STREAMS[kind](tmp_path, content(chance), chance)
            found.append(read(IterableWrapper([("f", stream)], deepcopy=False).parse_jsonl(return_path=False)))
        assert found[0] == found[1], f"seed {seed}"


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63), -(2**63) - 1, -(2**64)])
def test_integers_stay_integers(number: int) -> None:
    lines = io.BytesIO(b'{"x": [%d]}\n1\n' % number)
    found = list(IterableWrapper([("f", lines)], deepcopy=False).parse_jsonl(return_path=False))
    assert found == [{"x": [number]}, 1]
    assert type(found[0]["x"][0]) is int


@pytest.fixture
def by_json(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The lines that json has decoded."""
    seen: list[Any] = []
    loads = json_module.loads

    def noted(line: Any, options: Any) -> Any:
        seen.append(line)
        return loads(line, options)

    monkeypatch.setattr(json_module, "loads", noted)
    monkeypatch.delenv(FAST, raising=False)
    return seen


DEEP = b"[" * 600 + b"]" * 600 + b"\n"
WIDE = b"[" + b",".join([b'[1, {"a": []}]'] * 600) + b"]\n"


def text_of(data: bytes) -> Any:
    return io.StringIO(data.decode())


def lines_of(data: bytes) -> Any:
    return data.splitlines(keepends=True)


@pytest.mark.parametrize("stream", [io.BytesIO, text_of, lines_of])
def test_only_lines_that_need_it_go_to_json(stream: Callable[[bytes], Any], by_json: list[Any]) -> None:
    need = [b"12345678901234567890\n", b"NaN\n", DEEP, b"0.1234567890123456789\n"]
    lines = [b'{"x": 1}\n', need[0], b"\n", b"1234567890\n", need[1], WIDE, need[2], b"2\n", need[3], b"3\n"]
    pipe = IterableWrapper([("f", stream(b"".join(lines)))], deepcopy=False).parse_jsonl(return_path=False)
    assert len(list(pipe)) == len(lines) - 1
    assert [line if isinstance(line, bytes) else line.encode() for line in by_json] == need


def test_options_are_those_of_json(by_json: list[Any]) -> None:
    pipe = IterableWrapper([("f", io.BytesIO(b"[1.5]\n[2]\n"))], deepcopy=False).parse_jsonl(parse_float=str)
    assert list(pipe) == [("f", ["1.5"]), ("f", [2])]
    assert len(by_json) == 2


def test_the_library_is_chosen_when_the_stage_is_opened(by_json: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for now, later, expected in (("1", "0", 0), ("0", "1", 4)):
        pair = [("f", io.BytesIO(b"1\n2\n")), ("g", io.BytesIO(b"3\n4\n"))]
        monkeypatch.setenv(FAST, now)
        stream = iter(IterableWrapper(pair, deepcopy=False).parse_jsonl(return_path=False))
        assert next(stream) == 1
        monkeypatch.setenv(FAST, later)
        assert list(stream) == [2, 3, 4]
        assert len(by_json) == expected


class Breaking(io.RawIOBase):
    """A file that breaks at a byte, each time it is read there."""

    def __init__(self, data: bytes, at: int, error: type[Exception]) -> None:
        self.file, self.at, self.error = io.BytesIO(data), at, error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.file.tell() == self.at:
            raise self.error("broken")
        data = self.file.read(min(len(buffer), self.at - self.file.tell()))
        buffer[: len(data)] = data
        return len(data)


@pytest.mark.parametrize("at", [0, 3, 4, 9, 10, 500, 8192, 8198, 10_885])
@pytest.mark.parametrize("error", [OSError, ValueError])
def test_an_error_of_the_stream_comes_after_the_lines_before_it(
    at: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(b'{"x": %d}\n' % i for i in range(999)) + b"12345678901234567890\n"
    found = []
    for fast in "01":
        monkeypatch.setenv(FAST, fast)
        pair = ("f", io.BufferedReader(Breaking(data, at, error), 8192))
        found.append(outcomes(IterableWrapper([pair], deepcopy=False).parse_jsonl(return_path=False), 1100))
    assert found[0] == found[1]
    assert len([each for each in found[0] if not isinstance(each, str)]) == data[:at].count(b"\n")


def test_a_block_ends_with_its_last_line() -> None:
    long = b"[" + b"1," * 10**5 + b"1]\n"
    data = b"1\n" * 3000 + long + b"\n2\n3"
    for buffering in (16, 8192):
        blocks = list(map(list, LineBlocks(io.BufferedReader(io.BytesIO(data), buffering))))
        assert [line for block in blocks for line in block] == data.splitlines(keepends=True)
        assert max(map(len, blocks)) <= buffering
    assert not LineBlocks.fit(io.StringIO("1\n"))
    assert issubclass(orjson.JSONDecodeError, ValueError)
