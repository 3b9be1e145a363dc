"""Eviction by ``max_bytes``: the least recently used files of a cache are removed.

All files that a cache with ``max_bytes`` has made in a folder count, from any process. An index in that folder, a small
database, lists each file before it is written, so that files of a killed process count, too. Files that existed before
neither count nor are removed.

The time of an element's last use is the access time of its mark, the file that marks it as complete; it is set whenever
the element is handed on. An element's files are removed together, the mark first. They are not removed while a process
makes them (it holds the lock of their path) or uses them (it holds a shared lock on the mark). Therefore an element
larger than the limit stays until the next one, and files that are being written exceed the limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from time import time_ns
from typing import TYPE_CHECKING

from datapipes.iter.caching.on_disk.listfile import list_of
from datapipes.iter.files import locks
from datapipes.iter.files.atomic import remove_leftovers

if TYPE_CHECKING:
    import sqlite3

_PATIENCE = 300.0  # seconds to wait for other users of the index
_TABLE = "CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, element BLOB NOT NULL, bytes INTEGER)"


class Budget:
    """Limit in bytes for a cache's files, in the given folder or in that of each element's path."""

    def __init__(self, max_bytes: int, folder: str | None) -> None:
        self._most = max_bytes
        self._folder = folder

    def intend(self, path: str, file: str) -> None:
        """Announce that a file will be written for the element at a path. A counted file stays counted."""
        with self._index(path) as index:
            index.execute("INSERT OR IGNORE INTO files VALUES (?, ?, NULL)", (_key(file), _key(path)))

    def forget(self, path: str) -> None:
        """Remove the announced files of an element whose production failed."""
        with self._index(path) as index:
            index.execute("DELETE FROM files WHERE element = ? AND bytes IS NULL", (_key(path),))

    def commit(self, path: str, files: Iterable[str]) -> None:
        """Count the files of an element, whose list is complete, and evict others if necessary."""
        with self._index(path) as index:
            index.execute("DELETE FROM files WHERE element = ?", (_key(path),))
            rows = [(_key(file), _key(path), os.stat(file).st_size) for file in files]
            index.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", rows)
            self._make_room(index, keep=_key(path))

    def _make_room(self, index: sqlite3.Connection, keep: bytes) -> None:
        for path in _elements(index, "WHERE bytes IS NULL"):  # in production, or left by a killed process
            _remove(index, path)
        ((total,),) = index.execute("SELECT COALESCE(SUM(bytes), 0) FROM files")
        total += sum(_size(file) for (file,) in index.execute("SELECT path FROM files WHERE bytes IS NULL"))
        if total > self._most:
            for path in sorted(set(_elements(index)) - {keep}, key=_last_used):
                total -= _remove(index, path)
                if total <= self._most:
                    break

    @contextmanager
    def _index(self, path: str) -> Iterator[sqlite3.Connection]:
        """Lock the index for this process. The changes are committed if the block ends without an exception."""
        import sqlite3

        folder = self._folder or os.path.dirname(path) or os.curdir
        os.makedirs(folder, exist_ok=True)
        name = os.path.join(folder, ".loader2-cache-index")
        with closing(sqlite3.connect(name, timeout=_PATIENCE, isolation_level=None)) as index:
            try:
                index.execute("BEGIN IMMEDIATE")
                index.execute(_TABLE)
                yield index
                index.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                error.add_note(f"the cache's index is {name}; if it is damaged, remove it and the cache's files")
                raise


def in_use(mark: str) -> int | None:
    """Protect the files of an element from removal, and set the time of their use. Return None if they are gone.

    The protection ends when ``locks.let_go`` is called with the result.
    """
    descriptor = locks.keep(mark, shared=True)
    if descriptor is not None:
        with suppress(PermissionError):  # the file belongs to another user, and its time cannot be set
            os.utime(descriptor, ns=(time_ns(), os.fstat(descriptor).st_mtime_ns))
    return descriptor


def _elements(index: sqlite3.Connection, where: str = "") -> list[bytes]:
    return [path for (path,) in index.execute(f"SELECT DISTINCT element FROM files {where}")]


def _remove(index: sqlite3.Connection, path: bytes) -> int:
    """Remove an element's files unless they are in production or in use. Return the number of bytes freed."""
    files = list(index.execute("SELECT path, bytes FROM files WHERE element = ?", (path,)))
    if not _removed(os.fsdecode(path), [os.fsdecode(file) for file, _ in files]):
        return 0
    index.execute("DELETE FROM files WHERE element = ?", (path,))
    return sum(size or 0 for _, size in files)


def _removed(path: str, files: list[str]) -> bool:
    if not os.path.isdir(os.path.dirname(path)):
        return True
    making = locks.take(locks.lock_of(path))
    if making is None:
        return False
    try:
        mark = list_of(path) if os.path.exists(list_of(path)) else path
        using = locks.keep(mark, shared=False)
        if using is None and os.path.isfile(mark):
            return False
        for file in [list_of(path), *files]:
            with suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(file)
            remove_leftovers(file)
        if using is not None:
            locks.let_go(using)
        return True
    finally:
        locks.let_go(making, remove=True)


def _key(path: str) -> bytes:
    return os.fsencode(os.path.abspath(path))


def _size(file: bytes) -> int:
    try:
        return os.stat(file).st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _last_used(path: bytes) -> int:
    """Return the time of an element's last use; 0 if it is gone or incomplete."""
    for mark in (os.fsencode(list_of(os.fsdecode(path))), path):
        with suppress(FileNotFoundError, NotADirectoryError):
            return os.stat(mark).st_atime_ns
    return 0
