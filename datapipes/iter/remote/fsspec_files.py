"""list_files_by_fsspec, open_files_by_fsspec, save_by_fsspec: files on any file system of fsspec.

These are files on this machine and in memory, over http(s), in s3 and gcs, inside of a zip, and more: the part of a URL
before ``://`` selects the file system. Keyword arguments go to the file system: credentials, endpoints and so on. One
that looks like a misspelt parameter of the stage is refused. If it is a file system's option, give it under the
protocol, as ``zip={"model": ...}``.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar
from uuid import uuid4

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.structure import is_stream
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgumentType, StateError
from datapipes.io.remote.body import remote_file
from datapipes.io.remote.filesystems import filesystem_of, is_near
from datapipes.io.remote.object_stores import ObjectStores, way
from datapipes.io.remote.remote_file import OF_TEXT, RemoteFile, opened_url
from datapipes.io.remote.transfer import DEFAULT, Clock, Transfer
from datapipes.iter.files.atomic import replacing
from datapipes.iter.files.contents import whole
from datapipes.iter.files.listing import matches, stream_of_roots, warn_of_no_match
from datapipes.iter.files.saving import saving
from datapipes.iter.remote.ahead import MOST_BYTES_AHEAD, ReadsAhead
from datapipes.iter.sources.wrapper import IterableWrapper
from datapipes.messages.short import hide
from datapipes.operator_support.checks import check_options, needs, needs_callable, same_length
from datapipes.operator_support.flattening import Flattening
from datapipes.position.on_error import OnError, check_policy
from datapipes.position.reopening import UrlOrigins
from datapipes.position.steps import Step

_READING = {"b": "rb", "t": "rt", "r": "r", "rb": "rb", "rt": "rt"}
_WRITING = {"w", "wb", "wt", "a", "ab", "at"}


@operator
class FSSpecFileLister(Flattening[str]):
    """The URLs of files and folders in one or more folders.

    A root that is a file is given itself. The entries of this machine's folders are sorted, those of others are in the
    order of their file system.

    Args:
        masks: A pattern for URLs, such as ``"*.csv"``, or several, one of which must match. They are compared with the
            whole URL: a pattern without a leading ``*`` matches nothing. ``None``: all.
        **kwargs: Options of the file system: credentials, endpoints and so on. A name that looks like a misspelt
            parameter above is refused; give it under the file system's protocol, as ``zip={"model": ...}``.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe("/shown/a.txt", b"text")
    >>> list(FSSpecFileLister("memory://shown"))
    ['memory:///shown/a.txt']
    """

    _fluent: ClassVar[str | None] = "list_files_by_fsspec"
    _lists: ClassVar[bool] = True

    datapipe: IterDataPipe[str]

    def __init__(
        self,
        root: str | Iterable[str],
        masks: str | Sequence[str] | None = None,
        *,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> None:
        self.datapipe = stream_of_roots(root, self, (str,), "URL")
        self.masks = masks
        self.transfer = transfer
        self.on_error = on_error
        self.max_errors = max_errors
        self.kwargs = kwargs
        check_policy(self)
        check_options(self, kwargs)

    def _inner(self, root: str) -> list[str]:
        transfer = self.transfer or DEFAULT
        label = hide(url_of(root, "list_files_by_fsspec"))
        found = Clock(transfer, label).tried(lambda: listed(root, self.masks, self.kwargs, transfer))
        if not found:
            warn_of_no_match(self, label)
        return found


def listed(root: str, masks: str | Sequence[str] | None, options: dict[str, Any], transfer: Transfer) -> list[str]:
    """List a folder as URLs."""
    filesystem, path = filesystem_of(root, options, transfer)
    filesystem.invalidate_cache(path)  # the folder may have changed since the last epoch
    if filesystem.isfile(path):
        return [root]
    names = filesystem.ls(path, detail=False) or []
    protocol, separator, rest = root.partition("://")
    chained = "::" + rest.partition("::")[2] if "::" in rest else ""
    found = [f"{protocol}://{name}{chained}" if separator and "://" not in name else name for name in names]
    kept = [name for name in found if matches(name, masks)]
    return sorted(kept) if is_near(filesystem) else kept


@operator
class FSSpecFileOpener(ReadsAhead[tuple[str, StreamWrapper]]):
    """``(url, stream)`` for each URL; the URL that is given shows no secrets.

    A stream gives the whole file or raises: ``transfer`` controls the retries. With the extra ``fast``, objects of s3
    and Azure are read with obstore, unless an option is given that obstore does not take; printing the stage says so.

    Args:
        mode: ``"r"``, ``"t"`` or ``"rt"`` for text, ``"rb"`` or ``"b"`` for bytes.
        kwargs_for_open: Options for opening each file, as a dict: ``encoding``, ``errors`` and ``newline`` of text, and
            those of the file system, such as ``block_size`` and ``compression``.
        ahead: Number of files to open before their turn, each in a thread, so that their servers' latency is hidden.
        ahead_bytes: Number of bytes to read of these files before their turn, in all.
        **kwargs: Options of the file system: credentials, endpoints and so on. A name that looks like a misspelt
            parameter above is refused; give it under the file system's protocol, as ``zip={"model": ...}``.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe("/shown/a.txt", b"text")
    >>> [(url, stream.read()) for url, stream in FSSpecFileOpener(["memory://shown/a.txt"])]
    [('memory://shown/a.txt', 'text')]
    """

    _fluent: ClassVar[str | None] = "open_files_by_fsspec"
    _stream_key: ClassVar[tuple[type, ...] | None] = (str, int)
    _other_stream_keys: ClassVar[tuple[tuple[type, ...], ...]] = ((str, int, str), (int, int), (int, int, str))

    source_datapipe: IterDataPipe[str] | Sequence[str]

    def __init__(
        self,
        source_datapipe: IterDataPipe[str] | Sequence[str],
        mode: str = "r",
        *,
        kwargs_for_open: dict[str, Any] | None = None,
        ahead: int = 0,
        ahead_bytes: int = MOST_BYTES_AHEAD,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> None:
        self.source_datapipe = source_datapipe if is_stream(source_datapipe) else IterableWrapper(source_datapipe)
        self.mode = mode
        self.kwargs_for_open = kwargs_for_open
        self.ahead = ahead
        self.ahead_bytes = ahead_bytes
        self.transfer = transfer
        self.on_error = on_error
        self.max_errors = max_errors
        self.kwargs = kwargs
        check_policy(self)
        check_options(self, kwargs)
        self.check_ahead()
        needs(mode in _READING, self, f"Invalid mode {mode!r}: choose one of {', '.join(_READING)}")

    def _opener(self) -> Callable[[str], tuple[str, StreamWrapper]]:
        mode, transfer = _READING[self.mode], self.transfer or DEFAULT
        options, for_open = self.kwargs, dict(self.kwargs_for_open or {})
        stores, origins = ObjectStores(options, transfer), UrlOrigins(self)

        def opened(url: str) -> tuple[str, StreamWrapper]:
            shown, stream = opened_url(url_of(url, "open_files_by_fsspec"), mode, transfer, options, for_open, stores)
            file = remote_file(stream)
            etag = file.etag if isinstance(file, RemoteFile) else None
            version = (_size(stream),) if etag is None else (_size(stream), etag)
            stream.origin = partial(origins.origin, url, *version)
            return shown, stream

        return opened

    def __str__(self) -> str:
        for_open = set(self.kwargs_for_open or {}) - set(OF_TEXT)
        return f"{self!r}  # {way(self.kwargs, dict.fromkeys(for_open))}" if self.kwargs or for_open else repr(self)

    def _reopening(self, source: StreamWrapper | None) -> Callable[..., StreamWrapper]:
        opener = self._opener()

        def opened(url: str, size: int, etag: str | None = None) -> StreamWrapper:
            stream = opener(url)[1]
            file, text = remote_file(stream), f"{hide(url)}: it has changed since the state was saved"
            if (found := _size(stream)) != size:
                stream.close()
                raise StateError(f"{text}, from {size} to {found} bytes")
            if etag is not None and not (isinstance(file, RemoteFile) and file.etag == etag):
                stream.close()
                raise StateError(text)
            return stream

        return opened

    __len__ = same_length


@operator
class FSSpecSaver(IterDataPipe[str]):
    """The URL that the data of each ``(meta, data)`` is written to.

    Data is anything that ``save_to_disk`` takes; all of it is read into memory. A file appears as a whole or not at
    all, also if it replaces an older one.

    Args:
        mode: ``"w"`` replaces a file, ``"a"`` appends to it; appending is done as a whole only on this machine. With a
            ``b`` the data must be bytes, otherwise text.
        filepath_fn: A function of ``meta`` that returns the URL. ``None``: ``meta`` is the URL.
        kwargs_for_open: Options for writing each file, as a dict: ``encoding``, ``errors`` and ``newline`` of text,
            ``compression`` (``"infer"``: by the URL's ending), and those of the file system.
        **kwargs: Options of the file system: credentials, endpoints and so on. A name that looks like a misspelt
            parameter above is refused; give it under the file system's protocol, as ``zip={"model": ...}``.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a.txt", b"text")]).save_by_fsspec("wb", lambda name: f"memory://shown/{name}"))
    ['memory://shown/a.txt']
    """

    _fluent: ClassVar[str | None] = "save_by_fsspec"

    source_datapipe: IterDataPipe[tuple[Any, str | bytes]]

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[Any, Any]],
        mode: str = "w",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        kwargs_for_open: dict[str, Any] | None = None,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> None:
        self.source_datapipe = source_datapipe
        self.mode = mode
        self.filepath_fn = filepath_fn
        self.kwargs_for_open = kwargs_for_open
        self.transfer = transfer
        self.on_error = on_error
        self.max_errors = max_errors
        self.kwargs = kwargs
        needs_callable("save_by_fsspec", filepath_fn, or_none=True)
        check_policy(self)
        check_options(self, kwargs)
        needs(mode in _WRITING, self, f"Invalid mode {mode!r}: choose one of {', '.join(sorted(_WRITING))}")

    def _step(self) -> Step:
        mode, transfer = self.mode, self.transfer or DEFAULT
        options, for_open = self.kwargs, dict(self.kwargs_for_open or {})

        def write(url: Any, data: Any) -> None:
            content, left = encoded(url_of(url, "save_by_fsspec"), whole(url, mode, data), for_open)
            clock = Clock(transfer, hide(url))
            clock.tried(lambda: save(mode, content, left, *filesystem_of(url, options, transfer)))

        return saving(self, write)

    __len__ = same_length


def _size(stream: StreamWrapper) -> int:
    """Return the size of an open file in bytes; -1 if it is unknown."""
    file = getattr(stream.file_obj, "buffer", stream.file_obj)
    sizes = (getattr(one, "size", None) for one in (file, getattr(file, "raw", None)))
    return next((size for size in sizes if type(size) is int), -1)


def save(mode: str, content: bytes, left: dict[str, Any], filesystem: Any, path: str) -> None:
    """Write a file as a whole; ``left`` has options for opening it."""
    if "file" in filesystem.protocol:
        with replacing(path, "ab" if "a" in mode else "wb") as file:
            file.write(content)
        return
    if "a" in mode:
        with filesystem.open(path, "ab", **left) as file:
            file.write(content)
        return
    if filesystem.async_impl or "memory" in filesystem.protocol:
        filesystem.pipe_file(path, content, **left)  # one request, or several that take effect together
        return
    partial = f"{path}.{uuid4().hex}.part"
    try:
        with filesystem.open(partial, "wb", **left) as file:
            file.write(content)
        filesystem.mv(partial, path)
    except BaseException:
        if filesystem.exists(partial):
            filesystem.rm(partial)
        raise


def encoded(url: str, data: str | bytes, options: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of the file, and the options that were not used in making them."""
    from fsspec.compression import compr
    from fsspec.utils import infer_compression

    left = dict(options)
    encoding, errors = left.pop("encoding", "utf-8"), left.pop("errors", "strict")
    newline, compression = left.pop("newline", None), left.pop("compression", None)
    if isinstance(data, str):
        text = data if newline in (None, "", "\n") else data.replace("\n", newline)
        data = text.encode(encoding, errors)
    if compression == "infer":
        compression = infer_compression(url)
    if compression is None:
        return data, left
    packed = io.BytesIO()
    packed.close = lambda: None  # type: ignore[method-assign]  # compressors close their file
    with compr[compression](packed, mode="wb") as file:
        file.write(data)
    return packed.getvalue(), left


def url_of(value: Any, method: str) -> str:
    """Return a URL. Raise BadArgumentType if it is not a str."""
    if not isinstance(value, str):
        raise BadArgumentType(f"{method}() needs URLs as str, got {type(value).__name__}: {value!r:.80}")
    return value
