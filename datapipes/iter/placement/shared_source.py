"""The stream above a sharding_filter, read once for all lanes of a process, and dealt to them by number.

Element k belongs to lane k mod n. The source is read in blocks, which grow from one element to 64 rounds as long as a
block takes less than half a millisecond. Elements that hold streams are read one by one. An exception takes the place
of its element, and is raised in its lane. A lane that is too far behind goes on with a source of its own.

The position of a lane is a snapshot of the source, the number of elements before it, and the number of elements that
the lane has taken. It has one form, however many lanes share a source. Threads of several lanes may read a source.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from operator import length_hint
from time import perf_counter
from typing import Any, Final

from datapipes.description import structure
from datapipes.elements.sizes import size_of
from datapipes.elements.streams import StreamWrapper, holds_stream
from datapipes.errors import StateError, consumes_element
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.position.cells import Cell, Table, count, is_trial, table
from datapipes.position.error_notes import with_text_traceback
from datapipes.position.forks import tell_of_forks
from datapipes.position.opening import Opening
from datapipes.position.position_history import PositionHistory
from datapipes.position.seeds import ErrorCounts
from datapipes.position.session import Session

_MOST_ROUNDS: Final = 64
_MOST_ELEMENTS: Final = 1024
"""Elements of a block that may have more rounds than that, because there are few lanes."""
_QUICK: Final = 0.0005
"""Seconds. A block that takes less is followed by a larger one."""


class SharedSources:
    """The sources that the lanes of one opening share, by the place of the ``sharding_filter``.

    Args:
        errors: The counts of tolerated errors of all lanes together.
        buffer_size: The largest number of elements that wait for a lane that is behind.
        buffer_bytes: The largest number of their bytes. ``None``: bytes are not counted.
    """

    def __init__(self, errors: ErrorCounts, buffer_size: int, buffer_bytes: int | None) -> None:
        self.errors = errors
        self.buffer_size = buffer_size
        self.buffer_bytes = buffer_bytes
        self.left: Counter[str] = Counter()
        """Errors that sources have tolerated before they were closed."""
        self._sources: dict[int, SharedSource] = {}
        self._lock = threading.Lock()

    def join(self, at: Opening, pipe: structure.Pipe, of: int, lane: int, cell: SharedCell) -> SharedSource:
        """Return the source for the cell of a lane: the one at this place, or a new one if that one has begun."""
        with self._lock:
            source = self._sources.get(at.place)
            if source is None or source.has_begun:
                source = self._sources[at.place] = SharedSource(self, at, pipe, of)
            source.add(lane, cell)
            return source


@dataclass(slots=True)
class _Reader:
    """The source's record of one lane."""

    cell: SharedCell
    first: int
    """The number of the first element that the lane needs."""
    waiting: deque[list[Any] | Exception] = field(default_factory=deque)
    """Blocks for the lane, and exceptions in place of elements."""

    def is_within(self, elements: int, most_bytes: int | None) -> bool:
        """Return whether no more than these elements and bytes wait."""
        blocks = [block for block in self.waiting if isinstance(block, list)]
        fits = sum(map(len, blocks)) <= elements
        return fits and (most_bytes is None or sum(map(size_of, chain.from_iterable(blocks))) <= most_bytes)


class _BlockSize:
    """The size of the next block, by the time that the last one took."""

    def __init__(self, of: int) -> None:
        self._of = of
        self._most = max(_MOST_ROUNDS, _MOST_ELEMENTS // of)
        self._rounds = 0  # 0: one element

    def wanted(self, given: int) -> int:
        """Return how many elements to read after ``given`` ones. A block ends with a round."""
        return self._of * self._rounds - given % self._of if self._rounds else 1

    def adapt(self, seconds: float, holds_streams: bool) -> None:
        """Note the time that a block took, and whether its elements hold streams."""
        if holds_streams:
            self._rounds = 0
        elif seconds < _QUICK:
            self._rounds = min(2 * self._rounds, self._most) if self._rounds else 1
        elif seconds > 2 * _QUICK:
            self._rounds //= 2


class SharedSource:
    """One opening of a stream that is dealt to lanes."""

    def __init__(self, whole: SharedSources, at: Opening, pipe: structure.Pipe, of: int) -> None:
        self._whole, self._at, self._pipe, self._of = whole, at, pipe, of
        self._readers: dict[int, _Reader] = {}
        self._session: Session | None = None
        self._given = 0  # elements that were dealt
        self._chunk: list[Any] = []  # elements that were read and not dealt yet
        self._wanted = 0
        self._raised: BaseException | None = None  # after the chunk
        self._has_ended = False
        self._size = _BlockSize(of)
        self._marks: PositionHistory[Table | None] = PositionHistory()
        self._lock = threading.RLock()
        tell_of_forks(self)

    def forked(self) -> None:
        self._lock = threading.RLock()  # a thread of the parent may hold the other one

    @property
    def has_begun(self) -> bool:
        """Whether an element was asked for."""
        return self._session is not None

    @property
    def is_replayed(self) -> bool:
        """Whether a plain class is above."""
        return self._session is not None and any(cell.is_replayed for cell in self._session.cells.values())

    def add(self, lane: int, cell: SharedCell) -> None:
        """Deal elements to a lane as well, from the first one on that it needs."""
        self._readers[lane] = _Reader(cell, cell.next_number())

    def _begin(self) -> None:
        first = min(reader.first for reader in self._readers.values())
        cells = [reader.cell for reader in self._readers.values()]
        starts = [(cell.before, cell.snapshot) for cell in cells if cell.before <= first]
        self._given, snapshot = max(starts, key=lambda start: start[0], default=(0, None))
        run = replace(self._at.run, hubs={}, errors=ErrorCounts(self._whole.errors))
        self._session = self._at.session(self._pipe, run, snapshot, is_rewritten=True)
        self._marks.mark(self._given, snapshot, 0)

    def hand_block(self, lane: int, cell: SharedCell) -> bool:
        """Give a lane's cell its next block. Raise the exception that comes next. Return False at the end.

        Return True without a block if another thread has given the lane another source.
        """
        with self._lock:
            if lane not in self._readers:
                return cell.source is not None
            if self._session is None:
                self._begin()
            while not (waiting := self._readers[lane].waiting):
                if self._has_ended:
                    return False
                self._read(lane)
            block = waiting[0]
            if isinstance(block, Exception):
                with CtrlCWaits():
                    del waiting[0]
                    cell.skip_one()
                try:
                    raise block
                finally:
                    del block
            taken, left = cell.taken, iter(block)
            cell.before_block, cell.left, cell.block = taken, left, block
            del waiting[0]  # without a call since the cell has changed: no signal can arrive in between
            return True

    def _read(self, asking: int) -> None:
        """Read a block for a lane and deal it. Raise an exception that consumes no element, such as Ctrl-C."""
        session = self._session
        assert session is not None
        started = perf_counter()
        if not self._chunk and self._raised is None:  # otherwise an interruption has left them
            self._wanted = self._size.wanted(self._given)
            try:
                self._chunk.extend(islice(session.iterator(), self._wanted))
            except BaseException as raised:
                self._raised = raised
        with CtrlCWaits():
            error = self._settle(perf_counter() - started)
        took = perf_counter() - started
        self._marks.made(took, self._given, self._least(), None if self._has_ended else session.table)
        if error is not None:
            try:
                raise error
            finally:
                del error
        self._let_go(asking)

    def _settle(self, seconds: float) -> BaseException | None:
        """Deal the chunk, and the exception after it. Return the exception if it consumes no element."""
        assert self._session is not None
        chunk, error, self._chunk, self._raised = self._chunk, self._raised, [], None
        self._size.adapt(seconds, bool(chunk) and holds_stream(chunk[-1]))
        first, self._given = self._given, self._given + len(chunk)
        for lane, reader in self._readers.items():
            begin, waiting = max(first, reader.first), reader.waiting
            if part := chunk[begin - first + (lane - begin) % self._of :: self._of]:
                if waiting and isinstance(waiting[-1], list):
                    waiting[-1].extend(part)
                else:
                    waiting.append(part)
        if error is None:
            self._has_ended = len(chunk) < self._wanted
            return None
        self._session.fail(error)
        if self._session.passes_over(error):
            return None
        if not isinstance(error, Exception) or not consumes_element(error):
            return error
        owner = self._readers.get(self._given % self._of)
        if owner is not None and self._given >= owner.first:
            owner.waiting.append(with_text_traceback(error))
        self._given += 1
        return None

    def _let_go(self, asking: int) -> None:
        """Give each lane that is too far behind the one that is asking a source of its own."""
        for lane, reader in list(self._readers.items()):
            if lane != asking and not reader.is_within(self._whole.buffer_size, self._whole.buffer_bytes):
                cell = reader.cell
                cell.snapshot, cell.before = self.known(cell.next_number())
                cell.source = SharedSource(self._whole, self._at, self._pipe, self._of)
                cell.source.add(lane, cell)
                self.leave(lane)

    def _least(self) -> int:
        return min((reader.cell.number() for reader in self._readers.values()), default=0)

    def known(self, number: int) -> tuple[Table | None, int]:
        """Return the last snapshot from before an element, and the number of elements before it."""
        with self._lock:
            position, since = self._marks.after(number)
            is_settled = not (self._has_ended or self._chunk or self._raised)  # at its end a session has no position
            if self._session is not None and is_settled and number - since < self._given <= number:
                position, since = self._session.table(), number - self._given
                if not is_trial():  # other lanes then save the same object
                    self._marks.mark(self._given, position, self._least())
            return position, number - since

    def leave(self, lane: int) -> None:
        """Deal no more elements to a lane. Close the source with the last one."""
        with self._lock:
            reader = self._readers.pop(lane, None)
            for block in () if reader is None else reader.waiting:
                StreamWrapper.close_streams(block)
            if not self._readers and self._session is not None:
                self._whole.left.update(self._session.errors())
                self._has_ended = True
                self._session.close()


class SharedCell(Cell):
    """A snapshot of the shared source, the number of elements before it, and the number that the lane has taken."""

    def __init__(self) -> None:
        self.snapshot: Table | None = None  # None: the start
        self.before = 0
        self.before_block = 0  # elements that the lane had taken before the block at hand
        self.block: list[Any] = []
        self.left: Iterator[Any] = iter(self.block)  # the elements of the block that were not taken
        self.source: SharedSource | None = None
        self._of, self._lane = 1, 0

    @property
    def taken(self) -> int:
        """The number of elements that the lane has taken."""
        return self.before_block + len(self.block) - length_hint(self.left)

    def number(self) -> int:
        """Return the number of the next element that the lane takes."""
        return self._lane + self.taken * self._of

    def next_number(self) -> int:
        """Return the number of the first element that the source has to deal to the lane."""
        return self._lane + (self.before_block + len(self.block)) * self._of

    def skip_one(self) -> None:
        """Count an element that could not be made."""
        self.before_block, self.block, self.left = self.taken + 1, [], iter(())

    def elements(self, at: Opening, pipe: structure.Pipe, of: int, lane: int) -> Iterator[Any]:
        """Return the elements of a lane from its position on."""
        self._of, self._lane = of, lane
        if self.source is None:
            self.source = at.run.shared.join(at, pipe, of, lane, self)
        return chain.from_iterable(self._blocks())

    def _blocks(self) -> Iterator[Iterator[Any]]:
        yield self.left
        while self.source is not None and self.source.hand_block(self._lane, self):
            yield self.left

    @property
    def is_replayed(self) -> bool:
        return self.source is not None and self.source.is_replayed

    def done(self) -> int:
        return self.number() - self._of + 1 if self.taken else 0

    def save(self) -> list[Any]:
        if self.source is not None and self.source.has_begun:
            return [*self.source.known(self.number()), self.taken]
        return [self.snapshot, self.before, self.taken]

    def load(self, saved: Any) -> None:
        if type(saved) is not list or len(saved) != 3:
            raise StateError(f"expected [position, count, count], found {saved!r:.80}")
        self.snapshot, self.before, self.before_block = table(saved[0]), count(saved[1]), count(saved[2])

    def close(self) -> None:
        StreamWrapper.close_streams(list(self.left))
        source, self.source = self.source, None
        if source is not None:
            source.leave(self._lane)
