"""The cached files of one element: found, or made by the stages in between.

They are found if a list exists and all files in it do, or if a file exists at the element's path. Otherwise one process
or thread makes them under a lock on that path; the others wait and then find them. The lock ends with its owner, and
incomplete work of its owner is ignored: each file appears complete, and of several files the list is written last. A
production that fails removes its new files.

While an element is handed on, no lock is held and no stage is suspended.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, BadArgumentType, HashMismatch
from datapipes.iter.caching.on_disk.budget import Budget, in_use
from datapipes.iter.caching.on_disk.listfile import list_of, needs_listable, read_list, write_list
from datapipes.iter.files.contents import Hashed, pair_of, pieces_of, put
from datapipes.iter.files.locks import let_go, lock_of, locked, sweep
from datapipes.iter.files.saving import writing_mode
from datapipes.messages.long_work import with_progress
from datapipes.messages.short import shortened
from datapipes.messages.where import where
from datapipes.position.on_error import ToleratedErrors
from datapipes.position.opening import Opening
from datapipes.position.seeds import derive
from datapipes.position.session import Session, segment

if TYPE_CHECKING:
    from datapipes.description.structure import Pipe
    from datapipes.iter.caching.on_disk.cache import EndOnDiskCacheHolder


class Production:
    """Finder and maker of cached files for one stage, in one opening."""

    def __init__(self, end: EndOnDiskCacheHolder, at: Opening, *, make: Pipe, of: list[Any], timeout: float) -> None:
        self._holder = holder = end.holder()
        self._end = end
        self._at = at
        self._make = make  # the stages in between
        self._of = of  # the list from which they read their one element
        self._timeout = timeout
        self._budget = None if holder.max_bytes is None else Budget(holder.max_bytes, holder.cache_dir)
        self._at_hand: int | None = None  # the lock that protects the current files from removal

    def paths(self, element: Any, counts: dict[int, list[int]]) -> list[str]:
        """Return the files of an element. ``counts``: error counts of the stages in between, by place."""
        self.let_go()
        path = _path(self._holder.filepath_fn, element)
        found = self._found(path)
        if found is not None:
            sweep(lock_of(path))  # left by a process that was killed after its work
            return found
        os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
        with locked(path, self._timeout, self._at.closed, why="OnDiskCache Exception: "):
            found = self._found(path)
            return self._made(path, element, counts) if found is None else found

    def let_go(self) -> None:
        """End the protection of the current files from removal."""
        descriptor, self._at_hand = self._at_hand, None
        if descriptor is not None:
            let_go(descriptor)

    # -- found ---------------------------------------------------------------------------------------------------------

    def _found(self, path: str) -> list[str] | None:
        members = read_list(path)
        if members is None:
            extra_check = self._holder.extra_check_fn
            is_there = self._is_sound(path, None, folders=extra_check is not None)
            return [path] if is_there and (extra_check is None or extra_check(path)) and self._stays(path) else None
        is_there = all(self._is_sound(*one) for one in members)
        return [one.path for one in members] if is_there and self._stays(list_of(path)) else None

    def _stays(self, mark: str) -> bool:
        """Protect files from removal while they are in use. Return False if they are already gone.

        The mark is locked after the files were found. A remover locks the mark first, and removes it first.
        """
        if self._budget is not None and not os.path.isdir(mark):
            self._at_hand = in_use(mark)
            return self._at_hand is not None
        return True

    def _is_sound(self, path: str, size: int | None, folders: bool = False) -> bool:
        """Return whether a file exists and has the right size and hash, as far as these are known.

        A folder counts only if ``folders`` is set, because then ``extra_check_fn`` checks it.
        """
        try:
            found = os.stat(path)
            if folders and stat.S_ISDIR(found.st_mode):
                return True
            if not stat.S_ISREG(found.st_mode) or size not in (None, found.st_size):
                return False
            if self._holder.hash_dict is not None:
                hashed = Hashed(path, self._holder.hash_dict, self._holder.hash_type)
                with open(path, "rb") as file, pieces_of(file) as pieces:
                    for piece in with_progress("hashing", path, pieces):
                        hashed.update(piece)
                hashed.must_match()
        except (FileNotFoundError, NotADirectoryError, HashMismatch):
            return False
        return True

    # -- made ----------------------------------------------------------------------------------------------------------

    def _made(self, path: str, element: Any, counts: dict[int, list[int]]) -> list[str]:
        made: dict[str, bool] = {}  # path: whether the file is new
        self._of[:] = [element]
        session = self._at.session(self._make, self._at.run.next_lap(derive(path)))
        try:
            session.iterator()  # makes the cells
            for place, faults in _tolerant(session):
                faults.go_on(counts.get(place, [0, 0]))
            for product in segment(session):
                self._save(path, product, made)
            return self._committed(path, list(made))
        except BaseException:
            for file in (file for file, is_new in made.items() if is_new):
                with suppress(FileNotFoundError):
                    os.unlink(file)
            if self._budget is not None:
                self._budget.forget(path)
            raise
        finally:
            self._of.clear()
            counts.update({place: faults.save() for place, faults in _tolerant(session)})
            session.close()

    def _save(self, element: str, product: Any, made: dict[str, bool]) -> None:
        name, data = pair_of(product, "end_caching")
        path = _path(self._holder.filepath_fn if self._end.same_filepath_fn else self._end.filepath_fn, name)
        if path in made:
            raise BadArgument(f"two files of one element have the same path, {shortened(path)}; tell them apart")
        if not self._end.skip_read and isinstance(data, bytes | bytearray | memoryview):
            raise BadArgumentType(
                f"end_caching() reads a stream, but the data for {shortened(path)} is already {type(data).__name__}: "
                "use skip_read=True"
            )
        needs_listable(path)
        hashes = self._holder.hash_dict
        hashed = None if hashes is None else Hashed(path, hashes, self._holder.hash_type)
        is_new = not os.path.lexists(path)
        if self._budget is not None:
            self._budget.intend(element, path)
        put(path, writing_mode(self._end.mode), data, hashed)
        made[path] = is_new
        StreamWrapper.close_streams(data)

    def _committed(self, path: str, made: list[str]) -> list[str]:
        """Mark an element's files as complete. An element without files is not marked, and is tried again."""
        mark = path if made == [path] else list_of(path)
        if mark == path:
            with suppress(FileNotFoundError):
                os.unlink(list_of(path))  # an old list names files that are gone
        elif made:
            write_list(path, made)
        if self._budget is not None and made:
            self._budget.commit(path, {*made, mark})
            self._stays(mark)
        return made


def _path(filepath_fn: Callable[[Any], str] | None, name: Any) -> str:
    path: Any = name if filepath_fn is None else filepath_fn(name)
    if not isinstance(path, str | os.PathLike):
        source = "the elements are the paths" if filepath_fn is None else f"filepath_fn, {where(filepath_fn)},"
        raise BadArgument(f"{source} must give one path as str, got {type(path).__name__}: {shortened(path)}")
    return os.fsdecode(path)


def _tolerant(session: Session) -> list[tuple[int, ToleratedErrors]]:
    """Return the stages of a session that tolerate errors, by place."""
    return [(place, cell.faults) for place, cell in session.cells.items() if cell.faults is not None]
