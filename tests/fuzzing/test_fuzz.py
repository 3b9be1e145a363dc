"""Damaged files of every format: cut short, and a sample of flips and splices (`make fuzz`: everywhere, and all).

Files that are long, which are archives, are cut about the borders of their blocks and at some bytes in between.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from tests.fuzzing import kit
from tests.fuzzing.format import Format
from tests.fuzzing.formats import FORMATS
from tests.fuzzing.kit import DAMAGES, Bench, bench

LONG = 2000  # bytes of a file
SAMPLE = 150  # flips, and as many splices


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_a_file_that_is_cut_short_is_noticed(form: Format) -> None:
    with bench(form) as tries:
        assert tries.expected, "the sound file has no elements"
        bugs = [
            f"cut/{length}: {verdict.outcome}"
            for length, verdict in tries.cut(7 if len(tries.data) > LONG else 1)
            if verdict.is_bug
        ]
    assert bugs == []


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_damage_is_noticed(form: Format, damage: str) -> None:
    with bench(form) as tries:
        verdicts = {number: tries.tried(tries.damaged(damage, number, seed=0)) for number in range(SAMPLE)}
    assert [f"{damage}/{number}: {v.outcome}" for number, v in verdicts.items() if v.is_bug] == []


def test_a_row_group_whose_columns_have_lost_their_rows_is_noticed() -> None:
    form = next(form for form in FORMATS if form.name == "plain.parquet")
    with bench(form) as tries:
        assert tries.tried(tries.damaged("flip", 8169, seed=0)).outcome == "declared"


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_follows_from_the_seed_and_is_damage(damage: str) -> None:
    data = bytes(range(256))
    made = [DAMAGES[damage](data, random.Random(f"a seed/{number}")) for number in range(50)]
    assert made == [DAMAGES[damage](data, random.Random(f"a seed/{number}")) for number in range(50)]
    assert sum(one != data for one in made) > 45


def _reads_all(path: str) -> Pipe:
    return IterableWrapper([path]).open_files("rb").readlines()


def _waits(path: str) -> Pipe:
    return IterableWrapper([path]).map(_waiting)


def _waiting(path: str) -> bytes:
    while (data := Path(path).read_bytes()) != b"sound":
        pass
    return data


def _writes(path: str) -> Pipe:
    return IterableWrapper([path]).map(_left)


def _left(path: str) -> str:
    data = Path(path).read_bytes()
    if data != b"sound":
        Path(path).with_name("left").write_bytes(data)
    return "sound"


def _decodes(path: str) -> Pipe:
    return IterableWrapper([path]).open_files("rb").readlines(decode=True)


@pytest.mark.parametrize(
    ("read", "data", "what"),
    [
        (_reads_all, b"one", "wrong elements"),
        (_waits, b"two", "it hangs"),
        (_writes, b"three", "unexpected files"),
        (_decodes, b"\xff", "undeclared UnicodeDecodeError"),
    ],
)
def test_a_bug_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: object, data: bytes, what: str) -> None:
    monkeypatch.setattr(kit, "PATIENCE", 0.5)
    form = Format("some.bytes", lambda: b"sound", read)  # type: ignore[arg-type]  # a list of functions has lost their type
    verdict = Bench(form, tmp_path).tried(data)
    assert verdict.is_bug
    assert verdict.outcome.startswith(what)
