"""Writing of a file completely or not at all.

The bytes are written to a temporary file in the same folder and forced to disk. Then the file is renamed, which
replaces an existing file in one step, and the folder is forced to disk. After a crash there is either the old or the
new file; after an exception, the old one. Two concurrent writers of one path have two temporary files, and the last one
wins.

A temporary file is locked while it is written. An unlocked one was left by a killed writer, and the next writer of the
same path removes it.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any

from datapipes.errors import BadArgument
from datapipes.iter.files import locks

_MOST_SLOTS = 64  # temporary files to search for those of killed writers; more concurrent writers work as well
_PATIENCE = 300.0  # seconds to wait for other processes that append to the same file


@contextmanager
def replacing(
    path: str | os.PathLike[str], mode: str = "wb", encoding: str | None = None, newline: str | None = None
) -> Iterator[IO[Any]]:
    """Open a file to write (``w``) or append (``a``). The file appears when the block ends without an exception.

    Missing folders are made. An existing file keeps its permissions; a symbolic link is replaced, not followed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(os.path.join(folder, "new", "a.txt"), "w") as file:
    ...         file.write("one")
    ...     os.listdir(os.path.join(folder, "new"))
    3
    ['a.txt']
    """
    if sorted(mode.replace("b", "t", 1)) not in (["a"], ["w"], ["a", "t"], ["t", "w"]):
        raise BadArgument(f"a file is replaced with mode 'w' or 'a', and 'b' or 't', got {mode!r}: {os.fspath(path)!r}")
    path = os.path.abspath(path)
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    with ExitStack() as held:
        if "a" in mode:
            held.enter_context(locks.locked(path, _PATIENCE, why="to append to it: "))
        old = _replaceable(path)
        temporary, descriptor = _temporary(path)
        held.callback(locks.let_go, descriptor)
        try:
            if "a" in mode and os.path.exists(path):
                with open(path, "rb") as before, open(descriptor, "wb", closefd=False) as copy:
                    shutil.copyfileobj(before, copy)
            with open(descriptor, mode, encoding=encoding, newline=newline, closefd=False) as file:
                yield file
            if old is not None:
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
            os.fsync(descriptor)
            os.replace(temporary, path)
        except BaseException:
            if locks.is_ours(descriptor) and locks.is_at(temporary, descriptor):
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
            raise
    _sync_folder(folder)


def write(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write a whole file; text is encoded as UTF-8.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(os.path.join(folder, "a.bin"), b"one")
    """
    with replacing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def _replaceable(path: str) -> os.stat_result | None:
    """Return the regular file at a path, or None. Raise for other kinds, which a rename would destroy."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "cannot write a file where a folder is", path)
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "cannot replace a path that is not a regular file", path)
    return found if stat.S_ISREG(found.st_mode) else None


def remove_leftovers(path: str) -> None:
    """Remove the temporary files of a path that killed writers left."""
    for slot in range(_MOST_SLOTS):
        if not os.path.lexists(_part(path, slot)):
            break
        locks.sweep(_part(path, slot))


def _part(path: str, slot: int) -> str:
    return locks.beside(path, f".{slot}.loader2-part")


def _temporary(path: str) -> tuple[str, int]:
    """Make a locked temporary file beside a path. Return its path and descriptor. Remove those of killed writers."""
    mine: tuple[str, int] | None = None
    slot = 0
    while mine is None or slot < _MOST_SLOTS:
        temporary = _part(path, slot)
        if mine is not None and not os.path.lexists(temporary):
            break
        locks.sweep(temporary)
        if mine is None and (descriptor := locks.take(temporary)) is not None:
            mine = temporary, descriptor
        slot += 1
    return mine


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the file system does not support it
            raise
    finally:
        os.close(descriptor)
