"""Methods that list, read and write files elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe
    from datapipes.elements.streams import StreamWrapper
    from datapipes.io.remote.transfer import Transfer
    from datapipes.position.on_error import OnError

T_co = TypeVar("T_co", covariant=True)


class RemoteMethods(Generic[T_co]):
    """list_files_by_..., open_files_by_... and save_by_...: fsspec and iopath, for any place."""

    def list_files_by_fsspec(
        self,
        masks: str | Sequence[str] = "",
        *,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> IterDataPipe[str]:
        """What is in each folder, as URLs that can be opened.

        >>> import fsspec
        >>> from datapipes.iter import IterableWrapper
        >>> fsspec.filesystem("memory").pipe("/listed/a.txt", b"text")
        >>> list(IterableWrapper(["memory://listed"]).list_files_by_fsspec("*.txt"))
        ['memory:///listed/a.txt']
        """
        from datapipes.iter.remote.fsspec_files import FSSpecFileLister

        return FSSpecFileLister(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            masks,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
            **kwargs,
        )

    def open_files_by_fsspec(
        self,
        mode: str = "r",
        *,
        kwargs_for_open: dict[str, Any] | None = None,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(url, stream)`` for each URL, wherever fsspec finds it.

        >>> import fsspec
        >>> from datapipes.iter import IterableWrapper
        >>> fsspec.filesystem("memory").pipe("/opened/a.txt", b"text")
        >>> [stream.read() for _, stream in IterableWrapper(["memory://opened/a.txt"]).open_files_by_fsspec("rb")]
        [b'text']
        """
        from datapipes.iter.remote.fsspec_files import FSSpecFileOpener

        return FSSpecFileOpener(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            mode,
            kwargs_for_open=kwargs_for_open,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
            **kwargs,
        )

    def save_by_fsspec(
        self,
        mode: str = "w",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        kwargs_for_open: dict[str, Any] | None = None,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> IterDataPipe[str]:
        """Write each ``(meta, data)`` to the URL ``filepath_fn(meta)``, and hand on that URL.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("memory://saved/a.txt", "text")]).save_by_fsspec())
        ['memory://saved/a.txt']
        """
        from datapipes.iter.remote.fsspec_files import FSSpecSaver

        return FSSpecSaver(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            mode,
            filepath_fn,
            kwargs_for_open=kwargs_for_open,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
            **kwargs,
        )

    def list_files_by_iopath(
        self,
        masks: str | Sequence[str] = "",
        *,
        pathmgr: Any = None,
        handler: Any = None,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[str]:
        """What is in each folder, as a path manager of iopath sees it.

        >>> import os
        >>> from datapipes.iter import IterableWrapper
        >>> folder = os.path.dirname(__file__)
        >>> [os.path.basename(path) for path in IterableWrapper([folder]).list_files_by_iopath("rem*.py")]
        ['remote.py']
        """
        from datapipes.iter.remote.iopath_files import IoPathFileLister

        return IoPathFileLister(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            masks,
            pathmgr=pathmgr,
            handler=handler,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
        )

    def open_files_by_iopath(
        self,
        mode: str = "r",
        pathmgr: Any = None,
        handler: Any = None,
        *,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(path, stream)`` for each path, opened by a path manager of iopath.

        >>> from datapipes.iter import IterableWrapper
        >>> [stream.readline() for _, stream in IterableWrapper([__file__]).open_files_by_iopath("rb")]
        [b'\"\"\"Methods that list, read and write files elsewhere.\"\"\"\\n']
        """
        from datapipes.iter.remote.iopath_files import IoPathFileOpener

        return IoPathFileOpener(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            mode,
            pathmgr,
            handler,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
        )

    def save_by_iopath(
        self,
        mode: str = "w",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        pathmgr: Any = None,
        handler: Any = None,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[str]:
        """Write each ``(meta, data)`` to the path ``filepath_fn(meta)``, unless that exists.

        >>> import os, tempfile
        >>> from datapipes.iter import IterableWrapper
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path] = IterableWrapper([(f"{folder}/a.txt", b"text")]).save_by_iopath("wb")
        ...     os.path.getsize(path)
        4
        """
        from datapipes.iter.remote.iopath_files import IoPathSaver

        return IoPathSaver(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            mode,
            filepath_fn,
            pathmgr=pathmgr,
            handler=handler,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
        )
