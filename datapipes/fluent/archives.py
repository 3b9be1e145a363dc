"""Methods that read archives and compressed files, and put together what belongs together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from datapipes.io.archives.codecs import extension
from datapipes.io.archives.limits import MAX_RATIO

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe
    from datapipes.elements.streams import StreamWrapper
    from datapipes.iter.archives.decompress import CompressionType
    from datapipes.iter.formats.routed_decode import Handler
    from datapipes.position.on_error import OnError

T_co = TypeVar("T_co", covariant=True)


class ArchiveMethods(Generic[T_co]):
    """load_from_tar, load_from_zip, decompress, read_from_stream, webdataset and their kin."""

    def load_from_tar(
        self,
        mode: str = "r:*",
        length: int = -1,
        *,
        max_ratio: float | None = MAX_RATIO,
        max_bytes: int | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(path, stream)`` for each regular file in each tar archive, compressed or not.

        >>> import io, tarfile
        >>> from datapipes.iter import IterableWrapper
        >>> file = io.BytesIO()
        >>> with tarfile.open(fileobj=file, mode="w") as archive:
        ...     archive.addfile(tarfile.TarInfo("one.txt"))
        >>> archives = IterableWrapper([("a.tar", io.BytesIO(file.getvalue()))], deepcopy=False)
        >>> [path for path, stream in archives.load_from_tar()]
        ['a.tar/one.txt']
        """
        from datapipes.iter.archives.tar import TarArchiveLoader

        return TarArchiveLoader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            mode,
            length,
            max_ratio=max_ratio,
            max_bytes=max_bytes,
            on_error=on_error,
            max_errors=max_errors,
        )

    def load_from_zip(
        self,
        length: int = -1,
        *,
        max_ratio: float | None = MAX_RATIO,
        max_bytes: int | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(path, stream)`` for each file in each zip archive.

        >>> import io, zipfile
        >>> from datapipes.iter import IterableWrapper
        >>> file = io.BytesIO()
        >>> with zipfile.ZipFile(file, "w") as archive:
        ...     archive.writestr("one.txt", "1")
        >>> archives = IterableWrapper([("a.zip", io.BytesIO(file.getvalue()))], deepcopy=False)
        >>> [path for path, stream in archives.load_from_zip()]
        ['a.zip/one.txt']
        """
        from datapipes.iter.archives.zip import ZipArchiveLoader

        return ZipArchiveLoader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            length,
            max_ratio=max_ratio,
            max_bytes=max_bytes,
            on_error=on_error,
            max_errors=max_errors,
        )

    def load_from_rar(
        self,
        *,
        length: int = -1,
        max_ratio: float | None = MAX_RATIO,
        max_bytes: int | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(path, stream)`` for each file in each RAR archive.

        >>> from datapipes.iter import IterableWrapper
        >>> IterableWrapper(["a.rar"]).open_files("rb").load_from_rar(max_bytes=1000)
        IterableWrapper(['a.rar']).open_files(mode='rb').load_from_rar(max_bytes=1000)
        """
        from datapipes.iter.archives.rar import RarArchiveLoader

        return RarArchiveLoader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            length=length,
            max_ratio=max_ratio,
            max_bytes=max_bytes,
            on_error=on_error,
            max_errors=max_errors,
        )

    def load_from_bz2(
        self,
        length: int = -1,
        *,
        max_ratio: float | None = MAX_RATIO,
        max_bytes: int | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(path, content)`` of each bz2 file, the path without its ``.bz2``.

        >>> import bz2, io
        >>> from datapipes.iter import IterableWrapper
        >>> files = IterableWrapper([("a.txt.bz2", io.BytesIO(bz2.compress(b"text")))], deepcopy=False)
        >>> [(path, stream.read()) for path, stream in files.load_from_bz2()]
        [('a.txt', b'text')]
        """
        from datapipes.iter.archives.decompress import Bz2FileLoader

        return Bz2FileLoader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            length,
            max_ratio=max_ratio,
            max_bytes=max_bytes,
            on_error=on_error,
            max_errors=max_errors,
        )

    def load_from_xz(
        self,
        length: int = -1,
        *,
        max_ratio: float | None = MAX_RATIO,
        max_bytes: int | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(path, content)`` of each xz file, the path without its ``.xz``.

        >>> import io, lzma
        >>> from datapipes.iter import IterableWrapper
        >>> files = IterableWrapper([("a.txt.xz", io.BytesIO(lzma.compress(b"text")))], deepcopy=False)
        >>> [(path, stream.read()) for path, stream in files.load_from_xz()]
        [('a.txt', b'text')]
        """
        from datapipes.iter.archives.decompress import XzFileLoader

        return XzFileLoader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            length,
            max_ratio=max_ratio,
            max_bytes=max_bytes,
            on_error=on_error,
            max_errors=max_errors,
        )

    def decompress(
        self,
        file_type: str | CompressionType | None = None,
        *,
        max_ratio: float | None = MAX_RATIO,
        max_bytes: int | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(path, content)`` for each ``(path, stream)``, decompressed as ``file_type`` or the path's ending tells.

        >>> import gzip, io
        >>> from datapipes.iter import IterableWrapper
        >>> files = IterableWrapper([("a.gz", io.BytesIO(gzip.compress(b"text")))], deepcopy=False)
        >>> [(path, stream.read()) for path, stream in files.decompress()]
        [('a.gz', b'text')]
        """
        from datapipes.iter.archives.decompress import Decompressor

        return Decompressor(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            file_type,
            max_ratio=max_ratio,
            max_bytes=max_bytes,
            on_error=on_error,
            max_errors=max_errors,
        )

    def extract(
        self,
        file_type: str | CompressionType | None = None,
        *,
        max_ratio: float | None = MAX_RATIO,
        max_bytes: int | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """The same as ``decompress``, under an older name.

        >>> import gzip, io
        >>> from datapipes.iter import IterableWrapper
        >>> files = IterableWrapper([("a.gz", io.BytesIO(gzip.compress(b"text")))], deepcopy=False)
        >>> [(path, stream.read()) for path, stream in files.extract()]
        [('a.gz', b'text')]
        """
        from datapipes.iter.archives.decompress import Extractor

        return Extractor(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            file_type,
            max_ratio=max_ratio,
            max_bytes=max_bytes,
            on_error=on_error,
            max_errors=max_errors,
        )

    def read_from_stream(
        self,
        chunk: int | None = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[Any, Any]]:
        """``(label, piece)`` for each piece of each ``(label, stream)``: all of it, or ``chunk`` bytes.

        >>> import io
        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a", io.BytesIO(b"123"))], deepcopy=False).read_from_stream(2))
        [('a', b'12'), ('a', b'3')]
        """
        from datapipes.iter.files.reading import StreamReader

        return StreamReader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            chunk,
            on_error=on_error,
            max_errors=max_errors,
        )

    def routed_decode(
        self,
        *handlers: Handler,
        key_fn: Callable[[str], str] = extension,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, Any]]:
        """``(path, decoded)`` for each ``(path, data)``, by the first handler that knows the path's ending.

        >>> import warnings
        >>> from datapipes.iter import IterableWrapper
        >>> with warnings.catch_warnings(action="ignore"):
        ...     list(IterableWrapper([("a.cls", b"7")]).routed_decode())
        [('a.cls', 7)]
        """
        from datapipes.iter.formats.routed_decode import RoutedDecoder

        return RoutedDecoder(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            *handlers,
            key_fn=key_fn,
            on_error=on_error,
            max_errors=max_errors,
        )

    def webdataset(self) -> IterDataPipe[dict[str, Any]]:
        """A dict for each run of ``(path, data)`` whose paths begin alike.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("1.jpg", b"..."), ("1.cls", b"7")]).webdataset())
        [{'__key__': '1', '.jpg': b'...', '.cls': b'7'}]
        """
        from datapipes.iter.formats.webdataset import WebDataset

        return WebDataset(self)  # type: ignore[arg-type]  # self is an IterDataPipe
