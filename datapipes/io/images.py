"""Pictures in files, as tensors: decoded, cut to a box, resized with antialiasing.

Pillow decides about errors, warnings and limits on pixels. simplejpeg, if it is used, decodes a JPEG in gray or RGB to
the same bits. A JPEG that it refuses is decoded again by Pillow, whose picture or error counts. torch resizes in a
fifth of Pillow's time. Its pixels are within 1 of Pillow's, but for one value in some ten million, which is 2 away.

The boxes are those of torchvision's transforms, from the draws of ``random_order.draws_of``. The orientation in EXIF
data is not applied, as in Pillow, torchvision and webdataset. The first frame of an animation is decoded.
"""

from __future__ import annotations

import copy
import io
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import torch
from torch.nn.functional import interpolate

from datapipes.description.printing import stage
from datapipes.elements.streams import can_seek
from datapipes.errors import BadArgument, BadArgumentType
from datapipes.io.fast import fast_library
from datapipes.messages.extras import needed
from datapipes.messages.file_errors import named
from datapipes.messages.short import shortened
from datapipes.operator_support.checks import needs, whole_number
from datapipes.operator_support.random_order import DrawingByNumber

Size: TypeAlias = int | tuple[int, int] | None
"""Height and width, or one number for both; None: that of the picture."""
Crop: TypeAlias = Literal["random", "center"] | None
Mode: TypeAlias = Literal["RGB", "L"]
Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom, as in Pillow."""

_TRIES = 10
_FACTORS = (8, 4, 2)
_SHIFTS = ((0, 0), (1, 8), (2, 8)) if sys.byteorder == "little" else ((2, 8), (1, 8), (0, 8))
"""The planes in the order in which shifts bring their colors into the lowest byte of a pixel, each with its shift."""
_REFUSALS: Final = (ValueError, KeyError)  # of simplejpeg; a KeyError for an unusual subsampling
_HEADER = 4096  # bytes in which EXIF data and lists of pictures begin
_LEAST_SCALED = 64  # pixels; below it, two factors may give one size


def random_box(
    width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float], draws: Iterator[float]
) -> Box:
    """Return the box of torchvision's RandomResizedCrop: a random area and shape, at a random place.

    After ten boxes that do not fit, it is the largest one in the centre whose shape is allowed.

    >>> random_box(100, 10, (0.5, 1), (1, 1), iter([0.5] * 20))
    (45, 0, 55, 10)
    """
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(_TRIES):
        area = width * height * (scale[0] + (scale[1] - scale[0]) * next(draws))
        shape = math.exp(low + (high - low) * next(draws))
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            top, left = int(next(draws) * (height - h + 1)), int(next(draws) * (width - w + 1))
            return left, top, left + w, top + h
    w, h = width, height
    if width / height < ratio[0]:
        h = max(round(w / ratio[0]), 1)
    elif width / height > ratio[1]:
        w = max(round(h * ratio[1]), 1)
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


@dataclass(frozen=True, slots=True)
class PictureForm:
    """The form that pictures are brought into: the parameters of ``decode_images``."""

    size: Size = None
    crop: Crop = None
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = False
    mode: Mode = "RGB"
    exact: bool = True

    @property
    def is_random(self) -> bool:
        """Whether pictures depend on draws."""
        return self.crop == "random" or self.flip

    def tensor_of(self, data: Any, draws: Iterator[float], fast: Any = None) -> torch.Tensor:
        """Return the picture in the bytes of a file, as a contiguous uint8 tensor of colors, rows and columns.

        Args:
            data: The bytes.
            draws: The draws for this picture: the first one is that of the mirroring, the others those of the box.
            fast: The module ``simplejpeg``, or None.
        """
        pixels = _of_plain_jpeg(data, self.mode, fast) if self.exact and fast is not None else None
        image: Any = opened(data) if pixels is None else None
        height, width = image.size[::-1] if pixels is None else pixels.shape[:2]
        mirrored = self.flip and next(draws) < 0.5
        box = (0, 0, width, height)
        if self.crop == "random":
            box = random_box(width, height, self.scale, self.ratio, draws)
        wanted = self._resized(width, height)
        factor = 1 if self.exact else _factor(image, box, wanted)
        if pixels is None:
            pixels = _of_opened(image, data, self.mode, fast, factor)
        if factor > 1:
            box = (box[0] // factor, box[1] // factor, -(-box[2] // factor), -(-box[3] // factor))
        left, top, right, bottom = box
        pixels = pixels[top:bottom, left:right]
        if pixels.shape[:2] != wanted:
            # With the colors last in memory, and four of them, torch reads and writes pixels as they are.
            cut = needed("numpy", "images", "decode_images").ascontiguousarray(pixels)
            stacked = torch.from_numpy(cut)[None].permute(0, 3, 1, 2)
            pixels = interpolate(stacked, wanted, mode="bilinear", antialias=True)[0].permute(1, 2, 0).numpy()
        if self.crop == "center":
            (h, w), (rows, columns) = self._pair(), wanted
            top, left = round((rows - h) / 2), round((columns - w) / 2)
            pixels = pixels[top : top + h, left : left + w]
        return _planes(pixels[:, ::-1] if mirrored else pixels)

    def _pair(self) -> tuple[int, int]:
        return self.size if isinstance(self.size, tuple) else (self.size or 0, self.size or 0)

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        """Return the height and width to which the box of a picture is resized."""
        if self.size is None:
            return height, width
        if self.crop == "random" or (self.crop is None and isinstance(self.size, tuple)):
            return self._pair()
        h, w = self._pair()
        if width * h <= height * w:
            return int(w * height / width), w
        return h, int(h * width / height)


# The functions below return pixels as arrays of rows, columns and colors. Those in RGB have four bytes, as in Pillow.
# torch only resizes. For its other operations it would wake threads, which takes long on a busy machine.


def opened(data: Any) -> Any:
    """Open the picture in the bytes of a file with Pillow, which reads the header and checks its limits on pixels."""
    pillow = needed("PIL.Image", "images", "decode_images")
    try:
        return pillow.open(io.BytesIO(data))
    except needed("PIL", "images", "decode_images").UnidentifiedImageError as error:
        error.args = (f"cannot identify the image format of these {len(data)} bytes",)  # Pillow's names an address
        raise


def _of_plain_jpeg(data: Any, mode: Mode, fast: Any) -> Any:
    """Return the pixels of a JPEG, or None if Pillow has to look at the header.

    Pillow warns of damaged EXIF data and lists of pictures, and of sizes near its limit. Its look takes 20 us.
    """
    is_jpeg = isinstance(data, bytes | bytearray) and data.startswith(b"\xff\xd8\xff")
    if not is_jpeg or data.find(b"Exif\0", 0, _HEADER) >= 0 or data.find(b"MPF\0", 0, _HEADER) >= 0:
        return None
    try:
        height, width, colors, _ = fast.decode_jpeg_header(data)
    except _REFUSALS:
        return None
    most = needed("PIL.Image", "images", "decode_images").MAX_IMAGE_PIXELS
    if colors not in ("YCbCr", "RGB", "Gray") or (most is not None and width * height > most):
        return None
    return _of_jpeg(data, mode, fast, (width, height), is_gray=colors == "Gray")


def _of_jpeg(data: Any, mode: Mode, fast: Any, size: tuple[int, int], is_gray: bool, factor: int = 1) -> Any:
    """Return the pixels of a JPEG, or None if simplejpeg refuses it."""
    form = "RGBX" if mode == "RGB" else "GRAY" if is_gray else "RGB"
    width, height = (-(-side // factor) for side in size)
    try:
        found = fast.decode_jpeg(data, form, min_height=height, min_width=width, min_factor=factor)
    except _REFUSALS:  # Pillow's picture or error counts
        return None
    if found.shape[:2] != (height, width):
        return None
    if form == "RGB":
        return _of_pillow(needed("PIL.Image", "images", "decode_images").fromarray(found), mode)
    return found


def _of_opened(image: Any, data: Any, mode: Mode, fast: Any, factor: int) -> Any:
    """Return the pixels of an opened picture, made smaller by 1, 2, 4 or 8 while it is decoded."""
    if fast is not None and image.format in ("JPEG", "MPO") and image.mode in ("RGB", "L"):
        found = _of_jpeg(data, mode, fast, image.size, image.mode == "L", factor)
        if found is not None:
            return found
    if factor > 1:
        image.draft(None, (image.width // factor, image.height // factor))
    return _of_pillow(image, mode)


def _of_pillow(image: Any, mode: Mode) -> Any:
    numpy = needed("numpy", "images", "decode_images")
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        values = (numpy.asarray(image) >> 8).clip(0, 255).astype(numpy.uint8)
        image = needed("PIL.Image", "images", "decode_images").fromarray(values)
    if image.mode != mode:
        image = image.convert("RGB")
    raw, colors = ("RGBX", 4) if mode == "RGB" else ("L", 1)
    memory = bytearray((image if image.mode == mode else image.convert(mode)).tobytes("raw", raw))
    return numpy.frombuffer(memory, dtype=numpy.uint8).reshape(image.height, image.width, colors)


def _planes(pixels: Any) -> torch.Tensor:
    """Return pixels, which may change, as contiguous planes. Shifts of whole pixels are faster than a strided copy."""
    height, width, colors = pixels.shape
    planes = torch.empty((min(colors, 3), height, width), dtype=torch.uint8, device="cpu")  # whatever the default
    memory = planes.numpy()
    if colors == 1:
        memory[0] = pixels[:, :, 0]
        return planes
    words = pixels.view("u4")[:, :, 0]
    for plane, shift in _SHIFTS:
        if shift:
            words >>= shift
        memory[plane] = words
    return planes


def _factor(image: Any, box: Box, wanted: tuple[int, int]) -> int:
    """Return the largest factor by which a JPEG may be made smaller so that the box stays as large as the result."""
    if image.format != "JPEG" or image.mode not in ("RGB", "L") or min(image.size) < _LEAST_SCALED:
        return 1
    width, height = box[2] - box[0], box[3] - box[1]
    return next((n for n in _FACTORS if height // n >= wanted[0] and width // n >= wanted[1]), 1)


# -- the picture in an element -----------------------------------------------------------------------------------------


class DecodingImages(DrawingByNumber):
    """Base of the stages that decode pictures: their parameters, and the picture in an element."""

    size: Size
    crop: Crop
    scale: tuple[float, float]
    ratio: tuple[float, float]
    flip: bool
    mode: Mode
    exact: bool
    key: int | str | None

    def _check_form(self) -> None:
        needed("PIL.Image", "images", "decode_images")
        needs(
            self.crop in ("random", "center", None), self, f'crop must be "random", "center" or None, got {self.crop!r}'
        )
        needs(self.mode in ("RGB", "L"), self, f'mode must be "RGB" or "L", got {self.mode!r}')
        if isinstance(self.size, tuple | list):
            needs(len(self.size) == 2, self, f"size must be one number or (height, width), got {self.size!r:.60}")
            self.size = (whole_number("size", self.size[0], self), whole_number("size", self.size[1], self))
            needs(min(self.size) > 0, self, "size must be at least 1")
        elif self.size is not None:
            self.size = whole_number("size", self.size, self)
            needs(self.size > 0, self, "size must be at least 1")
        needs(
            self.size is not None or self.crop is None, self, f"crop={self.crop!r} needs a size; crop=None needs none"
        )
        self.scale, self.ratio = _range(self, "scale"), _range(self, "ratio")
        if isinstance(self.key, str):
            _names(self.key)
        elif type(self.key) is not int and self.key is not None:
            raise BadArgumentType(
                f"key is an index, or names such as 'jpg;png', got {self.key!r:.60}, in {stage(self)}"
            )

    def _form(self) -> PictureForm:
        return PictureForm(self.size, self.crop, self.scale, self.ratio, self.flip, self.mode, self.exact)

    def _maker(self) -> Callable[[Any, Iterator[float]], Any]:
        """Return a function of an element and its draws that returns the element with its picture decoded.

        It is made once for a session.
        """
        in_run = self._seed_in_run
        if in_run is None:
            return self._new_maker()
        if in_run.opened is None:
            in_run.opened = self._new_maker()
        made: Callable[[Any, Iterator[float]], Any] = in_run.opened
        return made

    def _new_maker(self) -> Callable[[Any, Iterator[float]], Any]:
        form, key = self._form(), self.key
        tensor_of = partial(form.tensor_of, fast=fast_library("simplejpeg"))
        names = _names(key) if isinstance(key, str) else ()

        def made(element: Any, draws: Iterator[float]) -> Any:
            if key is None:
                return decoded(element, lambda data: tensor_of(data, draws))
            at = _present(element, names) if names else key
            try:
                return _replaced(element, at, decoded(element[at], lambda data: tensor_of(data, draws)))
            except Exception as error:
                if isinstance(element, Mapping):
                    error.add_note(f"decoding {at!r} of the sample {shortened(element.get('__key__'))}")
                raise

        return made


def _range(pipe: Any, name: str) -> tuple[float, float]:
    given = getattr(pipe, name)
    is_pair = isinstance(given, Sequence) and len(given) == 2 and all(isinstance(end, int | float) for end in given)
    needs(is_pair and 0 < given[0] <= given[1], pipe, f"{name} must be (smallest, largest) above 0, got {given!r:.60}")
    return float(given[0]), float(given[1])


def _names(key: str) -> tuple[str, ...]:
    names = [name.strip().removeprefix(".") for name in key.split(";")]
    if not all(names):
        raise BadArgument(f"key must have names between its semicolons, such as 'jpg;png', got {key!r:.60}")
    return tuple(each for name in names for each in (name, f".{name}"))


def _present(sample: Any, names: Sequence[str]) -> str:
    """Return the first of some names that is a key of a sample."""
    if not isinstance(sample, Mapping):
        raise BadArgumentType(
            f"decode_images(key=...) with names needs dicts, got {shortened(sample)}: give an index for tuples"
        )
    for name in names:
        if name in sample:
            return name
    raise KeyError(f"none of {', '.join(names[::2])} is in the sample with the keys {', '.join(map(str, sample))}")


def _replaced(element: Any, at: Any, value: Any) -> Any:
    """Return a copy of an element with another value in one place."""
    if isinstance(element, tuple):
        row = list(element)
        row[at] = value
        return getattr(element, "_make", tuple)(row)
    new = copy.copy(element)
    new[at] = value
    return new


def decoded(value: Any, decode: Callable[[Any], Any]) -> Any:
    """Return the picture in bytes, in an open file, at a path; or the path and the picture of a pair with a path.

    A file is read and closed. If that or decoding fails, a file that can be sought returns to its position, so that it
    can be tried again.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return decode(value)
    if isinstance(value, str | os.PathLike):
        path = value
        with _Naming(path), open(path, "rb") as file:
            return decode(file.read())
    if callable(getattr(value, "read", None)):
        return _of_stream(value, decode)
    if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], str):
        path, data = value
        if not isinstance(data, str | tuple | list):
            with _Naming(path):
                return path, decoded(data, decode)
    raise BadArgumentType(
        "decode_images() needs the bytes of a picture, an open file, a path, or a pair of a path and one of the first "
        f"two, got {shortened(value)}: name the picture of a longer element, as in key=0 or key='jpg;png'"
    )


def _of_stream(stream: Any, decode: Callable[[Any], Any]) -> Any:
    start = stream.tell() if can_seek(stream) else None
    try:
        data = stream.read()
        if not isinstance(data, bytes | bytearray | memoryview):
            raise BadArgumentType(f"a picture is read from a binary file, and this one gave {type(data).__name__}")
        made = decode(data)
    except BaseException:
        if start is not None:
            with suppress(OSError, ValueError):
                stream.seek(start)
        raise
    close = getattr(stream, "close", None)
    if callable(close):
        close()
    return made


class _Naming:
    """Context that adds the path of a file to an error."""

    def __init__(self, path: object) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            error.add_note(f"decoding {named(str(self._path))}")
