"""decode_images: the pictures of elements of every form; draws that follow from numbers; errors and their policies."""

from __future__ import annotations

import io
import sys
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, UnidentifiedImageError

from datapipes import SKIP
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, BadArgumentType, TooManyErrors
from datapipes.iter import IterableWrapper
from datapipes.map import ImageFolder, SequenceWrapper
from datapipes.messages.switches import FAST
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.archive_makers import tar
from tests.datapipes.iter.files.given import OneWay
from tests.datapipes.rewriting.sharded_graphs import plainly, shards
from tests.specimens.pictures import paths, pictures
from tests.specimens.specimen import Countable

Row = namedtuple("Row", "picture label")


def planes(data: bytes) -> torch.Tensor:
    return torch.from_numpy(np.array(Image.open(io.BytesIO(data)).convert("RGB"))).permute(2, 0, 1)


def same(found: Any, expected: Any) -> bool:
    return len(found) == len(expected) and all(map(torch.equal, found, expected))


def only(element: Any, **how: Any) -> Any:
    (found,) = IterableWrapper([element], deepcopy=False).decode_images(None, None, **how)
    return found


# -- the picture in an element -----------------------------------------------------------------------------------------


def test_forms_of_an_element() -> None:
    data, path = pictures()[0], paths()[0]
    whole = planes(data)
    elements: list[Any] = [data, bytearray(data), memoryview(data), path, Path(path), io.BytesIO(data)]
    for element in elements:
        assert torch.equal(only(element), whole)
    stream = StreamWrapper(io.BytesIO(data))
    assert torch.equal(only(stream), whole)
    assert stream.closed
    assert torch.equal(only(OneWay(data)), whole)
    pairs: list[Any] = [("a.jpg", data), ["a.jpg", io.BytesIO(data)]]
    for element in pairs:
        name, found = only(element)
        assert name == "a.jpg"
        assert torch.equal(found, whole)


def test_the_picture_of_a_sample() -> None:
    data, path = pictures()[0], paths()[0]
    whole = planes(data)
    row = Row(data, 7)
    found = only(row, key=0)
    assert type(found) is Row
    assert torch.equal(found.picture, whole)
    assert found.label == 7
    assert row.picture is data
    listed = [3, path]
    assert torch.equal(only(listed, key=-1)[1], whole)
    assert listed == [3, path]
    for name in (".png", "png"):
        sample = {"__key__": "x", "cls": 1, name: io.BytesIO(data)}
        for key in ("jpg;jpeg;png", ".jpg; .png", "png"):
            sample[name] = io.BytesIO(data)
            found = only(sample, key=key)
            assert list(found) == ["__key__", "cls", name]
            assert torch.equal(found[name], whole)
            assert isinstance(sample[name], io.BytesIO)
    first = only({"png": b"not this one", ".jpg": data}, key="jpg;png")
    assert first["png"] == b"not this one"


def test_samples_of_tars(tmp_path: Path) -> None:
    files = {
        f"{n}.{end}": data for n, picture in enumerate(pictures()) for end, data in (("jpg", picture), ("cls", b"1"))
    }
    (tmp_path / "x.tar").write_bytes(tar(files))
    samples = IterableWrapper([str(tmp_path / "x.tar")]).open_files("rb").load_from_tar().webdataset()
    found = [sample[".jpg"] for sample in samples.decode_images(None, None, key="jpg")]
    assert same(found, list(map(planes, pictures())))
    streams = samples.shuffle(buffer_size=3).decode_images(8, key="jpg")
    loader = DataLoader2(streams)
    loader.seed(1)
    whole = [sample[".jpg"] for sample in loader]
    loader.seed(1)
    begun = iter(loader)
    for _ in range(2):
        next(begun)
    again = DataLoader2(streams)
    again.load_state_dict(loader.state_dict())
    assert same([sample[".jpg"] for sample in again], whole[2:])


def test_what_is_refused() -> None:
    source: Any = IterableWrapper([b""])
    for message, how in (
        ('crop must be "random", "center" or None, got \'centre\'', {"crop": "centre"}),
        ('mode must be "RGB" or "L", got \'RGBA\'', {"mode": "RGBA"}),
        ("size must be at least 1", {"size": 0}),
        ("size must be at least 1", {"size": (3, -1)}),
        (r"size must be one number or \(height, width\), got \(1, 2, 3\)", {"size": (1, 2, 3)}),
        ("crop='random' needs a size", {"size": None}),
        ("crop='center' needs a size", {"size": None, "crop": "center"}),
        ("scale must be .*, got 1", {"scale": 1}),
        (r"ratio must be .*, got \(2, 1\)", {"ratio": (2, 1)}),
        (r"scale must be .*, got \(0, 1\)", {"scale": (0, 1)}),
        ("key must have names", {"key": "jpg;"}),
        ("max_errors limits", {"max_errors": 3}),
        ("on_error must be", {"on_error": "ignore"}),
    ):
        with pytest.raises(BadArgument, match=message):
            source.decode_images(**{"size": 8, **how})
    with pytest.raises(BadArgumentType, match="size is a whole number"):
        source.decode_images(1.5)
    with pytest.raises(BadArgumentType, match=r"key is an index, or names such as .*, in \.decode_images"):
        source.decode_images(8, key=1.0)
    for element, message, how in (
        (3, "decode_images.* needs the bytes of a picture, .*, got 3: name the picture", {}),
        ((b"", 3), "name the picture of a longer element", {}),
        (("a.jpg", "b.jpg"), "name the picture of a longer element", {}),
        ((b"", 3), "with names needs dicts, got", {"key": "jpg"}),
        (io.StringIO("text"), "binary file, and this one gave str", {}),
    ):
        with pytest.raises(BadArgumentType, match=message):
            only(element, **how)
    with pytest.raises(KeyError, match=r"none of jpg, png is in the sample with the keys __key__, \.cls"):
        only({"__key__": "x", ".cls": b"1"}, key="jpg;.png")
    with pytest.raises(IndexError):
        only((1,), key=1)


def test_errors_name_the_file_and_the_element(tmp_path: Path) -> None:
    cut = pictures()[1][:-400]
    (tmp_path / "cut.jpg").write_bytes(cut)

    def notes(element: Any, **how: Any) -> str:
        with pytest.raises(OSError, match=r"truncated|Truncated") as raised:
            only(element, **how)
        return "\n".join(raised.value.__notes__)

    assert f"decoding {tmp_path / 'cut.jpg'}" in notes(str(tmp_path / "cut.jpg"))
    assert "decoding a.jpg" in notes(("a.jpg", io.BytesIO(cut)))
    said = notes({"__key__": "x.tar/1", ".jpg": cut}, key="jpg")
    assert "decoding '.jpg' of the sample 'x.tar/1'" in said
    assert "raised in stage .decode_images(None, crop=None, key='jpg')" in said
    assert "on element 0 of IterableWrapper" in notes((cut, 5), key=0)
    with pytest.raises(FileNotFoundError) as raised:
        list(IterableWrapper([paths()[0], "missing.jpg"]).decode_images(3))
    assert "decoding missing.jpg" in raised.value.__notes__
    with pytest.raises(UnidentifiedImageError, match="cannot identify the image format of these 3 bytes"):
        only(b"abc")


# -- draws -------------------------------------------------------------------------------------------------------------


def of_loader(graph: Any, seed: int = 5, epochs: int = 1, service: Any = None) -> list[Any]:
    with DataLoader2(graph, reading_service=service) as loader:
        loader.seed(seed)
        for _ in range(epochs):
            found = list(loader)
    return found


def test_boxes_follow_from_seed_epoch_and_number() -> None:
    graph = IterableWrapper(pictures()[:1] * 6).decode_images(6)
    found = of_loader(graph)
    assert same(found, of_loader(graph))
    assert len({str(picture.tolist()) for picture in found}) == 6
    assert not same(found, of_loader(graph, seed=6))
    assert not same(found, of_loader(graph, epochs=2))
    assert same(of_loader(graph, epochs=2), of_loader(graph, epochs=2))
    assert same(of_loader(graph.batch(2).unbatch()), found)


@pytest.mark.parametrize("crop", ["random", "center"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_shard_decodes_its_own_elements(crop: Any, shuffle: bool) -> None:
    asked: list[int] = []

    def picture(number: int) -> bytes:
        asked.append(number)
        return pictures()[number % 6]

    graph: Any = IterableWrapper(range(12)).map(picture).decode_images(6, crop, flip=crop == "random")
    graph = (graph.shuffle(buffer_size=100) if shuffle else graph).sharding_filter()
    found = shards(graph, 3)
    assert sorted(asked) == list(range(12))
    assert list(map(len, found)) == [4, 4, 4]
    assert all(same(*each) for each in zip(found, plainly(graph, 3), strict=True))


def test_shards_below_the_filter_draw_for_themselves() -> None:
    graph = IterableWrapper(pictures()[:1] * 6).sharding_filter().decode_images(6)
    found = [picture for shard in shards(graph, 2) for picture in shard]
    assert len({str(picture.tolist()) for picture in found}) == 6


def test_elements_that_are_read_by_position_have_their_numbers() -> None:
    decoded = IterableWrapper(range(20_000)).map(picture_and_number).decode_images(4, key=1)
    some = of_loader(decoded.shuffle().header(4))  # a permutation: only what is asked for is decoded
    for number, picture in [*some, *of_loader(decoded.header(3))]:
        ((same_number, again),) = of_loader(decoded.skip(number).header(1))
        assert same_number == number
        assert torch.equal(picture, again)


def picture_and_number(number: int) -> tuple[int, bytes]:
    return number, pictures()[number % 6]


def test_an_element_keeps_its_number_in_a_shuffle() -> None:
    """The same elements come out of a buffer whether or not it is there, and after a resume at any position."""
    for source in (IterableWrapper(list(enumerate(pictures()))), IterableWrapper(Countable(*enumerate(pictures())))):
        for above in (source, source.filter(lambda row: row[0] != 2)):
            decoded = above.decode_images(4, flip=True, key=1)
            in_order = dict(of_loader(decoded))
            graph = decoded.shuffle(buffer_size=3)
            for at in range(len(in_order) + 1):
                begun = DataLoader2(graph)
                begun.seed(5)
                found = list(islice(begun, at))
                again = DataLoader2(graph)
                again.load_state_dict(begun.state_dict())
                found += list(again)
                assert len(found) == len(in_order)
                assert all(torch.equal(picture, in_order[number]) for number, picture in found)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_draw_as_one_process_does(workers: int) -> None:
    plain = IterableWrapper(pictures() * 2).decode_images(6, flip=True)
    service = MultiProcessingReadingService(num_workers=workers)
    assert same(of_loader(plain.sharding_filter(), service=service), of_loader(plain))


def test_pinned_seeds() -> None:
    graph = IterableWrapper(pictures()).decode_images(6).set_seed(3)
    first, second = list(graph), list(graph)
    assert not same(first, second)
    assert same(list(graph.set_seed(3)), first)
    assert same(of_loader(graph, seed=1), first)
    assert same(of_loader(graph, seed=2, epochs=2), second)


def test_laps_of_a_cycle_differ() -> None:
    found = of_loader(IterableWrapper(pictures()).decode_images(6).cycle(2))
    assert not same(found[:6], found[6:])


def test_splitting_below_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        IterableWrapper(pictures()).decode_images(6).random_split(weights={"a": 1, "b": 1}, seed=0)


def test_states_move_between_the_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = IterableWrapper(pictures()).decode_images(6).shuffle(buffer_size=2)
    expected = of_loader(graph)
    for first, second in (("0", "1"), ("1", "0")):
        monkeypatch.setenv(FAST, first)
        begun = DataLoader2(graph)
        begun.seed(5)
        found = list(islice(begun, 3))
        state = begun.state_dict()
        monkeypatch.setenv(FAST, second)
        again = DataLoader2(graph)
        again.load_state_dict(state)
        assert same([*found, *again], expected)


# -- policies for errors -----------------------------------------------------------------------------------------------


def damaged() -> list[bytes]:
    first, second, *others = pictures()
    return [first, second[:-400], b"no picture", *others]


@pytest.mark.parametrize("crop", ["random", "center"])
@pytest.mark.filterwarnings("ignore:.*goes on after")
def test_errors_that_are_tolerated(crop: Any) -> None:
    def graph(source: Any = None, **how: Any) -> Any:
        return IterableWrapper(damaged() if source is None else source).decode_images(6, crop, **how)

    replaced = of_loader(graph(on_error=lambda error, element: torch.zeros(0)))
    assert [picture.numel() for picture in replaced] == [108, 0, 0, 108, 108, 108, 108]
    skipped = of_loader(graph(on_error="skip"))
    assert same(skipped, [replaced[0], *replaced[3:]])
    assert same(of_loader(graph(on_error=lambda error, element: SKIP)), skipped)
    for at in range(6):
        begun = DataLoader2(graph(on_error="skip").shuffle(buffer_size=2))
        begun.seed(5)
        stream = iter(begun)
        found = list(islice(stream, at))
        again = DataLoader2(graph(on_error="skip").shuffle(buffer_size=2))
        again.load_state_dict(begun.state_dict())
        rest = iter(again)
        found += list(rest)
        assert sum(rest.errors.values()) == 2
        assert {str(each.tolist()) for each in found} == {str(each.tolist()) for each in skipped}
    with pytest.raises(TooManyErrors, match="2 errors, more than max_errors=1"):
        of_loader(graph(on_error="skip", max_errors=1))
    with pytest.raises(TooManyErrors, match="2 errors among 7 elements"):
        of_loader(graph(on_error="skip", max_errors=0.2))
    assert same(of_loader(graph(on_error="skip", max_errors=0.3)), skipped)


@pytest.mark.parametrize("crop", ["random", "center"])
@pytest.mark.filterwarnings("ignore:.*goes on after")
def test_a_retry_draws_the_same(crop: Any) -> None:
    class Failing(io.BytesIO):
        left = 2

        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            if self.left:
                self.left -= 1
                raise OSError("not yet")
            return data

    def files(kind: Callable[[bytes], Any]) -> Any:
        return IterableWrapper([kind(data) for data in pictures()], deepcopy=False)

    found = of_loader(files(Failing).decode_images(6, crop, on_error="retry(2)"))
    assert same(found, of_loader(files(io.BytesIO).decode_images(6, crop)))
    with pytest.raises(OSError, match="not yet"):
        of_loader(files(Failing).decode_images(6, crop, on_error="retry(1)"))


@pytest.mark.parametrize("crop", ["random", "center"])
def test_an_error_costs_its_element(crop: Any) -> None:
    stream = iter(IterableWrapper(damaged()).decode_images(6, crop))
    found: list[Any] = []
    for _ in range(len(damaged())):
        try:
            found.append(next(stream).shape)
        except OSError as error:
            found.append(type(error))
    assert found == [(3, 6, 6), OSError, UnidentifiedImageError, *[(3, 6, 6)] * 4]
    assert list(stream) == []


# -- map-style ---------------------------------------------------------------------------------------------------------


def test_pictures_by_key() -> None:
    keyed = SequenceWrapper(pictures() * 2).decode_images(6)
    assert len(keyed) == 12
    found = of_loader(keyed)
    assert not same(found[:6], found[6:])
    assert not same(found, of_loader(keyed, epochs=2))
    reversed_keys = of_loader(keyed.to_iter_datapipe(range(11, -1, -1)))
    assert same(reversed_keys[::-1], found)
    assert same(of_loader(keyed.to_iter_datapipe(range(-1, -13, -1))), reversed_keys)
    assert same(of_loader(keyed.to_iter_datapipe([np.int64(3)])), found[3:4])
    named = (
        SequenceWrapper(dict(zip("ab", pictures(), strict=False))).decode_images(6).to_iter_datapipe(["a", "b", "a"])
    )
    a, _, a_again = of_loader(named)
    assert same([a], [a_again])


def test_pictures_by_key_in_shards_and_after_a_resume() -> None:
    keyed = SequenceWrapper(list(enumerate(pictures())))
    decoded = keyed.decode_images(6, flip=True, key=1)
    in_order = dict(of_loader(decoded))
    for graph in (decoded.shuffle(), decoded.to_iter_datapipe().shuffle(buffer_size=2)):
        for at in range(7):
            begun = DataLoader2(graph)
            begun.seed(5)
            found = list(islice(begun, at))
            again = DataLoader2(graph)
            again.load_state_dict(begun.state_dict())
            found += list(again)
            assert len(found) == 6
            assert all(torch.equal(picture, in_order[number]) for number, picture in found)
        for shard in shards(graph.sharding_filter(), 2):
            assert len(shard) == 3


def test_a_look_up_without_a_loader() -> None:
    keyed = SequenceWrapper(pictures()).decode_images(6)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first, second = keyed[0], keyed[0]
        torch.manual_seed(1)
        assert same([keyed[0], keyed[0]], [first, second])
    assert not torch.equal(first, second)
    pinned = SequenceWrapper(pictures()).decode_images(6).set_seed(1)
    assert torch.equal(pinned[0], pinned[0])
    assert torch.equal(pinned[-1], pinned[5])
    assert not torch.equal(pinned[0], SequenceWrapper(pictures()).decode_images(6).set_seed(2)[0])
    once, twice = list(pinned.to_iter_datapipe()), list(pinned.to_iter_datapipe())
    assert len(once) == len(twice) == 6


def test_pictures_of_a_folder(tmp_path: Path) -> None:
    for number, data in enumerate(pictures()):
        (tmp_path / f"class{number % 2}").mkdir(exist_ok=True)
        (tmp_path / f"class{number % 2}" / f"{number}.jpg").write_bytes(data)
    loads: list[Any] = ["bytes", "path"]
    for load in loads:
        folder = ImageFolder(tmp_path, load=load)
        found = list(folder.decode_images(24, "center", key=0).to_iter_datapipe())
        assert [label for _, label in found] == [0, 0, 0, 1, 1, 1]
        assert {picture.shape for picture, _ in found} == {(3, 24, 24)}
    service = MultiProcessingReadingService(num_workers=2)
    graph = ImageFolder(tmp_path, load="bytes").decode_images(24, key=0).shuffle().sharding_filter()
    batches: Iterator[Any] = iter(of_loader(graph.batch(3).collate(), service=service))
    assert [tuple(pictures.shape) for pictures, _ in batches] == [(3, 3, 24, 24)] * 2


def test_a_picture_that_is_missing_by_key() -> None:
    with pytest.raises(UnidentifiedImageError) as raised:
        of_loader(SequenceWrapper([b"x"]).decode_images(3))
    assert "index 0" in "\n".join(raised.value.__notes__)


def test_the_package_is_named_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"decode_images\(\) needs the package `PIL`: pip install 'loader2\[im"
    ):
        IterableWrapper([b""]).decode_images(3)
