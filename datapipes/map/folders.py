"""ImageFolder: the images below a folder, with a class for each inner folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from datapipes.description.pipe import MapDataPipe, operator
from datapipes.messages.extras import needed
from datapipes.operator_support.checks import needs

IMAGES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

Load: TypeAlias = Literal["path", "bytes", "pil"] | Callable[[str], Any]


@operator
class ImageFolder(MapDataPipe[tuple[Any, int]]):
    """``(image, label)`` for each file below ``root/CLASS/``, in the order of torchvision's data set of this name.

    Labels number the classes, which are the folders in ``root`` sorted by name; ``classes`` and ``class_to_idx`` have
    them. Files are ordered by class, folder and name; ``samples`` has their paths and labels. The folders are listed
    once, when the pipe is made.

    Args:
        root: The folder with a folder for each class.
        load: How to load a path: ``"pil"`` gives an image of Pillow in RGB, ``"bytes"`` the content of the file,
            ``"path"`` the path itself; or a function of the path. ``decode_images(224, key=0)`` makes tensors of
            ``"bytes"``.
        extensions: The endings of the files, in lower case and with their dots; case is ignored.

    >>> import tempfile, pathlib
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("dog/1.png", "cat/2.JPG", "cat/notes.txt"):
    ...     _ = (root / name).parent.mkdir(exist_ok=True), (root / name).write_bytes(b"...")
    >>> dp = ImageFolder(root, load="bytes")
    >>> dp.class_to_idx, list(dp)
    ({'cat': 0, 'dog': 1}, [(b'...', 0), (b'...', 1)])
    """

    _identified_by: ClassVar[str | None] = "samples"

    root: str
    load: Load = "pil"
    extensions: tuple[str, ...] = IMAGES

    def __init__(self, root: str | os.PathLike[str], load: Load = "pil", *, extensions: Sequence[str] = IMAGES) -> None:
        self.root = os.fspath(root)
        self.load = load
        self.extensions = tuple(extensions)
        known = callable(load) or load in ("path", "bytes", "pil")
        needs(known, self, f'load must be "path", "bytes", "pil" or a function of the path, got {load!r:.60}')
        if load == "pil":
            needed("PIL.Image", "images", "ImageFolder")
        with os.scandir(self.root) as entries:
            self.classes = sorted(entry.name for entry in entries if entry.is_dir())
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}
        if not self.classes:
            raise FileNotFoundError(f"there is no folder for a class in {self.root}")
        self.samples = [(path, label) for name, label in self.class_to_idx.items() for path in self._files(name)]
        if empty := [self.classes[label] for label in {*self.class_to_idx.values()} - {i for _, i in self.samples}]:
            raise FileNotFoundError(
                f"there is no file with one of the endings {', '.join(self.extensions)} for {', '.join(sorted(empty))} "
                f"in {self.root}"
            )

    def _files(self, name: str) -> Iterator[str]:
        for folder, _, files in sorted(os.walk(os.path.join(self.root, name), followlinks=True)):
            yield from (os.path.join(folder, file) for file in sorted(files) if file.lower().endswith(self.extensions))

    def __getitem__(self, key: Any) -> tuple[Any, int]:
        path, label = self.samples[key]
        return self._loaded(path), label  # an error's note finds the path by the local name `path`

    def _loaded(self, path: str) -> Any:
        if callable(self.load):
            return self.load(path)
        if self.load == "path":
            return path
        with open(path, "rb") as file:
            if self.load == "bytes":
                return file.read()
            with needed("PIL.Image", "images", "ImageFolder").open(file) as image:
                return image.convert("RGB")

    def __len__(self) -> int:
        return len(self.samples)
