"""Pictures as tensors, compared with Pillow: pixels, boxes, formats, damaged files, limits."""

from __future__ import annotations

import io
import math
import struct
import warnings
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import simplejpeg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile
from torch.utils._python_dispatch import TorchDispatchMode

from datapipes.io.images import PictureForm, random_box
from datapipes.operator_support.random_order import draws_of

FAST = [simplejpeg, None]


@cache
def pixels(width: int, height: int, seed: int = 0) -> Any:
    """Colors with broad and fine structure."""
    random = np.random.default_rng(seed)
    broad = random.integers(0, 256, (height // 16 + 1, width // 16 + 1, 3)).repeat(16, 0).repeat(16, 1)
    fine = random.integers(-20, 21, (height, width, 3))
    return (broad[:height, :width] + fine).clip(0, 255).astype(np.uint8)


def picture(width: int = 60, height: int = 40, mode: str = "RGB", seed: int = 0) -> Any:
    return Image.fromarray(pixels(width, height, seed)).convert(mode)


def saved(image: Any, kind: str = "JPEG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def of_pillow(data: bytes, mode: str = "RGB") -> Any:
    """The whole picture as Pillow gives it: in RGB, and then in gray."""
    return Image.open(io.BytesIO(data)).convert("RGB").convert(mode)


def planes(image: Any) -> torch.Tensor:
    found = torch.from_numpy(np.array(image))
    return found.permute(2, 0, 1) if found.dim() == 3 else found[None]


def must_be_near(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.dtype == torch.uint8
    assert found.is_contiguous()
    assert found.untyped_storage().nbytes() == found.numel(), "a state or a queue would have more than the picture"
    assert found.shape == expected.shape
    away = (found.int() - expected.int()).abs()
    assert int(away.max()) <= 2
    assert int((away > 1).sum()) <= 1 + away.numel() // 100  # the next test has the true share


sides = st.integers(1, 90)
drawn_pictures = st.builds(picture, sides, sides, st.sampled_from(["RGB", "L"]), st.integers(0, 3))
jpegs = st.builds(
    lambda image, quality, subsampling, progressive: saved(
        image, quality=quality, subsampling=subsampling, progressive=progressive
    ),
    drawn_pictures,
    st.integers(20, 98),
    st.integers(0, 2),
    st.booleans(),
)


@given(jpegs, st.sampled_from(["RGB", "L"]))
def test_a_whole_jpeg_is_equal_to_the_bit(data: bytes, mode: Any) -> None:
    for fast in FAST:
        found = PictureForm(mode=mode).tensor_of(data, iter(()), fast)
        must_be_near(found, found)
        assert torch.equal(found, planes(of_pillow(data, mode)))


@given(jpegs, sides, sides, st.sampled_from(["RGB", "L"]), st.integers(0, 9))
def test_a_random_box_is_within_one_of_pillow(data: bytes, height: int, width: int, mode: Any, number: int) -> None:
    form = PictureForm((height, width), "random", (0.05, 1.0), (0.5, 2.0), mode=mode)
    whole = of_pillow(data, mode)
    box = random_box(whole.width, whole.height, form.scale, form.ratio, draws_of(3, number))
    found = [form.tensor_of(data, draws_of(3, number), fast) for fast in FAST]
    assert torch.equal(*found)
    must_be_near(found[0], planes(whole.crop(box).resize((width, height), Image.Resampling.BILINEAR)))


@given(sides, sides, st.integers(1, 70), st.sampled_from(["RGB", "L"]))
def test_the_centre_is_that_of_torchvision(width: int, height: int, size: int, mode: Any) -> None:
    data = saved(picture(width, height), "PNG")
    shorter, longer = sorted((width, height))
    longer = int(size * longer / shorter)
    w, h = (size, longer) if width <= height else (longer, size)
    left, top = round((w - size) / 2), round((h - size) / 2)
    whole = of_pillow(data, mode).resize((w, h), Image.Resampling.BILINEAR)
    must_be_near(PictureForm(size, mode=mode).tensor_of(data, iter(())), planes(whole))
    cut = whole.crop((left, top, left + size, top + size))
    must_be_near(PictureForm(size, "center", mode=mode).tensor_of(data, iter(())), planes(cut))


@given(sides, sides, sides, sides)
def test_a_pair_is_an_exact_size_or_one_to_cover(width: int, height: int, h: int, w: int) -> None:
    data = saved(picture(width, height), "PNG")
    exactly = of_pillow(data).resize((w, h), Image.Resampling.BILINEAR)
    must_be_near(PictureForm((h, w)).tensor_of(data, iter(())), planes(exactly))
    assert PictureForm((h, w), "center").tensor_of(data, iter(())).shape == (3, h, w)


def test_hardly_a_value_is_more_than_one_away_from_pillow() -> None:
    """Both round between two passes, with weights of 16 and of 22 bits: one value in 40 million is 2 away."""
    more, values = 0, 0
    for number in range(60):
        data = saved(picture(200 + number, 350 - 2 * number, seed=number), "PNG")
        whole = of_pillow(data).resize((224, 224), Image.Resampling.BILINEAR)
        away = (PictureForm((224, 224)).tensor_of(data, iter(())).int() - planes(whole).int()).abs()
        more, values = more + int((away > 1).sum()), values + away.numel()
    assert more <= 10
    assert values > 9_000_000


class Noted(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types there
    """Notes the operations of torch."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types there
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func).split(".")[1])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_torch_only_resizes(mode: Any) -> None:
    """Its other operations on a whole picture would wake threads."""
    data = saved(picture(400, 300))
    views = {"empty", "lift_fresh", "unsqueeze", "permute", "select", "slice", "detach"}
    for form in (
        PictureForm(224, "random", flip=True, mode=mode),
        PictureForm(224, "center", mode=mode),
        PictureForm(mode=mode),
        PictureForm(224, mode=mode, exact=False),
    ):
        for fast in FAST:
            with Noted() as noted:
                form.tensor_of(data, iter([0.1] * 50), fast)
            assert noted.names <= {*views, "_upsample_bilinear2d_aa"}


def torchvisions_box(width: int, height: int, scale: Any, ratio: Any, draws: Iterator[float]) -> Any:
    """RandomResizedCrop.get_params of torchvision 0.25, with other draws."""

    def uniform(low: float, high: float) -> float:
        return low + (high - low) * next(draws)

    def randint(below: int) -> int:
        return int(below * next(draws))

    area = height * width
    log_ratio = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(10):
        target_area = area * uniform(scale[0], scale[1])
        aspect_ratio = math.exp(uniform(log_ratio[0], log_ratio[1]))
        w = round(math.sqrt(target_area * aspect_ratio))
        h = round(math.sqrt(target_area / aspect_ratio))
        if 0 < w <= width and 0 < h <= height:
            i = randint(height - h + 1)
            j = randint(width - w + 1)
            return j, i, j + w, i + h
    in_ratio = float(width) / float(height)
    if in_ratio < min(ratio):
        w = width
        h = round(w / min(ratio))
    elif in_ratio > max(ratio):
        h = height
        w = round(h * max(ratio))
    else:
        w = width
        h = height
    i = (height - h) // 2
    j = (width - w) // 2
    return j, i, j + w, i + h


@given(
    st.integers(1, 3000),
    st.integers(1, 3000),
    st.sampled_from([(0.08, 1.0), (0.9, 1.0), (1.0, 1.0), (0.5, 3.0)]),
    st.sampled_from([(3 / 4, 4 / 3), (1.0, 1.0), (0.1, 0.2), (1.5, 9.0)]),
    st.integers(0, 2**64 - 1),
)
@settings(max_examples=300)
def test_boxes_are_those_of_torchvision(width: int, height: int, scale: Any, ratio: Any, number: int) -> None:
    found = random_box(width, height, scale, ratio, draws_of(1, number))
    left, top, right, bottom = found
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    expected = torchvisions_box(width, height, scale, ratio, draws_of(1, number))
    if expected[2] > expected[0] and expected[3] > expected[1]:  # its central box of a thin picture may be empty
        assert found == expected


def test_draws_are_even() -> None:
    some = [next(draws_of(5, number)) for number in range(4000)]
    counts = torch.histc(torch.tensor(some), bins=8, min=0, max=1)
    assert int(counts.min()) > 400
    assert int(counts.max()) < 600
    draws = draws_of(5, 1)
    assert len({next(draws) for _ in range(100)}) == 100


def test_flips() -> None:
    data = saved(picture(), "PNG")
    whole = planes(of_pillow(data))
    form = PictureForm(flip=True)
    assert torch.equal(form.tensor_of(data, iter([0.4])), whole.flip(2))
    assert torch.equal(form.tensor_of(data, iter([0.5])), whole)
    boxed = PictureForm(20, "random", flip=True)
    found = boxed.tensor_of(data, iter([0.4, *[0.5] * 4]))
    assert torch.equal(found, PictureForm(20, "random").tensor_of(data, iter([0.5] * 4)).flip(2))
    must_be_near(found, found)


def sixteen_bits(kind: str) -> bytes:
    values = np.arange(0, 65536, 65536 // 24, dtype=np.uint16)[:24].reshape(4, 6)
    if kind == "PPM":
        return b"P5 6 4 65535 " + values.astype(">u2").tobytes()
    return saved(Image.fromarray(values), kind)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_sixteen_bits_are_scaled(kind: str, mode: Any) -> None:
    expected = torch.arange(0, 65536, 65536 // 24)[:24].view(4, 6) >> 8
    found = PictureForm(mode=mode).tensor_of(sixteen_bits(kind), iter(()))
    assert torch.equal(found, expected.to(torch.uint8).expand(len(found), 4, 6))


def png(color: int, depth: int, rows: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """A PNG of two pixels in a row."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 2, 1, depth, color, 0, 0, 0)
    chunks = [(b"IHDR", header), *more, (b"IDAT", zlib.compress(b"\0" + rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in chunks)


def test_colors_of_sixteen_bits_are_scaled_alike() -> None:
    of_colors = png(2, 16, struct.pack(">6H", 300, 40000, 65535, 0, 256, 511))
    assert PictureForm().tensor_of(of_colors, iter(())).tolist() == [[[1, 0]], [[156, 1]], [[255, 1]]]
    gray = png(0, 16, struct.pack(">2H", 40000, 511))
    assert PictureForm(mode="L").tensor_of(gray, iter(())).tolist() == [[[156, 1]]]


def animation() -> bytes:
    return saved(picture(), "GIF", save_all=True, append_images=[picture(seed=1), picture(seed=2)])


def cmyk() -> bytes:
    return saved(picture(mode="CMYK"))


def palette_with_alpha() -> bytes:
    return png(3, 8, b"\0\1", (b"PLTE", bytes([9, 8, 7, 1, 2, 3])), (b"tRNS", b"\x80\x00"))


FORMATS = {
    "animation": animation(),
    "one pixel": saved(picture(1, 1)),
    "one pixel, gray": saved(picture(1, 1, "L"), "PNG"),
    "one row": saved(picture(70, 1)),
    "one column": saved(picture(1, 70)),
    "CMYK": cmyk(),
    "gray JPEG": saved(picture(mode="L")),
    "RGB in a JPEG": saved(picture(), keep_rgb=True),
    "rotated by EXIF": saved(picture(), exif=b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"),
    "gray and alpha": saved(picture(mode="LA"), "PNG"),
    "colors and alpha": saved(picture(mode="RGBA"), "WEBP", lossless=True),
    "palette": saved(picture(mode="P"), "PNG"),
    "palette and alpha": palette_with_alpha(),
    "bits": saved(picture(mode="1"), "PNG"),
    "BMP": saved(picture(), "BMP"),
    "TIFF": saved(picture(), "TIFF"),
    "several pictures": saved(picture(), "MPO", save_all=True, append_images=[picture(seed=1)]),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("fast", FAST, ids=["fast", "plain"])
@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
def test_formats(name: str, mode: Any, fast: Any) -> None:
    data = FORMATS[name]
    whole = of_pillow(data, mode)
    assert torch.equal(PictureForm(mode=mode).tensor_of(data, iter(()), fast), planes(whole))
    for form in (PictureForm(8, "random", mode=mode), PictureForm(8, "random", mode=mode, exact=False)):
        found = form.tensor_of(data, iter([0.5] * 50), fast)
        box = random_box(whole.width, whole.height, form.scale, form.ratio, iter([0.5] * 50))
        must_be_near(found, planes(whole.crop(box).resize((8, 8), Image.Resampling.BILINEAR)))


@given(
    st.integers(1, 400),
    st.integers(1, 400),
    st.integers(1, 100),
    st.sampled_from(["random", "center"]),
    st.sampled_from(["RGB", "L"]),
    st.integers(0, 50),
)
def test_a_smaller_decoding_is_the_same_for_both_decoders(
    width: int, height: int, size: int, crop: Any, mode: Any, number: int
) -> None:
    smooth = Image.fromarray(pixels(25, 25)).resize((width, height), Image.Resampling.BICUBIC)
    data = saved(smooth, quality=95)
    form = PictureForm(size, crop, mode=mode, exact=False)
    found = [form.tensor_of(data, draws_of(1, number), fast) for fast in FAST]
    assert torch.equal(*found)
    must_be_near(found[0], found[1])
    exact = PictureForm(size, crop, mode=mode).tensor_of(data, draws_of(1, number))
    assert found[0].shape == exact.shape
    assert float((found[0].float() - exact.float()).abs().mean()) < 40


def test_a_large_picture_is_decoded_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    factors: list[Any] = []

    class Watched:
        decode_jpeg_header = staticmethod(simplejpeg.decode_jpeg_header)

        @staticmethod
        def decode_jpeg(*given: Any, **options: Any) -> Any:
            factors.append(options["min_factor"])
            return simplejpeg.decode_jpeg(*given, **options)

    data = saved(picture(800, 600))
    for size in (300, 299, 150, 75, 20):
        PictureForm(size, "center", exact=False).tensor_of(data, iter(()), Watched)
    PictureForm(20, "center").tensor_of(data, iter(()), Watched)
    assert factors == [2, 2, 4, 8, 8, 1]


def outcome(data: bytes, form: PictureForm, fast: Any) -> Any:
    """The picture, or the type and the words of an error; and the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found: Any = form.tensor_of(data, draws_of(1, 1), fast).tolist()
        except Exception as error:
            found = type(error), str(error)
    return found, [(each.category, str(each.message)) for each in told]


DAMAGED = {
    "JPEG": saved(picture(64, 48), quality=90),
    "progressive": saved(picture(64, 48), quality=90, progressive=True),
    "with restarts": saved(picture(64, 48), quality=90, restart_marker_blocks=2),
    "gray": saved(picture(64, 48, "L")),
    "CMYK": saved(picture(64, 48, "CMYK")),
    "with EXIF": FORMATS["rotated by EXIF"],
    "PNG": saved(picture(20, 10), "PNG"),
    "GIF": saved(picture(20, 10), "GIF"),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("tolerant", [False, True])
@given(st.data())
@settings(max_examples=150)
def test_damaged_files_are_alike_with_and_without_the_extra(name: str, tolerant: bool, data: st.DataObject) -> None:
    damaged = bytearray(DAMAGED[name])
    kind = data.draw(st.sampled_from(["cut", "changed", "removed", "added"]))
    at = data.draw(st.integers(0, len(damaged) - 1))
    if kind == "cut":
        del damaged[at:]
    for _ in range(data.draw(st.integers(1, 3)) if kind == "changed" else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    if kind == "removed":
        del damaged[at : at + data.draw(st.integers(1, 20))]
    if kind == "added":
        damaged[at:at] = data.draw(st.binary(min_size=1, max_size=5))
    form = data.draw(st.sampled_from([PictureForm(), PictureForm(8, "random"), PictureForm(8, "center", exact=False)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", tolerant)
        patch.setattr(Image, "MAX_IMAGE_PIXELS", 10_000)  # a damaged size takes no time
        assert outcome(bytes(damaged), form, simplejpeg) == outcome(bytes(damaged), form, None)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("fast", FAST, ids=["fast", "plain"])
def test_the_limits_of_pillow_hold(monkeypatch: pytest.MonkeyPatch, kind: str, fast: Any) -> None:
    data = saved(picture(60, 40), kind)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60 * 40 - 1)
    with pytest.warns(Image.DecompressionBombWarning, match="2400 pixels"):
        PictureForm().tensor_of(data, iter(()), fast)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60 * 20 - 1)
    with pytest.raises(Image.DecompressionBombError, match="2400 pixels"):
        PictureForm().tensor_of(data, iter(()), fast)


def test_a_default_device_does_not_matter() -> None:
    with torch.device("meta"):
        found = PictureForm(8, "center").tensor_of(saved(picture()), iter(()), simplejpeg)
    assert found.device.type == "cpu"


def test_what_is_no_picture() -> None:
    for data in (b"", b"GIF89a", b"no picture"):
        with pytest.raises(OSError, match=f"cannot identify the image format of these {len(data)} bytes"):
            PictureForm().tensor_of(data, iter(()), simplejpeg)
