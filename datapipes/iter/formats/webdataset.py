"""webdataset: files whose names begin alike, combined to samples.

The cell has the sample being combined. A stream in it that no stage can open again is saved as its content. A stream
that can be sought is read for that and returned to its position; other streams are read when they arrive.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper, can_seek, is_lost
from datapipes.errors import BadArgument, StateError
from datapipes.io.fast import fast_library
from datapipes.iter.files.contents import pair_of
from datapipes.iter.formats.sample_decoders import Decode, Decoder, decoded, decoders_of
from datapipes.position.cells import Cell
from datapipes.position.opening import Opening

_KEY = "__key__"


@operator
class WebDataset(IterDataPipe[dict[str, Any]]):
    """A dict for each series of ``(path, data)`` whose paths begin alike: ``"__key__"``, and data by the path's ending.

    The ending begins at the first dot of the file's name; files without a dot are left out. Streams that must be read
    in order, such as members of an archive that cannot be sought, are read at once.

    Args:
        decode: Decoding of the files. ``"bytes"``, or a form for images: ``"pil"``, ``"rgb"``, ``"torchrgb"``,
            ``"rgb8"`` or another spec of webdataset, which also decodes text, numbers, JSON and arrays. Or a function
            of the ending, such as ``".jpg"``, and the content, which returns None for unknown endings; or several
            of these; or a dict of functions of the content by ending. Keys are then without the dot and in lower
            case, as in webdataset. Tensors in colors or gray, such as ``"torchrgb8"``, are made as ``decode_images``
            makes them. A file whose ending is ``.gz`` is decompressed first, by isal if it is installed
            (``loader2[fast]``). ``None``: data is not decoded, and keys keep the dot.

    >>> from datapipes.iter import IterableWrapper
    >>> files = [("1.jpg", b"..."), ("1.cls", b"7"), ("2.jpg", b"!")]
    >>> for sample in IterableWrapper(files).webdataset():
    ...     sample
    {'__key__': '1', '.jpg': b'...', '.cls': b'7'}
    {'__key__': '2', '.jpg': b'!'}
    """

    _fluent: ClassVar[str | None] = "webdataset"

    source_datapipe: IterDataPipe[tuple[str, Any]]
    decode: Decode | None = None

    def __post_init__(self) -> None:
        decoders_of(self.decode or "bytes")

    def _open(self, at: Opening) -> Iterator[dict[str, Any]]:
        samples = self._samples(at.source(self.source_datapipe), at.cell(_SampleCell), at)
        if self.decode is None:
            return samples
        return self._decoded(samples, decoders_of(self.decode), fast_library("isal.isal_zlib"))

    def _decoded(
        self, samples: Iterator[dict[str, Any]], decoders: list[Decoder], isal: Any
    ) -> Iterator[dict[str, Any]]:
        for sample in samples:
            yield decoded(sample, decoders, isal)

    def _samples(self, source: Iterator[Any], held: _SampleCell, at: Opening) -> Iterator[dict[str, Any]]:
        for element in source:
            try:
                path, data = element if type(element) is tuple and len(element) == 2 else pair_of(element, "webdataset")
                if type(path) is not str and not isinstance(path, str):
                    raise BadArgument(f"webdataset() needs paths as str, got {type(path).__name__}: {path!r:.80}")
                prefix, suffix = split(path)
                if not suffix:
                    continue
                if isinstance(data, StreamWrapper) and not can_seek(data):
                    data = StreamWrapper(io.BytesIO(data.read()), name=path)
            except BaseException as error:
                at.keep(element, error)
                raise
            sample = held.sample
            if sample is not None and sample[_KEY] == prefix:
                sample[suffix] = data
            else:
                held.sample = {_KEY: prefix, suffix: data}
                if sample is not None:
                    yield sample
        if held.sample is not None:
            sample, held.sample = held.sample, None
            yield sample


def split(path: str) -> tuple[str, str]:
    """Split a path at the first dot of the file's name; the dot belongs to the second part.

    >>> split("a.dir/1.seg.jpg"), split("a.dir/1")
    (('a.dir/1', '.seg.jpg'), ('a.dir/1', ''))
    """
    if "\\" in path:
        path = path.replace("\\", "/")
    dot = path.find(".", path.rfind("/") + 1)
    return (path, "") if dot < 0 else (path[:dot], path[dot:])


class _SampleCell(Cell):
    """The sample being combined, if there is one."""

    def __init__(self) -> None:
        self.sample: dict[str, Any] | None = None

    def save(self) -> bytes | None:
        if self.sample is None:
            return None
        return self.encode(
            [{key: _in_memory(value) if is_lost(value) else value for key, value in self.sample.items()}]
        )

    def load(self, saved: Any) -> None:
        if saved is None:
            return
        sample: Any = self.decode_list(saved)[:1]
        if not sample or type(sample[0]) is not dict or list(sample[0])[:1] != [_KEY]:
            raise StateError(f"expected a sample with its {_KEY!r} first, found {sample!r:.80}")
        (self.sample,) = sample

    def close(self) -> None:
        StreamWrapper.close_streams(self.sample)
        self.sample = None


def _in_memory(stream: Any) -> Any:
    """Copy the rest of a stream into memory, and return the stream to its position."""
    if not isinstance(stream, StreamWrapper):
        return stream
    at, left = stream.tell(), stream.read()
    stream.seek(at)
    return StreamWrapper(io.BytesIO(left) if isinstance(left, bytes) else io.StringIO(left), name=stream.name)
