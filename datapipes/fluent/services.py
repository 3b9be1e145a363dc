"""Methods that read from one kind of place: the web, s3, AIStore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe
    from datapipes.elements.streams import StreamWrapper
    from datapipes.io.remote.transfer import Transfer
    from datapipes.position.on_error import OnError

T_co = TypeVar("T_co", covariant=True)


class ServiceMethods(Generic[T_co]):
    """read_from_..., and list_files_by_... and load_files_by_... for s3 and AIStore."""

    def list_files_by_s3(
        self,
        length: int = -1,
        request_timeout_ms: int = -1,
        region: str = "",
        masks: str | Sequence[str] = "",
        *,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[str]:
        """The URLs of all objects that begin with each URL.

        >>> from datapipes.iter import IterableWrapper
        >>> IterableWrapper(["s3://bucket/train/"]).list_files_by_s3(region="eu-west-1")
        IterableWrapper(['s3://bucket/train/']).list_files_by_s3(region='eu-west-1')
        """
        from datapipes.iter.remote.s3 import S3FileLister

        return S3FileLister(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            length,
            request_timeout_ms,
            region,
            masks,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
        )

    def load_files_by_s3(
        self,
        request_timeout_ms: int = -1,
        region: str = "",
        buffer_size: int | None = None,
        multi_part_download: bool | None = None,
        *,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(url, stream)`` for each URL of an object in s3.

        >>> from datapipes.iter import IterableWrapper
        >>> IterableWrapper(["s3://bucket/a.tar"]).load_files_by_s3(region="eu-west-1")
        IterableWrapper(['s3://bucket/a.tar']).load_files_by_s3(region='eu-west-1')
        """
        from datapipes.iter.remote.s3 import S3FileLoader

        return S3FileLoader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            request_timeout_ms,
            region,
            buffer_size,
            multi_part_download,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
        )

    def list_files_by_ais(
        self,
        url: str,
        length: int = -1,
        *,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[str]:
        """The URLs of all objects of a cluster that begin with each URL.

        >>> from datapipes.iter import IterableWrapper
        >>> IterableWrapper(["ais://bucket/train/"]).list_files_by_ais("http://localhost:8080")
        IterableWrapper(['ais://bucket/train/']).list_files_by_ais('http://localhost:8080')
        """
        from datapipes.iter.remote.ais import AISFileLister

        return AISFileLister(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            url,
            length,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
        )

    def load_files_by_ais(
        self,
        url: str,
        length: int = -1,
        *,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(url, stream)`` for each URL of an object of a cluster.

        >>> from datapipes.iter import IterableWrapper
        >>> IterableWrapper(["ais://bucket/a.tar"]).load_files_by_ais("http://localhost:8080")
        IterableWrapper(['ais://bucket/a.tar']).load_files_by_ais('http://localhost:8080')
        """
        from datapipes.iter.remote.ais import AISFileLoader

        return AISFileLoader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            url,
            length,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
        )

    def read_from_http(
        self,
        timeout: float | tuple[float, float] | None = None,
        skip_on_error: bool = False,
        *,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(url, stream)`` for each URL; the whole file or an error.

        >>> from datapipes.iter import IterableWrapper
        >>> IterableWrapper(["https://example.org/a.csv"]).read_from_http(timeout=5)
        IterableWrapper(['https://example.org/a.csv']).read_from_http(timeout=5)
        """
        from datapipes.iter.remote.http import HttpReader

        return HttpReader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            timeout,
            skip_on_error,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
            **kwargs,
        )

    def read_from_gdrive(
        self,
        *,
        timeout: float | tuple[float, float] | None = None,
        skip_on_error: bool = False,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(file name, stream)`` for each URL of a file on Google Drive.

        >>> from datapipes.iter import IterableWrapper
        >>> IterableWrapper(["https://drive.google.com/uc?id=1"]).read_from_gdrive(timeout=5)
        IterableWrapper(['https://drive.google.com/uc?id=1']).read_from_gdrive(timeout=5)
        """
        from datapipes.iter.remote.gdrive import GDriveReader

        return GDriveReader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            timeout=timeout,
            skip_on_error=skip_on_error,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
            **kwargs,
        )

    def read_from_remote(
        self,
        *,
        timeout: float | tuple[float, float] | None = None,
        skip_on_error: bool = False,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(url or file name, stream)`` for each URL, of Google Drive or any other place.

        >>> from datapipes.iter import IterableWrapper
        >>> IterableWrapper(["https://example.org/a.csv"]).read_from_remote(skip_on_error=True)
        IterableWrapper(['https://example.org/a.csv']).read_from_remote(skip_on_error=True)
        """
        from datapipes.iter.remote.online import OnlineReader

        return OnlineReader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            timeout=timeout,
            skip_on_error=skip_on_error,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
            **kwargs,
        )
