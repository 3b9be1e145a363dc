"""webdataset: one dict for each run of names that begin alike, wherever it is resumed."""

from __future__ import annotations

import gzip
import io
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import webdataset
import webdataset.autodecode
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from datapipes.elements import encode
from datapipes.errors import BadArgument, StateError, UnsafeState
from datapipes.iter import IterableWrapper
from datapipes.iter.formats.sample_decoders import IMAGE_SPECS
from datapipes.iter.formats.webdataset import split
from datapipes.messages.switches import FAST
from datapipes.position.plain_data import sealed
from tests.archive_makers import SAMPLES, header, tar, tar_of
from tests.datapipes.iter.files.given import OneWay, files
from tests.specimens.pictures import pictures
from tests.specimens.specimen import shown

parts = (st.sampled_from(["", "a/", "b.c/"]), st.sampled_from("12"), st.sampled_from(["", ".x", ".y.z"]))
paths = st.builds("{}{}{}".format, *parts)


@given(st.lists(paths, max_size=12), st.data())
def test_samples_are_runs_and_resume_exactly(found: list[str], data: st.DataObject) -> None:
    rows = list(zip(found, range(99), strict=False))
    kept = [(*split(path), value) for path, value in rows if split(path)[1]]
    expected = [
        {"__key__": key, **{suffix: value for _, suffix, value in run}}
        for key, run in groupby(kept, lambda row: row[0])
    ]
    iterator: Any = iter(IterableWrapper(rows).webdataset())
    k = data.draw(st.integers(0, len(expected)))
    assert list(islice(iterator, k)) == expected[:k]
    resumed: Any = iter(IterableWrapper(rows).webdataset())
    resumed.load_state_dict(iterator.state_dict())
    assert list(resumed) == list(iterator) == expected[k:]


def contents(sample: dict[str, Any]) -> dict[str, Any]:
    return {key: value if key == "__key__" else value.read() for key, value in sample.items()}


EXPECTED = [
    {"__key__": "x.tar/a/1", ".jpg": b"an image", ".cls": b"7"},
    {"__key__": "x.tar/a/2", ".jpg": b"another", ".cls": b"8"},
    {"__key__": "x.tar/b/1", ".cls": b"9"},
]


@pytest.mark.parametrize("mode", ["r:*", "r|*"])
@pytest.mark.parametrize("one_way", [False, True])
def test_streams_of_an_archive(mode: str, one_way: bool) -> None:
    data = tar(SAMPLES)
    samples = list(files(("x.tar", OneWay(data) if one_way else data)).load_from_tar(mode).webdataset())
    assert list(map(contents, samples)) == EXPECTED


# The package leaves its file to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_it_gives_what_the_package_gives(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tar(SAMPLES))
    theirs = webdataset.WebDataset([str(tmp_path / "x.tar")], shardshuffle=False)
    expected = [{k: v for k, v in row.items() if k not in ("__key__", "__url__", "__local_path__")} for row in theirs]
    ours = IterableWrapper([str(tmp_path / "x.tar")]).open_files("b").load_from_tar().webdataset().map(contents)
    assert [{k[1:]: v for k, v in row.items() if k != "__key__"} for row in ours] == expected


def image(mode: str, kind: str) -> bytes:
    pixels = numpy.arange(60, dtype="u1").reshape(3, 5, 4)[..., : len(mode)].squeeze() * 4
    made = io.BytesIO()
    Image.fromarray(pixels, mode).save(made, kind)
    return made.getvalue()


def array() -> bytes:
    made = io.BytesIO()
    numpy.save(made, numpy.arange(3))
    return made.getvalue()


DECODED = {
    "a/1.JPG": image("RGB", "jpeg"),
    "a/1.seg.png": image("RGBA", "png"),
    "a/1.gray.bmp": image("L", "bmp"),
    "a/1.cls": b" 7\n",
    "a/1.txt": "größer".encode(),
    "a/1.json": b'{"x": [1]}',
    "a/1.txt.gz": gzip.compress(b"packed"),
    "a/1.other": b"\x00",
    "a/1.npy": array(),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("spec", [*webdataset.autodecode.imagespecs])
def test_it_decodes_as_the_package_does(spec: str, tmp_path: Path) -> None:
    file = str(tmp_path / "x.tar")
    (tmp_path / "x.tar").write_bytes(tar(DECODED))
    (theirs,) = webdataset.WebDataset([file], shardshuffle=False).decode(spec)
    (ours,) = IterableWrapper([file]).open_files("b").load_from_tar().webdataset(decode=spec)
    assert list(ours) == [key for key in theirs if key not in ("__url__", "__local_path__")]
    assert ours.pop("__key__") == f"{file}/{theirs['__key__']}"
    for key, found in ours.items():
        expected = theirs[key]
        assert type(found) is type(expected)
        if isinstance(found, Image.Image):
            assert found.mode == expected.mode
            found, expected = numpy.asarray(found), numpy.asarray(expected)
        assert shown(found) == shown(expected), key


@pytest.mark.parametrize("fast", ["0", "1"])
def test_tensors_are_decoded_as_decode_images_does(fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAST, fast)
    files = {f"{number}.jpg": data for number, data in enumerate(pictures())}
    deep = io.BytesIO()
    Image.fromarray(numpy.arange(0, 6000, 1000, dtype="u2").reshape(2, 3)).save(deep, "PNG")
    files["deep.png"] = deep.getvalue()
    source = IterableWrapper(list(files.items()))
    expected = dict(source.decode_images(None, None))
    for sample in source.webdataset(decode="torchrgb8"):
        ((_, key), (name, found)) = sample.items()
        assert torch.equal(found, expected[f"{key}.{name}"])
    assert found[0].tolist() == [[0, 3, 7], [11, 15, 19]]
    damaged = IterableWrapper([("1.jpg", pictures()[0][:-300])]).webdataset(decode="torchrgb8")
    with pytest.raises(OSError, match=r"[Tt]runcated") as raised:
        list(damaged)
    assert "decoding '.jpg' of the sample '1'" in raised.value.__notes__


def test_the_specs_are_those_of_the_package() -> None:
    assert {*IMAGE_SPECS} == {*webdataset.autodecode.imagespecs}


def test_functions_that_decode() -> None:
    rows = [("1.seg.png", b"a"), ("1.png", b"bc"), ("1.cls", b"5"), ("1.x", 9)]
    source = IterableWrapper(rows)
    as_is = {"__key__": "1", "seg.png": b"a", "png": b"bc", "cls": b"5", "x": 9}
    assert list(source.webdataset(decode="bytes")) == [as_is]
    by_ending = {"png": len, ".SEG.PNG": lambda data: "segments"}
    assert list(source.webdataset(by_ending)) == [as_is | {"seg.png": "segments", "png": 2, "cls": 5}]
    told: list[str] = []
    assert list(source.webdataset(lambda ending, data: told.append(ending))) == [as_is | {"cls": 5}]
    assert told == [".seg.png", ".png", ".cls"]
    several = [lambda ending, data: len(data) if ending == ".png" else None, lambda ending, data: ending]
    assert list(source.webdataset(several)) == [as_is | {"seg.png": ".seg.png", "png": 2, "cls": ".cls"}]
    with pytest.raises(BadArgument, match=r'decode must be "bytes", a function, or one of torch, .*, got True'):
        IterableWrapper([("1.jpg", b"")]).webdataset(decode=True)  # type: ignore[arg-type]  # that is what is tested
    with pytest.raises(BadArgument, match=r'decode must be "bytes", a function, or one of torch, .*, got \'jpeg\''):
        source.webdataset("jpeg")


def test_a_file_that_cannot_be_decoded_costs_its_sample() -> None:
    rows = [("1.json", b"{"), ("2.json", b"[]"), ("3.pkl", b"cos\nsystem\n.")]
    stream = iter(IterableWrapper(rows).webdataset("pil"))
    with pytest.raises(ValueError, match="Expecting") as raised:
        next(stream)
    assert "decoding '.json' of the sample '1'" in raised.value.__notes__
    assert next(stream) == {"__key__": "2", "json": []}
    with pytest.raises(UnsafeState, match=r"refers to os\.system"):
        next(stream)
    assert list(stream) == []


def test_a_saved_sample_leaves_the_one_at_hand_as_it_was() -> None:
    iterator: Any = iter(files(("x.tar", tar(SAMPLES))).load_from_tar().webdataset())
    assert contents(next(iterator)) == EXPECTED[0]
    state = iterator.state_dict()
    assert [contents(sample) for sample in iterator] == EXPECTED[1:]
    resumed: Any = iter(files(("x.tar", tar(SAMPLES))).load_from_tar().webdataset())
    resumed.load_state_dict(state)
    first = next(resumed)
    assert first[".jpg"].name == "x.tar/a/2.jpg"
    assert [contents(sample) for sample in (first, *resumed)] == EXPECTED[1:]


def test_names_are_cut_as_promised() -> None:
    assert split("a\\b.c\\d.e.f") == ("a/b.c/d", ".e.f")
    assert split("a.b/c") == ("a.b/c", "")
    assert split(".hidden") == ("", ".hidden")
    rows = [("1.x", 1), ("README", 0), ("1.y", 2), ("1.y", 3), ("2.x", 4), ("1.x", 5)]
    assert list(IterableWrapper(rows).webdataset()) == [
        {"__key__": "1", ".x": 1, ".y": 3},
        {"__key__": "2", ".x": 4},
        {"__key__": "1", ".x": 5},
    ]


def test_a_path_of_another_kind_is_an_error() -> None:
    with pytest.raises(AssertionError, match="paths as str, got bytes"):
        list(IterableWrapper([(b"1.x", 1)]).webdataset())  # type: ignore[misc]  # what is refused


@pytest.mark.parametrize(
    "cell",
    [
        b"",
        encode([], what=""),
        encode(["1.x"], what=""),
        encode([{".x": 1}], what=""),
        {"keys": ["__key__", ".x"]},
        [],
        7,
    ],
)
def test_a_state_that_is_odd_is_refused(cell: Any) -> None:
    iterator: Any = iter(IterableWrapper([("1.x", 1), ("2.x", 2)]).webdataset())
    next(iterator)
    state = iterator.state_dict()
    (place,) = [p for p, saved in state["cells"].items() if isinstance(saved, bytes)]
    state["cells"][place] = cell
    resumed: Any = iter(IterableWrapper([("1.x", 1), ("2.x", 2)]).webdataset())
    with pytest.raises(StateError):
        resumed.load_state_dict(sealed(state))


@pytest.mark.filterwarnings("ignore:corrupted")
def test_a_shard_that_is_cut_short_is_an_error() -> None:
    archive = tar_of([header("1.x", b"one")])[:-1024]
    stream = iter(IterableWrapper([("x.tar", io.BytesIO(archive))], deepcopy=False).load_from_tar().webdataset())
    with pytest.raises(ValueError, match="marker"):
        next(stream)
    assert contents(next(stream)) == {"__key__": "x.tar/1", ".x": b"one"}
