"""ImageFolder numbers classes and orders files as torchvision's data set of this name does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from datapipes.errors import BadArgument
from datapipes.map import ImageFolder
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

FILES = ["b/2.png", "b/10.PNG", "b/sub/1.jpeg", "b/a/3.webp", "B/x.jpg", "a10/1.bmp", "a2/1.tiff"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for i, name in enumerate(FILES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (2, 1), i).save(tmp_path / name, "png")
    (tmp_path / "b" / "notes.txt").write_text("no image")
    (tmp_path / "a.png").write_text("in no class")
    return tmp_path


def test_classes_and_files_in_order(root: Path) -> None:
    dp = ImageFolder(root, load="path")
    assert dp.classes == ["B", "a10", "a2", "b"]
    assert dp.class_to_idx == {"B": 0, "a10": 1, "a2": 2, "b": 3}
    ordered = ["B/x.jpg", "a10/1.bmp", "a2/1.tiff", "b/10.PNG", "b/2.png", "b/a/3.webp", "b/sub/1.jpeg"]
    assert list(dp) == dp.samples == [(str(root / name), dp.class_to_idx[name.split("/")[0]]) for name in ordered]
    assert len(dp) == len(FILES)
    assert [label for _, label in ImageFolder(root / "b", "path", extensions=[".jpeg", ".webp"])] == [0, 1]


def test_what_becomes_of_a_path(root: Path) -> None:
    image, label = ImageFolder(root)[0]
    assert (image.mode, image.size, image.getpixel((0, 0)), label) == ("RGB", (2, 1), (4, 4, 4), 0)
    assert ImageFolder(root, "bytes")[0] == ((root / "B/x.jpg").read_bytes(), 0)
    assert ImageFolder(root, lambda path: len(path))[0] == (len(str(root / "B/x.jpg")), 0)


def name_of(sample: tuple[str, int]) -> tuple[str, int]:
    return Path(sample[0]).name, sample[1]


def test_workers_read_their_parts(root: Path) -> None:
    graph = ImageFolder(root, "path").shuffle().sharding_filter().map(name_of)
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(num_workers=2)) as loader:
        found = list(loader)
    assert sorted(found) == sorted(name_of(sample) for sample in ImageFolder(root, "path").samples)


def test_what_is_refused(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    load: Any = "jpeg"
    with pytest.raises(
        BadArgument, match=r'load must be "path", "bytes", "pil" or a function of the path, got \'jpeg\''
    ):
        ImageFolder(root, load)
    with pytest.raises(FileNotFoundError, match="no folder for a class in"):
        ImageFolder(tmp_path_factory.mktemp("empty"))
    (root / "none").mkdir()
    with pytest.raises(FileNotFoundError, match=r"endings \.jpg, .* for none in"):
        ImageFolder(root)
