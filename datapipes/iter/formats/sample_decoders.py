"""Decoders for the files of a webdataset's sample, by the endings of their names and by webdataset's own specs.

A decoder is a function of the ending, which begins with a dot, and the content. Its result replaces the content; None
leaves it to the next decoder. After the user's decoders there are those for text, numbers, JSON, arrays, tensors and
pickles of plain data. A pickle that refers to a class could run code, and is refused.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, TypeAlias

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument
from datapipes.io.fast import fast_library
from datapipes.io.images import PictureForm
from datapipes.iter.formats.routed_decode import basichandlers
from datapipes.messages.extras import needed

Decoder: TypeAlias = Callable[[str, bytes], Any]
Decode: TypeAlias = str | Decoder | Mapping[str, Callable[[bytes], Any]] | Sequence[str | Decoder]
"""A spec for images, or "bytes"; a decoder; functions of the content by ending; or several specs and decoders."""

_MODES = ("l", "rgb", "rgba")
IMAGE_SPECS = ("torch", "pil", *_MODES, *(f"{mode}8" for mode in _MODES))
IMAGE_SPECS += tuple(f"torch{spec}" for spec in IMAGE_SPECS[2:]) + tuple(f"pil{mode}" for mode in _MODES)
"""Forms of a decoded image: numpy (height, width, colors), torch (colors, height, width) or Pillow; from 0 to 1, or
with an 8 as bytes; in gray, or in colors."""
_SAME = {"pkl": "pickle", "pth": "pt"}


def decoders_of(decode: Decode) -> list[Decoder]:
    """Return the decoders of a spec, followed by the default ones; none for ``"bytes"``."""
    if decode == "bytes":
        return []
    if isinstance(decode, Mapping):
        return [partial(_by_ending, {f".{key.lstrip('.').lower()}": fn for key, fn in decode.items()}), *_PLAIN]
    if not isinstance(decode, Sequence) and not callable(decode):
        raise BadArgument(f'decode must be "bytes", a function, or one of {", ".join(IMAGE_SPECS)}, got {decode!r:.60}')
    asked = [decode] if isinstance(decode, str) or callable(decode) else list(decode)
    if wrong := [each for each in asked if not callable(each) and each not in IMAGE_SPECS]:
        raise BadArgument(
            f'decode must be "bytes", a function, or one of {", ".join(IMAGE_SPECS)}, got {wrong[0]!r:.60}'
        )
    return [each if callable(each) else _decoder_of_images(each) for each in asked] + _PLAIN


def decoded(sample: dict[str, Any], decoders: Sequence[Decoder], isal: Any) -> dict[str, Any]:
    """Return a sample with its files decoded, under webdataset's keys: without the dot and in lower case.

    ``isal`` is the module that decompresses gzip, or None.
    """
    found: dict[str, Any] = {}
    for key, data in sample.items():
        if key[:1] != ".":
            found[key] = data
            continue
        if isinstance(data, StreamWrapper):
            with data:
                data = data.read()
        try:
            found[key[1:].lower()] = _first(key.lower(), data, decoders, isal) if isinstance(data, bytes) else data
        except Exception as error:
            error.add_note(f"decoding {key!r} of the sample {sample.get('__key__')!r}")
            raise
    return found


def _first(ending: str, data: bytes, decoders: Sequence[Decoder], isal: Any) -> Any:
    if decoders and ending.endswith(".gz"):
        ending, data = ending[:-3], _gunzipped(data, isal)
    answers = (decoder(ending, data) for decoder in decoders)
    return next((answer for answer in answers if answer is not None), data)


def _gunzipped(data: bytes, isal: Any) -> bytes:
    """Decompress by isal. What is not one whole stream goes to ``gzip``, whose data or error counts."""
    if isal is not None:
        codec = isal.decompressobj(zlib.MAX_WBITS | 16)
        with suppress(isal.error):
            made: bytes = codec.decompress(data)
            if codec.eof and not codec.unused_data:
                return made
    return gzip.decompress(data)


def _by_ending(functions: Mapping[str, Callable[[bytes], Any]], ending: str, data: bytes) -> Any:
    """Decode by the function for the longest known ending, ``.seg.png`` before ``.png``. None: no ending is known."""
    for at, letter in enumerate(ending):
        if letter == "." and ending[at:] in functions:
            return functions[ending[at:]](data)
    return None


def _plain(ending: str, data: bytes) -> Any:
    key = ending.rpartition(".")[2]
    if key in ("npy", "npz"):
        loaded = needed("numpy", "images", "webdataset").load(io.BytesIO(data), allow_pickle=False)
        return loaded if key == "npy" else dict(loaded)
    return basichandlers(_SAME.get(key, key), data)


_PLAIN: list[Decoder] = [_plain]


def _decoder_of_images(spec: str) -> Decoder:
    if spec.startswith("torch") and "rgba" not in spec:
        return partial(_image_tensor, spec, fast_library("simplejpeg"))
    return partial(_image, spec)


def _image_tensor(spec: str, fast: Any, ending: str, data: bytes) -> Any:
    """Decode an image to a tensor, as ``decode_images`` does. Return None if the ending is not an image's."""
    if ending[ending.rfind(".") :] not in _image_endings():
        return None
    is_gray = spec.startswith("torchl")
    planes = PictureForm(mode="L" if is_gray else "RGB").tensor_of(data, iter(()), fast)
    pixels = planes[0] if is_gray else planes
    return pixels if spec.endswith("8") else pixels.float() / 255


def _image(spec: str, ending: str, data: bytes) -> Any:
    """Decode an image as one of webdataset's specs says. Return None if the ending is not an image's."""
    if ending[ending.rfind(".") :] not in _image_endings():
        return None
    form = next(name for name in ("torch", "pil", "") if spec.startswith(name))
    mode = spec.removeprefix(form).removesuffix("8") or "rgb"
    with needed("PIL.Image", "images", "webdataset").open(io.BytesIO(data)) as opened:
        image = opened.convert(mode.upper())
    if form == "pil":
        return image
    numpy = needed("numpy", "images", "webdataset")
    pixels = numpy.array(image)
    if not spec.endswith("8"):
        pixels = pixels.astype(numpy.float32) / 255
    if form == "":
        return pixels
    import torch

    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


@cache
def _image_endings() -> frozenset[str]:
    """Return the endings of the files that Pillow reads."""
    pillow = needed("PIL.Image", "images", "webdataset")
    return frozenset(ending for ending, kind in pillow.registered_extensions().items() if kind in pillow.OPEN)
