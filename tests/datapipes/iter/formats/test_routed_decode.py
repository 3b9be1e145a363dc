"""routed_decode: what each ending stands for, and that no pickle runs code."""

from __future__ import annotations

import io
import os
import pickle
from typing import Any

import numpy
import pytest
import torch
from PIL import Image
from torch.utils.data.datapipes.utils.decoder import basichandlers as torchs_basichandlers

import datapipes
from datapipes.errors import BadArgumentType, UnsafeState
from datapipes.iter import IterableWrapper
from tests.datapipes.iter.files.given import files

pytestmark = pytest.mark.filterwarnings("ignore:routed_decode")


def decoded(path: str, data: Any, *handlers: Any, **options: Any) -> Any:
    ((name, value),) = IterableWrapper([(path, data)], deepcopy=False).routed_decode(*handlers, **options)
    assert name == path
    return value


@pytest.mark.parametrize(
    ("path", "data", "expected"),
    [
        ("a.txt", "ä".encode(), "ä"),
        ("a.TXT", b"x", "x"),
        ("a/b.transcript", b"x", "x"),
        ("a.t", b"x", b"x"),
        ("a", b"x", b"x"),
        ("a.x", b"x", b"x"),
        ("a.cls", b"7", 7),
        ("a.index", b"no number", b"no number"),
        ("a.json", b'{"x": [1]}', {"x": [1]}),
        ("a.pickle", pickle.dumps({"x": (1, "y")}), {"x": (1, "y")}),
        ("_a.bin", b"text", "text"),
    ],
)
def test_endings(path: str, data: bytes, expected: object) -> None:
    for given in (data, io.BytesIO(data)):
        assert decoded(path, given) == expected


def test_tensors_and_images() -> None:
    file = io.BytesIO()
    torch.save({"x": torch.arange(3)}, file)
    assert decoded("a.pt", file.getvalue())["x"].tolist() == [0, 1, 2]
    pixels = numpy.arange(24, dtype=numpy.uint8).reshape(2, 4, 3)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    image = decoded("a.png", file.getvalue())
    assert image.dtype == torch.float32
    assert torch.equal(image, torch.from_numpy(pixels).permute(2, 0, 1) / 255)


class Attack:
    def __reduce__(self) -> Any:
        return os.mkdir, ("attacked",)


@pytest.mark.parametrize("ending", ["pickle", "pyd"])
def test_a_pickle_runs_no_code(ending: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsafeState, match=r"a pickle refers to posix\.mkdir"):
        decoded(f"a.{ending}", pickle.dumps(Attack()))
    assert list(tmp_path.iterdir()) == []


def test_handlers() -> None:
    def shout(key: str, data: bytes) -> str | None:
        return data.decode().upper() if key == "txt" else None

    assert decoded("a.txt", b"x", shout) == "X"
    assert decoded("a.json", b"1", shout) == b"1"
    assert decoded("a.b", b"x", shout, key_fn=lambda path: "txt") == "X"
    pipe: Any = files(("a.txt", b"x"), ("a.json", b"1")).routed_decode()
    pipe.add_handler(shout)
    assert list(pipe) == [("a.txt", "X"), ("a.json", 1)]
    assert len(IterableWrapper([("a", b""), ("b", b"")]).routed_decode()) == 2
    with pytest.raises(BadArgumentType, match="callable"):
        pipe.add_handler("txt")


def test_it_is_deprecated() -> None:
    with pytest.warns(FutureWarning, match="use map"):
        files().routed_decode()


@pytest.mark.parametrize("basichandlers", [datapipes.basichandlers, torchs_basichandlers])
def test_the_usual_handlers_by_the_name_that_torch_gives_them(basichandlers: Any) -> None:
    def upper(key: str, data: bytes) -> str | None:
        return data.decode().upper() if key == "up" else None

    assert decoded("a.cls", b"7", upper, basichandlers) == 7
    assert decoded("a.up", b"x", upper, basichandlers) == "X"
