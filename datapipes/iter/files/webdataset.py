"""webdataset: files whose names begin alike, put together as samples.

What is at hand is the sample being put together, in the cell. It is saved with its content, because its streams cannot
be: a stream that can be sought is read for that and taken back to its start, and any other was read when it came.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, ClassVar

from datapipes.cells import Cell, fields
from datapipes.errors import BadArgument, StateError
from datapipes.iter.files.pairs import pair_of
from datapipes.opening import Opening
from datapipes.pipe import IterDataPipe
from datapipes.streams import StreamWrapper, can_seek

_KEY = "__key__"


class WebDataset(IterDataPipe[dict[str, Any]]):
    """A dict for each run of ``(path, data)`` whose paths begin alike: ``"__key__"``, and data by the path's ending.

    The ending begins at the first dot of the file's name; files without one are left out. Streams that must be read in
    order, as those of an archive that cannot be sought, are read at once.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a/1.jpg", b"..."), ("a/1.cls", b"7"), ("a/2.jpg", b"!")]).webdataset())
    [{'__key__': 'a/1', '.jpg': b'...', '.cls': b'7'}, {'__key__': 'a/2', '.jpg': b'!'}]
    """

    _fluent: ClassVar[str | None] = "webdataset"

    def __init__(self, source_datapipe: IterDataPipe[tuple[str, Any]]) -> None:
        self.source_datapipe = source_datapipe

    def _open(self, at: Opening) -> Iterator[dict[str, Any]]:
        return self._samples(at.source(self.source_datapipe), at.cell(_Sample))

    def _samples(self, source: Iterator[Any], held: _Sample) -> Iterator[dict[str, Any]]:
        for element in source:
            path, data = element if type(element) is tuple and len(element) == 2 else pair_of(element, "webdataset")
            if type(path) is not str and not isinstance(path, str):
                raise BadArgument(f"webdataset() needs paths as str, got {type(path).__name__}: {path!r:.80}")
            prefix, suffix = split(path)
            if not suffix:
                continue
            if isinstance(data, StreamWrapper) and not can_seek(data):
                data = StreamWrapper(io.BytesIO(data.read()), name=path)
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
    """A path cut at the first dot of the file's name; the dot belongs to the second part.

    >>> split("a.dir/1.seg.jpg"), split("a.dir/1")
    (('a.dir/1', '.seg.jpg'), ('a.dir/1', ''))
    """
    if "\\" in path:
        path = path.replace("\\", "/")
    dot = path.find(".", path.rfind("/") + 1)
    return (path, "") if dot < 0 else (path[:dot], path[dot:])


class _Sample(Cell):
    """The sample that is being put together, if there is one."""

    def __init__(self) -> None:
        self.sample: dict[str, Any] | None = None

    def save(self) -> dict[str, Any] | None:
        if self.sample is None:
            return None
        streams = {key: stream.name for key, stream in self.sample.items() if isinstance(stream, StreamWrapper)}
        row = [_content(value) if key in streams else value for key, value in self.sample.items()]
        return {"keys": list(self.sample), "data": self.pack(row), "streams": streams}

    def load(self, saved: Any) -> None:
        if saved is None:
            return
        keys, data, streams = fields(saved, "keys", "data", "streams")
        row = self.unpack_list(data)
        if type(keys) is not list or len(keys) != len(row) or keys[:1] != [_KEY] or not all(map(_is_text, keys)):
            raise StateError(f"keys: expected the names of {len(row)} fields, found {keys!r:.80}")
        if type(streams) is not dict or not set(streams) <= set(keys):
            raise StateError(f"streams: expected some of the keys, found {streams!r:.80}")
        self.sample = dict(zip(keys, row, strict=True))
        for key, name in streams.items():
            if not isinstance(self.sample[key], bytes) or not (name is None or _is_text(name)):
                raise StateError(f"streams: {key!r} has no content in bytes")
            self.sample[key] = StreamWrapper(io.BytesIO(self.sample[key]), name=name)

    def close(self) -> None:
        StreamWrapper.close_streams(self.sample)
        self.sample = None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _content(stream: StreamWrapper) -> bytes:
    """All of a stream, which then stands at its start again."""
    content: bytes = stream.read()
    stream.seek(0)
    return content
