"""What iopath's path managers are given by default: http(s), OneDrive and s3, under the one policy.

iopath's own handlers download a URL to a folder of its choice, without a limit to the time that this takes, and keep
it there for good. These stream it.
"""

from __future__ import annotations

import io
from typing import Any

from iopath.common.file_io import OneDrivePathHandler, PathHandler, PathManager

from datapipes.errors import BadArgument
from datapipes.io.remote.body import opened_body
from datapipes.io.remote.filesystems import filesystem_of
from datapipes.io.remote.remote_file import opened_file
from datapipes.io.remote.transfer import Clock, Transfer
from datapipes.io.remote.web import Web
from datapipes.messages.short import hide


def default_manager(transfer: Transfer) -> Any:
    """A path manager for this machine, http(s), OneDrive and s3."""
    manager = PathManager()
    for kind in (_Http, _OneDrive, _S3):
        manager.register_handler(kind(transfer))
    return manager


class _Http(PathHandler):  # type: ignore[misc]  # iopath is not looked into
    def __init__(self, transfer: Transfer) -> None:
        super().__init__()
        self._transfer = transfer

    def _get_supported_prefixes(self) -> list[str]:
        return ["http://", "https://"]

    def _url(self, path: str) -> str:
        return path

    def _isfile(self, path: str, **_: Any) -> bool:
        return True

    _exists = _isfile

    def _isdir(self, path: str, **_: Any) -> bool:
        return False

    def _open(self, path: str, mode: str = "r", buffering: int = -1, **kwargs: Any) -> Any:
        self._check_kwargs(kwargs)
        if mode not in ("r", "rb", "rt"):
            raise BadArgument(f"{hide(path)} can be read and not written, and mode is {mode!r}")
        visit = Web(self._transfer, {}).visit(hide(path))
        file = opened_body(visit.fetch(self._url(path)), visit.clock)
        return file if "b" in mode else io.TextIOWrapper(file, encoding="utf-8")


class _OneDrive(_Http):
    def _get_supported_prefixes(self) -> list[str]:
        return [OneDrivePathHandler.ONE_DRIVE_PREFIX]

    def _url(self, path: str) -> str:
        direct: str = OneDrivePathHandler().create_one_drive_direct_download(path)
        return direct


class _S3(PathHandler):  # type: ignore[misc]  # iopath is not looked into
    def __init__(self, transfer: Transfer) -> None:
        super().__init__()
        self._transfer = transfer

    def _get_supported_prefixes(self) -> list[str]:
        return ["s3://"]

    def _at(self, path: str) -> tuple[Any, str]:
        return filesystem_of(path, {}, self._transfer)

    def _asked(self, question: str, path: str) -> Any:
        """The answer of the file system to a question about a path."""

        def ask() -> Any:
            filesystem, inner = self._at(path)
            filesystem.invalidate_cache(inner)
            return getattr(filesystem, question)(inner)

        return Clock(self._transfer, hide(path)).tried(ask)

    def _exists(self, path: str, **_: Any) -> bool:
        return bool(self._asked("exists", path))

    def _isfile(self, path: str, **_: Any) -> bool:
        return bool(self._asked("isfile", path))

    def _isdir(self, path: str, **_: Any) -> bool:
        return bool(self._asked("isdir", path))

    def _ls(self, path: str, **_: Any) -> list[str]:
        return [name.rstrip("/").rpartition("/")[2] for name in self._asked("ls", path) or []]

    def _rm(self, path: str, **_: Any) -> None:
        self._asked("rm", path)

    def _mkdirs(self, path: str, **_: Any) -> None:
        """There are no folders to be made in s3."""

    def _mv(self, src_path: str, dst_path: str, **_: Any) -> bool:
        filesystem, source = self._at(src_path)
        target = self._at(dst_path)[1]
        Clock(self._transfer, hide(dst_path)).tried(lambda: filesystem.mv(source, target))
        return True

    def _open(self, path: str, mode: str = "r", buffering: int = -1, **kwargs: Any) -> Any:
        self._check_kwargs(kwargs)
        filesystem, inner = self._at(path)
        if "r" not in mode:
            return filesystem.open(inner, mode)
        return opened_file(filesystem, inner, mode, {}, Clock(self._transfer, hide(path)))
