"""list_files_by_iopath, open_files_by_iopath, save_by_iopath: files on any file system of iopath.

A ``pathmgr`` serves all paths. Without one, the added handlers serve the paths with their prefixes. All others (this
machine, http(s), s3 ...) are read and written as by the pipes for fsspec. Handlers manage their own timeouts;
``transfer`` controls only the retries of their errors.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY
from typing import Any, ClassVar
from uuid import uuid4

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.structure import is_stream
from datapipes.elements.streams import StreamWrapper
from datapipes.io.remote.filesystems import filesystem_of
from datapipes.io.remote.remote_file import opened_url
from datapipes.io.remote.transfer import DEFAULT, Clock, Transfer
from datapipes.iter.files.contents import whole
from datapipes.iter.files.listing import matches, stream_of_roots, warn_of_no_match
from datapipes.iter.files.locks import locked
from datapipes.iter.files.saving import saving
from datapipes.iter.remote.fsspec_files import encoded, listed, save, url_of
from datapipes.iter.sources.wrapper import IterableWrapper
from datapipes.messages.extras import needed
from datapipes.messages.short import hide
from datapipes.operator_support.checks import needs, needs_callable, same_length
from datapipes.operator_support.flattening import Flattening
from datapipes.position.on_error import OnError, Tolerant, check_policy
from datapipes.position.steps import Step

_WRITING = ("w", "wt", "wb", "a", "at", "ab")


class WithHandlers:
    """Base of stages with a path manager: the user's, or the stage's own with the added handlers."""

    _fluent: ClassVar[str | None]
    pathmgr: Any
    handler: Any
    transfer: Transfer | None
    _added: tuple[tuple[Any, bool], ...] = ()

    def _prepare(self) -> None:
        if self.handler is not None:
            self.register_handler(self.handler, allow_override=True)

    def register_handler(self, handler: Any, allow_override: bool = False) -> None:
        """Let a handler of iopath serve the paths with its prefixes."""
        if self.pathmgr is not None:
            self.pathmgr.register_handler(handler, allow_override=allow_override)
            return
        added = (*self._added, (handler, allow_override))
        self._manager(added)  # raises for a prefix that is in use
        self._added = added

    def _manager(self, added: tuple[tuple[Any, bool], ...]) -> Any:
        manager = needed("iopath.common.file_io", "iopath", self._fluent or "").PathManager()
        for handler, allow_override in added:
            manager.register_handler(handler, allow_override=allow_override)
        return manager

    def _managers(self) -> Callable[[str], Any]:
        """Return a function that finds the path manager of a path: None for fsspec."""
        if self.pathmgr is not None:
            return lambda path: self.pathmgr
        if not self._added:
            return lambda path: None
        manager = self._manager(self._added)
        prefixes = tuple(prefix for handler, _ in self._added for prefix in handler._get_supported_prefixes())
        return lambda path: manager if path.startswith(prefixes) else None

    def _patience(self) -> Transfer:
        return self.transfer or DEFAULT


@operator
class IoPathFileLister(WithHandlers, Flattening[str]):
    """The paths in one or more folders, sorted; a root that is a file is given itself.

    Args:
        masks: A pattern for the names in a folder, such as ``"*.csv"``, or several, one of which must match. ``None``:
            all.
        pathmgr: The ``PathManager`` of iopath for all paths. ``None``: handlers serve the paths with their prefixes,
            and all others are listed as by fsspec.
        handler: A ``PathHandler`` of iopath that replaces another one of its prefixes; ``register_handler`` adds more.
            ``None``: none.

    >>> import os
    >>> [os.path.basename(path) for path in IoPathFileLister(os.path.dirname(__file__), "iopath*.py")]
    ['iopath_files.py']
    """

    _fluent: ClassVar[str | None] = "list_files_by_iopath"
    _lists: ClassVar[bool] = True

    datapipe: IterDataPipe[str]

    def __init__(
        self,
        root: str | Iterable[str],
        masks: str | Sequence[str] | None = None,
        *,
        pathmgr: Any = None,
        handler: Any = None,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> None:
        self.datapipe = stream_of_roots(root, self, (str,), "URL")
        self.masks = masks
        self.pathmgr = pathmgr
        self.handler = handler
        self.transfer = transfer
        self.on_error = on_error
        self.max_errors = max_errors
        check_policy(self)
        self._prepare()

    def _inner(self, root: str) -> list[str]:
        manager, transfer = self._managers()(root), self._patience()

        def found() -> list[str]:
            if manager is None:
                urls = listed(root, "", {}, transfer)
                return urls if urls == [root] else [url.rstrip("/").rpartition("/")[2] for url in urls]
            return [root] if manager.isfile(root) else list(manager.ls(root))

        names = Clock(transfer, hide(root)).tried(found)
        if names == [root]:
            return names
        kept = [os.path.join(root, name) for name in sorted(names) if matches(name, self.masks)]
        if not kept:
            warn_of_no_match(self, hide(root))
        return kept


@operator
class IoPathFileOpener(Tolerant, WithHandlers, IterDataPipe[tuple[str, StreamWrapper]]):
    """``(path, stream)`` for each path; the path that is given shows no secrets.

    Args:
        mode: ``"r"`` or ``"rt"`` for text, ``"rb"`` for bytes.
        pathmgr: The ``PathManager`` of iopath for all paths. ``None``: handlers serve the paths with their prefixes,
            and all others are opened as by fsspec.
        handler: A ``PathHandler`` of iopath that replaces another one of its prefixes; ``register_handler`` adds more.
            ``None``: none.

    >>> [path[-15:] for path, stream in IoPathFileOpener([__file__])]
    ['iopath_files.py']
    """

    _fluent: ClassVar[str | None] = "open_files_by_iopath"

    source_datapipe: IterDataPipe[str] | Sequence[str]
    mode: str = "r"
    pathmgr: Any = None
    handler: Any = None
    _: KW_ONLY
    transfer: Transfer | None = None

    def __post_init__(self) -> None:
        self.source_datapipe = (
            self.source_datapipe if is_stream(self.source_datapipe) else IterableWrapper(self.source_datapipe)
        )
        super().__post_init__()
        needs(self.mode in ("r", "rb", "rt"), self, f"Invalid mode {self.mode!r}: choose one of r, rb, rt")
        self._prepare()

    def _step(self) -> Step:
        managers, mode, transfer = self._managers(), self.mode, self._patience()

        def opened(path: str) -> tuple[str, StreamWrapper]:
            label = hide(url_of(path, "open_files_by_iopath"))
            manager = managers(path)
            if manager is None:
                return label, opened_url(_direct(path), mode, transfer, {}, {})[1]
            stream = Clock(transfer, label).tried(lambda: manager.open(path, mode))
            return label, StreamWrapper(stream, name=label)

        return Step("map", opened)

    __len__ = same_length


@operator
class IoPathSaver(Tolerant, WithHandlers, IterDataPipe[str]):
    """The path that the data of each ``(meta, data)`` is written to, unless the file exists.

    Data is anything that ``save_to_disk`` takes; all of it is read into memory. A file appears as a whole or not at
    all. A file of this machine is locked while it is written.

    Args:
        mode: ``"wb"`` for bytes, ``"w"`` or ``"wt"`` for text. An ``a`` instead of the ``w`` means the same: an
            existing file stays unchanged.
        filepath_fn: A function of ``meta`` that returns the path. ``None``: ``meta`` is the path.
        pathmgr: The ``PathManager`` of iopath for all paths. ``None``: handlers serve the paths with their prefixes,
            and all others are written as by fsspec.
        handler: A ``PathHandler`` of iopath that replaces another one of its prefixes; ``register_handler`` adds more.
            ``None``: none.

    >>> import os, tempfile
    >>> from datapipes.iter import IterableWrapper
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path] = IterableWrapper([("a.txt", "text")]).save_by_iopath(filepath_fn=lambda name: f"{folder}/{name}")
    ...     os.path.getsize(path)
    4
    """

    _fluent: ClassVar[str | None] = "save_by_iopath"

    source_datapipe: IterDataPipe[tuple[Any, Any]]
    mode: str = "w"
    filepath_fn: Callable[[Any], str] | None = None
    _: KW_ONLY
    pathmgr: Any = None
    handler: Any = None
    transfer: Transfer | None = None

    def __post_init__(self) -> None:
        needs_callable("save_by_iopath", self.filepath_fn, or_none=True)
        super().__post_init__()
        needs(self.mode in _WRITING, self, f"Invalid mode {self.mode!r}: choose one of {', '.join(_WRITING)}")
        self._prepare()

    def _step(self) -> Step:
        managers, transfer = self._managers(), self._patience()
        mode = self.mode.replace("a", "w")  # files are always written as a whole

        def write(path: Any, data: Any) -> None:
            content = whole(url_of(path, "save_by_iopath"), mode, data)
            manager = managers(path)
            with _lock(path if manager else os.path.expanduser(path), transfer):  # as fsspec reads it
                Clock(transfer, hide(path)).tried(lambda: _save(manager, path, mode, content, transfer))

        return saving(self, write)

    __len__ = same_length


def _direct(path: str) -> str:
    """Return a path that fsspec can read: files shared by OneDrive come over http.

    >>> _direct("https://1drv.ms/u/s!x")
    'https://api.onedrive.com/v1.0/shares/u!aHR0cHM6Ly8xZHJ2Lm1zL3UvcyF4/root/content'
    """
    if path.startswith("https://1drv.ms/u/s!"):
        handler = needed("iopath.common.file_io", "iopath").OneDrivePathHandler()
        path = handler.create_one_drive_direct_download(path)
    return path


def _lock(path: str, transfer: Transfer) -> AbstractContextManager[object]:
    """Return a context that locks a path of this machine, against other processes that save to it."""
    if "://" in path:
        return nullcontext()
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    return locked(path, transfer.deadline, why="to save it: ")


def _save(manager: Any, path: str, mode: str, data: Any, transfer: Transfer) -> None:
    if manager is None:
        filesystem, inner = filesystem_of(path, {}, transfer)
        filesystem.invalidate_cache(inner)
        if not filesystem.exists(inner):
            save(mode, *encoded(path, data, {}), filesystem, inner)
        return
    if manager.exists(path):
        return
    partial = f"{path}.{uuid4().hex}.part"
    try:
        with manager.open(partial, mode) as file:
            file.write(data)
            _force(file)
        if manager.mv(partial, path) is False:
            raise OSError(f"{hide(path)}: it was written under another name, and could not be renamed")
    except BaseException:
        if manager.exists(partial):
            manager.rm(partial)
        raise


def _force(file: Any) -> None:
    """Force written data to disk (fsync), if the file has a descriptor."""
    file.flush()
    try:
        descriptor = file.fileno()
    except (AttributeError, io.UnsupportedOperation):
        return
    os.fsync(descriptor)
