"""The recipes, run as programs: with workers, they train on all elements, continue where they stopped, and validate."""

from __future__ import annotations

import csv
import io
import json
import re
import tarfile
import wave
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, groupby
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import boto3
import numpy as np
import pytest
import torch
from PIL import Image

from tests.moto_server import CREDENTIALS, moto_server
from tests.preloaded import Preloaded
from tests.test_docs import SECONDS
from tests.test_house import ROOT

FOLDER = ROOT / "tutorials" / "recipes"
TRAIN, HELD_OUT = range(23), range(100, 107)
Make = Callable[[Path, str], list[str]]


class Stopped(BaseException):
    """The program is stopped in a step."""


@dataclass(frozen=True)
class Case:
    """A recipe with data, and the number of each element in a batch. `sizes` replace constants, for small data."""

    name: str
    make: Make
    numbers: Callable[..., list[int]]
    sizes: dict[str, int]
    times: Callable[[int], int] = lambda number: 1
    repeats: bool = False

    def expected(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in numbers for _ in range(self.times(number))]

    @property
    def program(self) -> Path:
        return FOLDER / f"{self.name}.py"

    def __str__(self) -> str:
        return self.name


def jpeg(number: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 30), (2 * number, 2 * number, 2 * number)).save(file, "JPEG", quality=95)
    return file.getvalue()


def pictured(images: torch.Tensor, labels: torch.Tensor) -> list[int]:
    """The labels, which are also the brightness of the pictures."""
    assert images.shape == (len(labels), 3, 224, 224)
    assert images.dtype == torch.uint8
    brightness = images.double().mean((1, 2, 3))
    assert torch.allclose(brightness, 2.0 * labels.double(), atol=2)
    return [int(label) for label in labels]


def pictures(folder: Path, endpoint: str) -> list[str]:
    for name, numbers in (("train", TRAIN), ("validation", HELD_OUT)):
        (folder / name).mkdir()
        with (folder / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["file", "label"])
            rows.writerows((f"{name}/{number}.jpg", number) for number in numbers)
        for number in numbers:
            (folder / name / f"{number}.jpg").write_bytes(jpeg(number))
    return [str(folder)]


def shards(folder: Path, endpoint: str) -> list[str]:
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket=folder.name)
    for name, numbers in (("train", TRAIN), ("validation", HELD_OUT)):
        for shard in range(3):
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as tar:
                for number in numbers[shard::3]:
                    for ending, content in (("jpg", jpeg(number)), ("cls", b"%d" % number)):
                        member = tarfile.TarInfo(f"{number}.{ending}")
                        member.size = len(content)
                        tar.addfile(member, io.BytesIO(content))
            client.put_object(Bucket=folder.name, Key=f"{name}-{shard}.tar", Body=packed.getvalue())
    client.close()
    return [f"s3://{folder.name}/train-{{0..2}}.tar", f"s3://{folder.name}/validation-{{0..2}}.tar", endpoint]


def words(number: int) -> int:
    return number % 5 + 1


def text_of(number: int) -> str:
    return f"a{number} " * words(number)


def document_numbers(batch: dict[str, torch.Tensor]) -> list[int]:
    """The documents of the words in blocks of tokens."""
    assert {name: column.shape[1:] for name, column in batch.items()} == dict.fromkeys(batch, (8,))
    of_token = {2 + crc32(f"a{number}".encode()) % 50_000: number for number in chain(TRAIN, HELD_OUT)}
    return [of_token[token] for token in batch["tokens"].flatten().tolist() if token > 1]


def texts(folder: Path, endpoint: str) -> list[str]:
    for name, numbers in (("train", TRAIN), ("validation", HELD_OUT)):
        (folder / name).mkdir()
        for file in range(3):
            lines = (f"{text_of(number)}\n" for number in numbers[file::3])
            (folder / name / f"{file}.txt").write_text("".join(lines))
    return [str(folder / "train"), str(folder / "validation")]


def sources(folder: Path, endpoint: str) -> list[str]:
    for name, numbers in (("train", TRAIN), ("validation", HELD_OUT)):
        for place, source in enumerate(("web", "books", "code")):
            (folder / name / source).mkdir(parents=True)
            for file in range(2):
                lines = (json.dumps({"text": text_of(number)}) + "\n" for number in numbers[place::3][file::2])
                (folder / name / source / f"{file}.jsonl").write_text("".join(lines))
    return [str(folder / "train"), str(folder / "validation")]


def tables(folder: Path, endpoint: str) -> list[str]:
    import pyarrow
    from pyarrow import parquet

    for name, numbers in (("train", TRAIN), ("validation", HELD_OUT)):
        (folder / name).mkdir()
        table = pyarrow.table({"number": list(numbers), "half": [number / 2 for number in numbers]})
        parquet.write_table(table, folder / name / "0.parquet", row_group_size=4)
    return [str(folder / "train"), str(folder / "validation")]


def table_numbers(rows: dict[str, torch.Tensor]) -> list[int]:
    assert torch.equal(rows["half"], rows["number"] / 2)
    return [int(number) for number in rows["number"]]


def sounds(folder: Path, endpoint: str) -> list[str]:
    for name, numbers in (("train", TRAIN), ("validation", HELD_OUT)):
        (folder / name).mkdir()
        for number in numbers:
            tone = np.sin(2 * np.pi * 40 * (number + 1) * np.arange(8_000 + 100 * number) / 16_000)
            with wave.open(str(folder / name / f"{number}_x.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(16_000)
                file.writeframes(np.int16(10_000 * tone).tobytes())
    return [str(folder / "train"), str(folder / "validation")]


def sounding(spectra: torch.Tensor, labels: torch.Tensor) -> list[int]:
    """The labels, which are also the pitches in steps of the spectrogram."""
    assert spectra.shape == (len(labels), 201, 101)
    assert torch.equal(spectra[:, :, :40].mean(2).argmax(1), labels + 1)
    return [int(label) for label in labels]


def rows(folder: Path, endpoint: str) -> list[str]:
    for name, numbers in (("train", TRAIN), ("validation", HELD_OUT)):
        (folder / name).mkdir()
        for file in range(3):
            lines = (f"{number / 2},{number / 4},{number}\n" for number in numbers[file::3])
            (folder / name / f"{file}.csv").write_text("".join(["x,y,label\n", *lines]))
    return [str(folder / "train"), str(folder / "validation")]


def row_numbers(x: torch.Tensor, y: torch.Tensor, labels: torch.Tensor) -> list[int]:
    assert torch.equal(x, labels / 2)
    assert torch.equal(y, labels / 4)
    return [int(label) for label in labels]


def arrays(folder: Path, endpoint: str) -> list[str]:
    for name, numbers in (("train", TRAIN), ("validation", HELD_OUT)):
        x = torch.tensor(numbers)
        torch.save(x[:, None].expand(-1, 3) / 2, folder / f"{name}-x.pt")
        torch.save(x, folder / f"{name}-y.pt")
    return [str(folder)]


def array_numbers(x: torch.Tensor, y: torch.Tensor) -> list[int]:
    assert torch.equal(x, y[:, None].expand(-1, 3) / 2)
    return [int(number) for number in y]


BLOCKS = {"SIZE": 8, "BATCH": 2, "AT_ONCE": 3}
CASES = [
    Case("pictures_in_folders", pictures, pictured, {"BATCH": 4}),
    Case("pictures_in_tars", shards, pictured, {"BATCH": 4}),
    Case("text_to_blocks", texts, document_numbers, BLOCKS, words),
    Case("three_sources", sources, document_numbers, BLOCKS, words, repeats=True),
    Case("parquet_to_tensors", tables, table_numbers, {"BATCH": 4, "MIXED": 8}),
    Case("sound", sounds, sounding, {"BATCH": 4}),
    Case("rows_of_csv", rows, row_numbers, {"BATCH": 4}),
    Case("rows_in_memory", arrays, array_numbers, {"BATCH": 4}),
]
EACH = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with moto_server() as url:
        yield url


@pytest.fixture
def arguments(case: Case, tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of the program, whose data were made. The test is in an empty folder."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    data, empty = tmp_path / f"data-{case.name.replace('_', '-')}-{id(tmp_path)}", tmp_path / "empty"
    data.mkdir()
    empty.mkdir()
    monkeypatch.chdir(empty)
    return case.make(data, endpoint)


@pytest.fixture
def recipe(case: Case, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = import_module(f"tutorials.recipes.{case.name}")
    for name, value in case.sizes.items():
        assert isinstance(getattr(module, name), int)
        monkeypatch.setattr(module, name, value)
    return module


def ran(
    case: Case, recipe: ModuleType, arguments: list[str], monkeypatch: pytest.MonkeyPatch, stop: int | None = None
) -> list[tuple[str, list[int]]]:
    """Run the program in this process, up to a step of the training. Return the numbers of each batch."""
    seen: list[tuple[str, list[int]]] = []

    def train_step(*batch: Any) -> None:
        if len(seen) == stop:
            raise Stopped
        seen.append(("training", case.numbers(*batch)))

    monkeypatch.setattr(recipe, "train_step", train_step)
    monkeypatch.setattr(recipe, "validate", lambda *batch: seen.append(("validation", case.numbers(*batch))))
    if stop is None:
        recipe.main(*arguments)
    else:
        with pytest.raises(Stopped):
            recipe.main(*arguments)
    return seen


@EACH
def test_each_epoch_has_all_elements(
    case: Case, recipe: ModuleType, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = ran(case, recipe, arguments, monkeypatch)
    parts = [
        (kind, [number for _, numbers in batches for number in numbers])
        for kind, batches in groupby(seen, lambda batch: batch[0])
    ]
    assert [kind for kind, _ in parts] == ["training", "validation"] * recipe.EPOCHS
    first, second = (numbers for kind, numbers in parts if kind == "training")
    assert first != second
    assert first != sorted(first)
    for numbers in (first, second):
        assert {*numbers} == {*TRAIN}
        assert case.repeats or sorted(numbers) == case.expected(TRAIN)
    held_out = [numbers for kind, numbers in parts if kind == "validation"]
    assert held_out[0] == held_out[1]
    assert sorted(held_out[0]) == case.expected(HELD_OUT)


@EACH
def test_a_program_that_stops_continues(
    case: Case, recipe: ModuleType, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ran(case, recipe, arguments, monkeypatch)
    monkeypatch.setattr(recipe, "SAVE_EVERY", 2)
    assert ran(case, recipe, arguments, monkeypatch, stop=3) == whole[:3]
    assert ran(case, recipe, arguments, monkeypatch) == whole[2:]


@EACH
def test_a_recipe_is_a_program(case: Case, arguments: list[str], preloaded: Preloaded) -> None:
    ended = preloaded.ran(case.program, *arguments, cwd=Path.cwd(), seconds=SECONDS, strict=True)
    assert ended.code == 0, ended.out + ended.err


@pytest.mark.parametrize("case", [case for case in CASES if case.repeats], ids=str)
def test_sources_are_mixed_by_weight(
    case: Case, recipe: ModuleType, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "WEIGHTS", {"web": 8.0, "books": 1.0, "code": {0: 3.0}})
    seen = ran(case, recipe, arguments, monkeypatch)
    drawn = Counter(TRAIN.index(number) % 3 for kind, numbers in seen if kind == "training" for number in numbers)
    assert drawn[0] > 1.5 * drawn[2] > 1.5 * 1.5 * drawn[1]


def test_each_recipe_is_run_and_on_the_page() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    there = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert sorted(case.name for case in CASES) == there
    assert sorted(re.findall(r"<!-- program: (\w+) -->", page)) == there
    assert sorted(re.findall(r"\]\(\.\./tutorials/recipes/(\w+)\.py\)", page)) == there
