"""A readable file of a remote file system, with timeouts and retries.

It gives all bytes of the file, or raises. A broken read is retried at the same byte, if the file can be sought. fsspec
requests blocks of s3 objects on the condition that the version is the same. Over http, this module does so if the
server names a version.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import CutShort, TransferError
from datapipes.io.remote.body import BUFFER, Resumable
from datapipes.io.remote.filesystems import filesystem_of, is_near
from datapipes.io.remote.object_stores import ObjectFile, ObjectStores, etag_of
from datapipes.io.remote.transfer import Clock, Transfer, for_good, may_pass, status_of
from datapipes.messages.short import hide

OF_TEXT = ("encoding", "errors", "newline")


class RemoteFile(Resumable):
    """Readable binary file that ``make`` opens. ``quick`` is the file as obstore has opened it, if it has."""

    def __init__(self, make: Callable[[], Any], clock: Clock, quick: ObjectFile | None = None) -> None:
        super().__init__(clock)
        self._make = make
        self._file: Any = quick
        if quick is None:
            self._file = clock.tried(make)

    @property
    def size(self) -> int:
        """Size in bytes; -1 if the server does not tell it."""
        size = getattr(self._file, "size", None)
        return size if type(size) is int else -1

    def seekable(self) -> bool:
        # fsspec's stream of an HTTP answer claims that it can be sought, but it cannot.
        return bool(self._file.seekable()) and type(self._file).__name__ != "HTTPStreamFile"

    @property
    def etag(self) -> str | None:
        """The strong ETag of a file over http, or of an object of s3 or Azure, if it has one."""
        etag = etag_of(self._file)
        if "http" in getattr(getattr(self._file, "fs", None), "protocol", ()):  # as ``_open`` has set it
            etag = (self._file.kwargs.get("headers") or {}).get("If-Match")
        return etag if etag is not None and etag.startswith('"') else None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if not self.seekable():
            raise io.UnsupportedOperation(
                f"{self._clock.label} cannot be sought: its server does not support Range requests"
            )
        if self._ahead and whence == io.SEEK_CUR:
            offset, whence = self.tell() + offset, io.SEEK_SET
        self._ahead = b""
        self._at = self._file.seek(offset, whence)
        return self._at

    def _received(self, most: int) -> bytes:
        data: bytes = self._file.read(most)
        if not data and self._at < self.size:
            raise CutShort(f"{self._clock.label}: ended after {self._at} of {self.size} bytes")
        return data

    def _with_position(self, error: Exception) -> Exception:
        if isinstance(error, IndexError) and isinstance(error.__context__, OSError):
            error = error.__context__  # s3fs raises an IndexError for errors without arguments
        if status_of(error) == 412:
            return self._changed()
        if may_pass(error) and status_of(error) is None and not isinstance(error, TransferError):
            error = self._broken_off(error)
        return error if not self._at or self.seekable() else for_good(error)

    def _resume(self) -> None:
        if isinstance(self._file, ObjectFile):
            quick, self._file = self._file, self._make()
            if (self.size, etag_of(self._file)) != (quick.size, quick.etag):
                raise self._changed()
        if self.seekable():
            self._file.seek(self._at)
        else:
            self._let_go()
            self._file = self._make()

    def _changed(self) -> TransferError:
        return TransferError(f"{self._clock.label}: it has changed since it was opened; open it again")

    def _let_go(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()


def opened_url(
    url: str,
    mode: str,
    transfer: Transfer,
    options: dict[str, Any],
    for_open: dict[str, Any],
    stores: ObjectStores | None = None,
) -> tuple[str, StreamWrapper]:
    """Open a URL. Return its name without secrets, and its file.

    Args:
        options: Options of the file system.
        for_open: Options for opening the file.
        stores: Buckets that obstore may read. ``None``: none.
    """
    label = hide(url)
    clock = Clock(transfer, label)
    quick = None if stores is None or set(for_open) - set(OF_TEXT) else stores.opened(url, clock)
    if quick is None:
        filesystem, path = clock.tried(lambda: filesystem_of(url, options, transfer))
        return label, StreamWrapper(opened_file(filesystem, path, mode, for_open, clock), name=label)

    def usual() -> Any:
        filesystem, path = filesystem_of(url, options, transfer)
        return _open(filesystem, path, {})

    file = io.BufferedReader(RemoteFile(usual, clock, quick), BUFFER)
    return label, StreamWrapper(_in_mode(file, mode, for_open), name=label)


def opened_file(filesystem: Any, path: str, mode: str, options: dict[str, Any], clock: Clock) -> Any:
    """Open a file of a file system: directly if it is on this machine, otherwise under the policy."""
    of_text = {name: options[name] for name in OF_TEXT if name in options}
    others = {name: value for name, value in options.items() if name not in of_text}
    file: Any
    if "memory" in filesystem.protocol and not others:
        file = io.BytesIO(filesystem.cat_file(path))  # fsspec gives all readers of a file the same object
    elif is_near(filesystem):
        return filesystem.open(path, mode, **options)
    else:
        file = io.BufferedReader(RemoteFile(lambda: _open(filesystem, path, others), clock), BUFFER)
    return _in_mode(file, mode, of_text)


def _in_mode(file: Any, mode: str, of_text: dict[str, Any]) -> Any:
    return file if "b" in mode else io.TextIOWrapper(file, **{"encoding": "utf-8", **of_text})


def _open(filesystem: Any, path: str, options: dict[str, Any]) -> Any:
    protocols = filesystem.protocol
    if "http" not in protocols or "compression" in options:
        return filesystem.open(path, "rb", **options)
    try:
        found = filesystem.info(path)
    except FileNotFoundError as error:
        if error.__cause__ is None or status_of(error) in (404, 410):
            raise
        raise error.__cause__ from None  # fsspec reports any failure over http as a missing file
    given = {"size": found.get("size"), **options}
    if str(found.get("ETag", "")).startswith('"'):
        given["headers"] = {
            **(options.get("headers") or filesystem.kwargs.get("headers") or {}),
            "If-Match": found["ETag"],
        }
    if not found.get("partial", True):
        given.setdefault("block_size", 0)
    return filesystem.open(path, "rb", **given)
