"""decompress, extract, load_from_bz2, load_from_xz: the content of compressed files as streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from enum import Enum
from typing import Any, ClassVar, Literal, cast

from datapipes.description.pipe import IterDataPipe, composed, operator
from datapipes.elements.streams import Origin, StreamWrapper, unwrapped
from datapipes.errors import BadArgument
from datapipes.io.archives.codecs import kind_of
from datapipes.io.archives.inflating import inflated
from datapipes.io.archives.limits import MAX_RATIO, Unpacking
from datapipes.io.archives.ranges import seekable
from datapipes.io.archives.tar_entries import LazyTar, plain_tar
from datapipes.io.archives.zip_entries import open_zip
from datapipes.io.fast import fast_library
from datapipes.iter.archives.members import opened, origin_from_start
from datapipes.operator_support.checks import given_length
from datapipes.position.on_error import OnError, Tolerant
from datapipes.position.reopening import origin_of
from datapipes.position.steps import Step


class CompressionType(Enum):
    """Kinds of compression of a file."""

    GZIP = "gzip"
    LZMA = "lzma"
    TAR = "tar"
    ZIP = "zip"
    BZIP2 = "bz2"
    ZSTD = "zstd"


@operator
class Decompressor(Tolerant, IterDataPipe[tuple[str, StreamWrapper]]):
    """``(path, content)`` for each ``(path, stream)``, decompressed.

    The content of an archive is a ``tarfile.TarFile`` or a ``zipfile.ZipFile``, otherwise a buffered reader of bytes.
    It ends after its checksum is verified. The limits do not apply to what a ``ZipFile`` unpacks; to apply them, pass
    it to ``load_from_zip``. gzip is decompressed by isal, which takes a third of the time, if it is installed
    (``loader2[fast]``).

    Args:
        file_type: Compression of all files: ``"gzip"``, ``"bz2"``, ``"lzma"``, ``"zstd"``, ``"tar"`` (compressed or
            not) or ``"zip"``, ignoring case. ``None``: the ending of each path decides, ignoring case, with `.tgz` and
            similar ones; an unknown ending is an error.

    >>> import gzip, io
    >>> from datapipes.iter import IterableWrapper
    >>> pipe = IterableWrapper([("a.txt.gz", io.BytesIO(gzip.compress(b"some text")))], deepcopy=False).decompress()
    >>> [(path, stream.read()) for path, stream in pipe]
    [('a.txt.gz', b'some text')]
    """

    _fluent: ClassVar[str | None] = "decompress"
    _stream_key: ClassVar[tuple[type, ...] | None] = (str,)
    _out_of_streams: ClassVar[Literal["", "one of each", "several of each"]] = "one of each"
    types: ClassVar[type[CompressionType]] = CompressionType

    source_datapipe: IterDataPipe[tuple[str, Any]]
    file_type: str | CompressionType | None = None
    _: KW_ONLY
    max_ratio: float | None = MAX_RATIO
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        self.file_type = _compression_type(self.file_type)
        super().__post_init__()

    def _step(self) -> Step:
        unpacking = Unpacking(self.max_ratio, self.max_bytes, fast_library("isal.isal_zlib"))
        chosen = _compression_type(self.file_type)

        def decompressed(element: Any) -> tuple[str, StreamWrapper]:
            path, stream = opened(element, "decompress")
            kind = kind_of(path) if chosen is None else chosen.value
            if kind is None:
                raise RuntimeError(
                    f"decompress(): the ending of {path!r} indicates no known compression; set `file_type`"
                )
            origin = origin_from_start(stream)
            return path, _taken_out(self, stream, _content(unwrapped(stream), kind, path, unpacking), path, origin)

        return Step("map", decompressed)

    def _reopening(self, source: StreamWrapper | None) -> Callable[..., StreamWrapper]:
        return _again(self, source)


@composed
def Extractor(
    source_datapipe: IterDataPipe[tuple[str, Any]],
    file_type: str | CompressionType | None = None,
    *,
    max_ratio: float | None = MAX_RATIO,
    max_bytes: int | None = None,
    on_error: OnError = "raise",
    max_errors: int | float | None = None,
) -> Decompressor:
    """``decompress`` under an older name. gzip is decompressed by isal if it is installed (``loader2[fast]``).

    Args:
        file_type: Compression of all files, as in ``decompress``. ``None``: the ending of each path decides.

    >>> import gzip, io
    >>> from datapipes.iter import IterableWrapper
    >>> pipe = IterableWrapper([("a.gz", io.BytesIO(gzip.compress(b"some text")))], deepcopy=False).extract("gzip")
    >>> [stream.read() for path, stream in pipe]
    [b'some text']
    """
    return Decompressor(
        source_datapipe,
        file_type,
        max_ratio=max_ratio,
        max_bytes=max_bytes,
        on_error=on_error,
        max_errors=max_errors,
    )


def _compression_type(file_type: Any) -> CompressionType | None:
    if file_type is None or isinstance(file_type, CompressionType):
        return file_type
    try:
        return CompressionType(file_type.lower() if isinstance(file_type, str) else file_type)
    except ValueError:
        known = ", ".join(kind.value for kind in CompressionType)
        raise BadArgument(f"{file_type!r} is not a valid CompressionType: choose one of {known}") from None


def _content(file: Any, kind: str, path: str, unpacking: Unpacking) -> Any:
    if kind == "tar":
        return LazyTar(plain_tar(file, path, unpacking, None), path)
    if kind == "zip":
        return open_zip(seekable(file, path)[0], path)
    return inflated(file, kind, path, unpacking)


def _taken_out(
    pipe: IterDataPipe[Any], stream: StreamWrapper, content: Any, path: str, origin: Origin | None
) -> StreamWrapper:
    """Return a stream that was unpacked from another one, and let the other one close with it."""
    taken = StreamWrapper(content, stream, path)
    if origin is not None:
        taken.origin = origin_of(pipe, path, source=origin)
    stream.autoclose()
    return taken


def _again(pipe: IterDataPipe[Any], source: StreamWrapper | None) -> Callable[[str], StreamWrapper]:
    """Return a function that reopens a stream by its path alone, with the step of the stage."""
    step: Any = pipe._step()
    return lambda path: cast("StreamWrapper", step.fn((path, source))[1])


@operator
class Bz2FileLoader(Tolerant, IterDataPipe[tuple[str, StreamWrapper]]):
    """``(path, content)`` of each bz2 file; the path is without its ``.bz2``.
    >>> import bz2, io
    >>> from datapipes.iter import IterableWrapper
    >>> pipe = IterableWrapper([("abz.bz2", io.BytesIO(bz2.compress(b"some text")))], deepcopy=False).load_from_bz2()
    >>> [(path, stream.read()) for path, stream in pipe]
    [('abz', b'some text')]
    """

    _fluent: ClassVar[str | None] = "load_from_bz2"
    _stream_key: ClassVar[tuple[type, ...] | None] = (str,)
    _out_of_streams: ClassVar[Literal["", "one of each", "several of each"]] = "one of each"
    _codec: ClassVar[str] = "bz2"
    _ending: ClassVar[str] = ".bz2"

    datapipe: IterDataPipe[tuple[str, Any]]
    length: int | None = None
    _: KW_ONLY
    max_ratio: float | None = MAX_RATIO
    max_bytes: int | None = None

    def _step(self) -> Step:
        unpacking = Unpacking(self.max_ratio, self.max_bytes)

        def loaded(element: Any) -> tuple[str, StreamWrapper]:
            path, stream = opened(element, str(self._fluent))
            name = path[: -len(self._ending)] if path.lower().endswith(self._ending) else path
            origin = origin_from_start(stream)
            content = inflated(unwrapped(stream), self._codec, path, unpacking)
            return name, _taken_out(self, stream, content, name, origin)

        return Step("map", loaded)

    def _reopening(self, source: StreamWrapper | None) -> Callable[..., StreamWrapper]:
        return _again(self, source)

    __len__ = given_length


@operator
class XzFileLoader(Bz2FileLoader):
    """``(path, content)`` of each xz file; the path is without its ``.xz``.
    >>> import io, lzma
    >>> from datapipes.iter import IterableWrapper
    >>> pipe = IterableWrapper([("fizz.xz", io.BytesIO(lzma.compress(b"some text")))], deepcopy=False).load_from_xz()
    >>> [(path, stream.read()) for path, stream in pipe]
    [('fizz', b'some text')]
    """

    _fluent: ClassVar[str | None] = "load_from_xz"
    _codec: ClassVar[str] = "lzma"
    _ending: ClassVar[str] = ".xz"
