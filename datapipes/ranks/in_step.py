"""One rank's stream, kept in step with those of the others.

An element is handed on once it is known that all ranks have one at its place. A rank reads ahead in blocks of some
milliseconds, and says how far it has come while the block before is handed on, so agreeing costs neither a wait nor a
Python call for an element. A rank that knows its length says so once. What is handed on is a list, which bad news of
another rank cut short at once.

The position is how many elements were handed on, and the positions above at some earlier element: those in between are
made again on resume. Where others read above as well, the elements read ahead are saved instead.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from itertools import islice, repeat
from operator import itemgetter
from time import perf_counter
from typing import Any, Final

from datapipes.cells import Cell, Table, count, fields
from datapipes.counting import Counted, skip
from datapipes.errors import (
    GraphError,
    PrefetchTimeoutError,
    RanksDiffer,
    RanksError,
    StateError,
    UnevenRanks,
    UnsavableElement,
)
from datapipes.ranks.topics import Progress, Report, Uneven
from datapipes.ranks.tree import Key, Tree, connected
from datapipes.streams import holds_stream

_log = logging.getLogger(__name__)

_BLOCK: Final = 0.025
"""Seconds that reading a block should take,"""
_MOST: Final = 4096
"""and how many elements it has at most. A rank holds two blocks."""
_CHEAP: Final = 0.05
"""The share of the time of reading that may go into looking at positions."""


class _Padding(Enum):
    PADDING = "PADDING"

    def __repr__(self) -> str:
        return self.value


PADDING: Final = _Padding.PADDING
"""What a rank gives in place of an element that it does not have, with ``uneven="pad"``."""


class InStep(Cell):
    """How far this rank is, and what it has read ahead."""

    carries = True

    def __init__(self, uneven: Uneven, timeout: float, tree: Tree | None, length: int | None) -> None:
        self._progress = Progress(uneven)
        self._timeout = timeout
        self._tree = tree
        self._owns_tree = tree is None
        self._length = length  # how many elements there are, if that is certain
        self._attempt = 0
        self._key: Key | None = None  # of the attempt under way
        self._given = 0  # how many elements were handed on, but for the portion's
        self._portion: list[Any] = []
        self._taken: Counted[Any] | None = None  # of the portion
        self._read = 0  # how many elements there were so far
        self._ahead: list[Any] = []  # read, and not yet part of a portion
        self._marks: deque[tuple[int, Table]] = deque()  # positions above, by how many elements were read before
        self._skip = 0  # how many elements the source gives that were handed on before a state was saved
        self._error: Exception | None = None  # of the element after those read ahead
        self._at_end = False
        self._began: tuple[Key, int] | None = None  # which attempt, and at which element
        self._finished = False
        self._size = 1
        self._reading = self._looking = 0.0  # seconds

    # -- what is handed on ---------------------------------------------------------------------------------------------

    def elements(self, source: Iterator[Any], mark: Callable[[], Table] | None) -> Iterator[Any]:
        """The elements of ``source`` that all ranks have; ``mark`` looks at the positions above, if it may."""
        self._source, self._mark = source, mark
        if not self._ahead:
            self._marks.clear()
            self._look(self._read - self._skip)
        return self._interruptible()

    def _interruptible(self) -> Iterator[Any]:
        tree = self._tree = self._tree or connected(self._timeout)
        if self._key is not None and tree.failed(self._key):
            self._attempt += 1
        self._key = (tree.epoch, self._attempt)
        try:
            yield from self._in_step(tree, self._key)
        except GeneratorExit:
            raise
        except Exception as error:
            if not isinstance(error, RanksError) or isinstance(error, PrefetchTimeoutError):
                tree.fail(self._key, error)
            raise
        finally:
            self._put_back()

    def _in_step(self, tree: Tree, key: Key) -> Iterator[Any]:
        skipped, self._skip = self._skip, 0
        if skip(self._source, skipped) < skipped:
            raise StateError(f"{self.label}: its source ended before the position that was saved")
        verdict = self._begun(tree, key)
        while verdict["total"] != self._given:
            if self._wants(verdict):
                self._read_block(verdict["total"])
                if self._length is None:
                    tree.update(self._report())
            if self._error is not None and not self._ahead:
                self._raise()
            verdict = tree.verdict or verdict
            given = self._given
            if verdict["upto"] > given:
                tree.check(given)
                yield from self._portion_of(tree, tree.limit(verdict["upto"]) - given)
            elif verdict["uneven"]:
                raise UnevenRanks(f"the ranks have different numbers of elements: {Progress.counted(verdict)}")
            else:
                verdict = tree.wait(partial(_is_more, given), given, self._timeout)
        if verdict["promised"]:  # another rank may yet fail
            tree.update(self._report(finished=True))
            tree.wait(itemgetter("finished"), self._given, self._timeout)
        self._end(tree)

    def _begun(self, tree: Tree, key: Key) -> Report:
        """Wait for all ranks to take part."""
        if self._length is None and not self._ahead and not self._at_end:
            self._read_block(None)
        if self._began is None or self._began[0] != key:
            self._began = key, self._given
        tree.begin(key, self._progress, self._report())
        verdict = tree.wait(lambda _: True, self._given, self._timeout)
        (low, behind), (high, before) = verdict["given"]
        if low != high and not self._attempt:
            raise RanksDiffer(
                f"the ranks are not at the same element: rank {behind} has handed on {low}, rank {before} {high}; "
                "load states that were saved at the same step"
            )
        return verdict

    def _portion_of(self, tree: Tree, most: int) -> Iterator[Any]:
        """Hand on up to so many elements, unless there is bad news."""
        portion, self._ahead = self._ahead[:most], self._ahead[most:]
        if self._at_end:
            portion += repeat(PADDING, min(most - len(portion), _MOST))
        live = portion.copy()
        self._portion, self._taken = portion, Counted(live)
        if tree.interrupting(live.clear):
            yield from self._taken.elements
        tree.interrupting(None)
        self._put_back()

    def _put_back(self) -> None:
        """What is left of a portion is ahead again."""
        if self._taken is not None:
            self._ahead[:0] = self._left()
            self._given += self._taken.taken
            self._portion, self._taken = [], None

    def _left(self) -> list[Any]:
        left = self._portion if self._taken is None else self._portion[self._taken.taken :]
        return left if not left or left[-1] is not PADDING else [each for each in left if each is not PADDING]

    def _raise(self) -> None:
        error, self._error, self._length = self._error, None, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # its traceback holds this frame

    def _end(self, tree: Tree) -> None:
        self._finished = True
        tree.dropped = max(0, (self._read if self._length is None else self._length) - self._given)
        if tree.dropped:
            more = "" if self._at_end or self._length is not None else "at least "
            _log.info(
                "rank %d left out %s%d elements that other ranks have no partner for", tree.rank, more, tree.dropped
            )

    # -- what is read --------------------------------------------------------------------------------------------------

    def _wants(self, verdict: Report) -> bool:
        """Whether to read another block now: there is none, or the others know of all that is there."""
        if self._at_end or self._error is not None or self._read == verdict["total"]:
            return False
        at_once = self._length is not None or (self._ahead and holds_stream(self._ahead[-1]))
        return not self._ahead or (not at_once and self._read <= verdict["upto"])

    def _read_block(self, total: int | None) -> None:
        most = self._size if total is None else min(self._size, total - self._read)
        if self._looking <= _CHEAP * self._reading:
            self._look(self._read)
        before, started = len(self._ahead), perf_counter()
        try:
            self._ahead.extend(islice(self._source, most))
            self._at_end = len(self._ahead) - before < most
        except Exception as error:  # raised where its element would be
            self._error = error
        took = perf_counter() - started
        self._reading += took
        self._read += len(self._ahead) - before
        self._size = max(1, self._size // 2) if took > 2 * _BLOCK else min(_MOST, self._size << (took < _BLOCK / 2))
        if self._at_end and self._length is not None and self._read < self._length:
            raise GraphError(
                f"{self.label}: there were to be {self._length} elements above it, and there are {self._read}"
            )

    def _look(self, read: int) -> None:
        started = perf_counter()
        if self._mark is not None:
            try:
                self._marks.append((read, self._mark()))
            except UnsavableElement:
                self._mark = None
        self._looking += perf_counter() - started
        self._position()

    def _report(self, finished: bool = False) -> Report:
        rank, began = (self._tree.rank if self._tree else 0), (self._began[1] if self._began else 0)
        if self._length is None:
            return self._progress.report(rank, self._read, self._at_end, began, finished=finished)
        return self._progress.report(rank, self._length, True, began, promised=True, finished=finished)

    # -- the position --------------------------------------------------------------------------------------------------

    def _position(self) -> tuple[int, Table | None]:
        """How many elements of this rank were handed on, and how many of them since positions that are kept."""
        behind = self._read - len(self._ahead) - len(self._left())
        while len(self._marks) > 1 and self._marks[1][0] <= behind:
            self._marks.popleft()
        return behind, self._marks[0][1] if self._marks else None

    def carried(self) -> Table | None:
        return self._position()[1]

    def in_step(self) -> bool:
        return False

    def done(self) -> int:
        return self._given + (0 if self._taken is None else self._taken.taken)

    def save(self) -> dict[str, Any]:
        behind, above = self._position()
        saved = {"given": self.done(), "read": behind, "certain": self._length is not None}
        if above is not None:
            return {**saved, "since": behind - self._marks[0][0], "ahead": None, "lost": None}
        lost = None if self._error is None else f"{type(self._error).__name__}: {self._error}"
        return {**saved, "since": 0, "ahead": self.pack([*self._left(), *self._ahead]), "lost": lost}

    def load(self, saved: Any) -> None:
        given, read, certain, since, ahead, lost = fields(saved, "given", "read", "certain", "since", "ahead", "lost")
        if type(certain) is not bool or not (lost is None or type(lost) is str):
            raise StateError(
                f"expected whether the length is certain, and an error or None, found {certain!r}, {lost!r:.80}"
            )
        self._given, self._read = count(given, "given"), count(read, "read")
        self._skip = count(since, "since", most=self._read)
        if not certain:
            self._length = None
        if ahead is not None:
            self._ahead = self.unpack_list(ahead)
            self._read += len(self._ahead)
        if lost is not None:
            self._error = GraphError(f"{self.label} met an error before its position was saved: {lost:.500}")

    def close(self) -> None:
        tree, self._tree = self._tree, None
        self._put_back()
        if tree is not None and self._key is not None and not self._finished:
            verdict = tree.verdict
            if verdict is not None and verdict["total"] == self._given:
                self._tree = tree
                tree.update(self._report(finished=True))
                self._tree = None
            else:
                tree.leave(tree.epoch, self._given)
        if tree is not None and self._owns_tree:
            tree.close()
        self._ahead.clear()


def _is_more(given: int, verdict: Report) -> bool:
    return verdict["upto"] > given or verdict["total"] is not None or bool(verdict["uneven"])
