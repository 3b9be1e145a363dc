"""JPEGs of 500 x 375, cut to a box and resized to 224 x 224: in folders, one for each class, and in tar shards.

The peers cut and resize with Pillow, at boxes that are in a file. In folders these are the boxes that ours draws for
the files' numbers, so that pixels can be compared: each picture is found among all, and has to be within 1 of Pillow's.
Up to ``MOST_BY_TWO`` of its 150,528 values may be 2 away, because torch and Pillow round between two passes. In tars
ours draws by the order in which samples come. There the labels and shapes are compared.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import IterableDataset, default_collate

from benchmarks.real import data, images, kind, loaders, tars
from benchmarks.real.digest import columns

WIDTH, HEIGHT = 500, 375
BATCH = 32
SEED = 5
MOST_BY_TWO = 10
PLACE = 1  # of the stage that decodes, below the folder

Sample = tuple[npt.NDArray[np.uint8], int]


def jpeg(number: int) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(data.picture(number, 512)[:HEIGHT, :WIDTH]).save(file, "JPEG", quality=85)
    return file.getvalue()


def write_boxes(folder: Path, elements: int) -> None:
    from datapipes.io.images import PictureForm, random_box
    from datapipes.operator_support.random_order import draws_of
    from datapipes.position.seeds import Run

    form, seed = PictureForm(), Run(SEED).stage_seed(PLACE)
    boxes = [random_box(WIDTH, HEIGHT, form.scale, form.ratio, draws_of(seed, number)) for number in range(elements)]
    np.save(folder / "boxes.npy", np.array(boxes))


def cut(source: Any, box: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """A picture's path or open file as torch and Pillow do it."""
    from PIL import Image

    with Image.open(source) as image:
        part = image.convert("RGB").crop(tuple(map(int, box)))
        return np.array(part.resize((data.WANTED, data.WANTED), Image.Resampling.BILINEAR))


# -- in folders --------------------------------------------------------------------------------------------------------


def make(folder: Path, elements: int) -> None:
    """Write the pictures into folders, and the same ones into tars."""
    places = [folder / "pictures" / f"class-{label}" for label in range(images.CLASSES)]
    for place in places:
        place.mkdir(parents=True)

    def path(number: int) -> Path:
        return places[number % images.CLASSES] / f"{number:06d}.jpg"

    for number in range(elements):
        path(number).write_bytes(jpeg(number))
    tars.write(folder, elements, lambda number: path(number).read_bytes())
    write_boxes(folder, elements)


class Crops:
    """The pictures by their numbers: their order is that of classes, and then of names."""

    def __init__(self, folder: Path) -> None:
        self.paths = images.paths(folder / "pictures")
        self.boxes = np.load(folder / "boxes.npy")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> Sample:
        path = self.paths[number]
        return cut(path, self.boxes[number]), images.label(path)


class Reseeded:
    """A loader whose epochs all have one seed, so that boxes follow from the files' numbers alone."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        self.loader.seed(SEED)
        return iter(self.loader)

    def __enter__(self) -> Reseeded:
        return self

    def __exit__(self, *error: object) -> None:
        self.loader.shutdown()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


def ours(folder: Path, workers: int) -> Any:
    from datapipes.map import ImageFolder

    graph: Any = ImageFolder(folder / "pictures", load="bytes").decode_images(data.WANTED, key=0)
    return Reseeded(loaders.ours(graph.shuffle().sharding_filter().batch(BATCH).collate(), workers))


def torch(folder: Path, workers: int) -> Any:
    return loaders.torch_of_rows(Crops(folder), BATCH, workers)


def datasets(folder: Path, workers: int) -> Any:
    from datasets import Dataset, Image

    found = Crops(folder)
    columns = {"image": found.paths, "label": list(map(images.label, found.paths)), "box": found.boxes.tolist()}
    rows = Dataset.from_dict(columns).cast_column("image", Image(decode=False))
    return loaders.torch_of_rows(rows.with_transform(_cut_rows), BATCH, workers)


def _cut_rows(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    paths = (image["path"] for image in rows["image"])
    return {"image": list(map(cut, paths, rows["box"])), "label": rows["label"]}


def nodes(folder: Path, workers: int) -> Any:
    return loaders.nodes_of_rows(Crops(folder), BATCH, workers)


def old(folder: Path, workers: int) -> Any:
    return loaders.old_of_rows(Crops(folder), BATCH, workers)


def spdl(folder: Path, workers: int) -> Any:
    return loaders.spdl_of_rows(Crops(folder), BATCH, workers)


def grain(folder: Path, workers: int) -> Any:
    return loaders.grain_of_rows(Crops(folder), BATCH, workers)


def compared(folder: Path) -> Callable[[Any], Any]:
    """Make the columns to compare: the numbers of a batch's pictures, their labels, and if they are within 1."""
    found = Crops(folder)
    known = np.stack([_outline(found[number][0]) for number in range(len(found))])

    def plain(batch: Any) -> Any:
        pictures, labels = columns(batch)
        pictures = np.asarray(pictures)
        pictures = pictures.transpose(0, 2, 3, 1) if pictures.shape[1] == 3 else pictures
        numbers = [int(np.abs(known - _outline(picture)).sum(1).argmin()) for picture in pictures]
        near = [_is_near(found[n][0].astype(int) - picture) for n, picture in zip(numbers, pictures, strict=True)]
        return numbers, labels, np.array(near)

    return plain


def _is_near(away: npt.NDArray[Any]) -> bool:
    away = np.abs(away)
    return bool(away.max() <= 2 and (away == 2).sum() <= MOST_BY_TWO)


def _outline(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """The means of 49 squares of a picture."""
    side = data.WANTED // 7
    means: npt.NDArray[np.float64] = picture.reshape(7, side, 7, side, 3).mean((1, 3)).ravel()
    return means


# -- in tars -----------------------------------------------------------------------------------------------------------


class Cut:
    """A function of a sample of streams or bytes, with its name."""

    def __init__(self, folder: Path) -> None:
        self.boxes = np.load(folder / "boxes.npy")

    def __call__(self, sample: tuple[str, bytes, bytes]) -> Sample:
        name, content, label = sample
        return cut(io.BytesIO(content), self.boxes[int(name.rpartition("/")[2])]), int(label)

    def of_streams(self, sample: dict[str, Any]) -> Sample:
        return self((sample["__key__"], sample[".jpg"].read(), sample[".cls"].read()))


def ours_of_tars(order: str, folder: Path, workers: int) -> Any:
    from datapipes.iter import IterableWrapper

    files: Any = IterableWrapper(tars.shards(folder)).shuffle().sharding_filter().open_files("rb")
    samples = files.load_from_tar().webdataset()
    if order == tars.STREAMS:
        samples = samples.shuffle(buffer_size=tars.BUFFER).decode_images(data.WANTED, key="jpg").map(pair)
    else:
        samples = samples.decode_images(data.WANTED, key="jpg").map(pair).shuffle(buffer_size=tars.BUFFER)
    return loaders.ours(samples.batch(BATCH).collate(), workers)


def pair(sample: dict[str, Any]) -> tuple[Any, int]:
    return sample[".jpg"], int(sample[".cls"].read())


def old_of_tars(order: str, folder: Path, workers: int) -> Any:
    wrapper = import_module("torchdata.datapipes.iter").IterableWrapper
    files = wrapper(tars.shards(folder)).shuffle().sharding_filter().open_files("rb")
    samples, decode = files.load_from_tar().webdataset(), Cut(folder).of_streams
    if order == tars.STREAMS:
        samples = samples.shuffle(buffer_size=tars.BUFFER).map(decode)
    else:
        samples = samples.map(decode).shuffle(buffer_size=tars.BUFFER)
    return loaders.old(samples.batch(BATCH).collate(default_collate), workers)


class CropsOfTars(IterableDataset[Sample]):
    """By hand, for torch's DataLoader."""

    def __init__(self, folder: Path, order: str) -> None:
        self.tars = tars.Tars(tars.shards(folder), order)
        self.decode = Cut(folder).of_streams

    def __iter__(self) -> Iterator[Sample]:
        mix: Callable[[Any], Iterator[Any]] = loaders.ShuffleBuffer(tars.BUFFER)
        samples = ({"__key__": sample["key"], **sample} for sample in self.tars.samples())
        return map(self.decode, mix(samples)) if self.tars.order == tars.STREAMS else mix(map(self.decode, samples))


def torch_of_tars(order: str, folder: Path, workers: int) -> Any:
    return loaders.torch_of(CropsOfTars(folder, order), workers, batch_size=BATCH)


def webdataset_of_tars(order: str, folder: Path, workers: int) -> Any:
    import webdataset as wds

    paths = tars.shards(folder)
    samples = wds.WebDataset(paths, shardshuffle=len(paths)).to_tuple("__key__", "jpg", "cls")
    batches = samples.map(Cut(folder)).shuffle(tars.BUFFER).batched(BATCH, collation_fn=default_collate)
    return wds.WebLoader(batches, batch_size=None, num_workers=workers, persistent_workers=workers > 0)


def labels_and_shapes(folder: Path) -> Callable[[Any], Any]:
    def plain(batch: Any) -> Any:
        pictures, labels = columns(batch)
        assert sorted(pictures.shape[1:]) == [3, data.WANTED, data.WANTED]
        return np.asarray(labels), np.asarray(pictures).reshape(len(labels), -1).std(1) > 1

    return plain


def kind_of_tars(order: str, ahead: float) -> kind.Kind:
    ways = [kind.Way(kind.OURS, partial(ours_of_tars, order)), kind.Way(kind.TORCH, partial(torch_of_tars, order))]
    if order == tars.DECODED:
        ways.append(kind.Way(kind.WEBDATASET, partial(webdataset_of_tars, order)))
    ways.append(kind.Way(kind.OLD, partial(old_of_tars, order)))
    title = f"Cut from tars, {order}"
    return kind.Kind(title, "images", 2_000, make, tuple(ways), ahead=ahead, compared=labels_and_shapes)


KIND = kind.Kind(
    "Cut from JPEGs in folders",
    "images",
    2_000,
    make,
    kind.ways(ours, torch, datasets, nodes, old, spdl, grain),
    ahead=1.6,
    compared=compared,
)
KINDS = {tars.STREAMS: kind_of_tars(tars.STREAMS, 1.5), tars.DECODED: kind_of_tars(tars.DECODED, 1.4)}
