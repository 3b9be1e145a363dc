"""Shared source of the children of one fork, demux or unzip, with a queue for each reader.

A reader is a child at one place of the graph: a child that is zipped with itself has two readers, and both get all
elements. An element of the source goes to all its queues in one step, under a lock, because children may be read from
different threads. If making an element raises and all children would have got it, the error waits in the queues of the
other readers, which raise it in its place: readers side by side keep equal counts. If the element was for one child,
the error is raised once. No child ends early in either case.

The waiting elements are bounded in number, and optionally in bytes. With ``spill_dir``, elements beyond the bounds wait
on disk. Without these options the queues are plain deques, and sizes are not measured.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import KW_ONLY
from itertools import repeat
from operator import ge, gt
from typing import Any, ClassVar, TypeAlias, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.elements.sizes import size_of
from datapipes.errors import StateError, consumes_element
from datapipes.iter.combining.detached_hub import DetachedHubCell, ReaderCell
from datapipes.iter.combining.spill import BufferBounds, SpillQueue
from datapipes.messages.warnings import warn
from datapipes.operator_support.checks import needs, needs_count
from datapipes.position.cells import Cell, count, fields
from datapipes.position.error_notes import with_text_traceback
from datapipes.position.forks import give_back, tell_of_forks
from datapipes.position.opening import Opening
from datapipes.position.position_history import Lost, error_text, lost

T_co = TypeVar("T_co", covariant=True)

SPENT: Any = object()
"""Sentinel for the end of a source."""

Folder: TypeAlias = str | os.PathLike[str]
Queue: TypeAlias = deque[Any] | SpillQueue


@operator
class Hub(IterDataPipe[Any]):
    """Stage that the children of one call share."""

    _hub: ClassVar[bool] = True
    _passes_through: ClassVar[bool] = True
    _shares_room: ClassVar[bool] = False  # whether the bounds apply to all queues together, not to each

    datapipe: IterDataPipe[Any]
    num_instances: int
    buffer_size: int = 1000
    _: KW_ONLY
    buffer_bytes: int | None = None
    spill_dir: Folder | None = None

    def __post_init__(self) -> None:
        needs_count(self, "num_instances", 1, f"Expected `num_instances` larger than 0, got {self.num_instances}")
        needs_count(self, "buffer_size")
        size, folder = self.buffer_bytes, self.spill_dir
        too_small = f"`buffer_bytes` must be positive, or None for no limit, got {size}"
        needs_count(self, "buffer_bytes", 1, too_small, or_none=True)
        needs(folder is None or os.path.isdir(folder), self, f"`spill_dir` is not an existing folder: {folder}")
        if self.buffer_size < 0 and self.buffer_bytes is None:
            warn(f"Unlimited buffer size is set for `{self._fluent}`; OOM may occur if one child is read far ahead")

    @property
    def most_elements(self) -> float:
        """Most elements that may wait."""
        return self.buffer_size if self.buffer_size >= 0 else float("inf")

    @property
    def limit(self) -> float:
        """Number of waiting elements up to which there is room. Beyond it, ``need_room`` decides."""
        return self.most_elements if self.buffer_bytes is None and self.spill_dir is None else -1

    def room(self) -> BufferBounds | None:
        """Return the bounds of one reader's queue, or of all. Return None if only the number of elements matters."""
        if self.buffer_bytes is None and self.spill_dir is None:
            return None
        folder = None if self.spill_dir is None else os.fspath(self.spill_dir)
        return BufferBounds(self.most_elements, self.buffer_bytes, folder, stage(self))

    def _open(self, at: Opening) -> Any:
        if at.is_detached():
            return at.cell(lambda: DetachedHubCell(self._queues())).opened(self, at)
        queues = at.cell(self._queues)
        queues.put_back = at.put_back
        queues.lock = threading.Lock()  # on Python 3.14, Ctrl-C where a `with` begins leaves the old one locked
        return queues.reading(at.source(self.datapipe))

    def _queues(self) -> HubCell:
        return HubCell(self)


@operator
class Child(IterDataPipe[T_co]):
    """One of the streams of a hub."""

    _fluent: ClassVar[str | None] = "fork"
    _passes_through: ClassVar[bool] = True

    _parents: ClassVar[tuple[str, ...] | None] = ("main_datapipe",)
    main_datapipe: Hub
    instance_id: int

    def _open(self, at: Opening) -> Iterator[T_co]:
        queues: HubCell = at.hub(self.main_datapipe)
        elements = self._elements(queues, queues.of_reader(at.place, self.instance_id))
        detached: DetachedHubCell | None = at.enclosing_hub(self.main_datapipe)
        if detached is None:
            return elements
        return at.cell(ReaderCell).along(self, at, detached.progress_of(at.place, elements))

    def _elements(self, queues: HubCell, mine: Queue) -> Iterator[T_co]:
        """Yield the elements that wait in the queue, and then those from the source."""
        raise NotImplementedError(f"{type(self).__name__} has no _elements")


class HubCell(Cell):
    """Queues of waiting elements, one for each reader, by place."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._room = hub.room()
        self.waiting: dict[int, Queue] = {}
        self.children: dict[int, int] = {}
        self.readers: list[list[Queue]] = [[] for _ in range(hub.num_instances)]  # of each child
        self.marks: deque[None] = deque()  # one for each waiting element of a dealer's readers; its length is the count
        self.dealt_to: Sequence[Queue] = ()  # the queues of the last element
        self.turn = 0  # number of elements dealt
        self.source: Iterator[Any] = iter(())
        self.put_back: Callable[[Any], None] = _nowhere  # makes the hub take an element of its source again
        self.lock = threading.Lock()
        self._goes_on = False
        self._failure: BaseException | None = None  # the error that ended the source since it was opened
        tell_of_forks(self)

    def forked(self) -> None:
        give_back(self.lock)

    def reading(self, source: Iterator[Any], goes_on: bool = False) -> HubCell:
        """Take elements from this iterator. ``goes_on``: it continues after an exception."""
        self.source, self._goes_on, self._failure = source, goes_on, None
        self.marks = deque([None] * sum(map(len, self.waiting.values())))
        return self

    def of_reader(self, place: int, child: int) -> Queue:
        """Return the queue of the reader at a place, which reads this child."""
        queue = self.waiting.setdefault(place, self._new_queue())
        if place not in self.children:  # False when it is opened again after an exception
            self.children[place] = child
            self.readers[child].append(queue)
        return queue

    def _new_queue(self) -> Queue:
        room = self._room if self._hub._shares_room else self._hub.room()
        return deque() if room is None else SpillQueue(room)

    def popped(self, queue: Queue) -> Iterator[Any]:
        """Return an iterator that removes and gives the elements of a queue. Call it only while the queue has some."""
        taken_out: Any = type(queue).popleft
        return map(taken_out, repeat(queue))

    def others(self, mine: Queue) -> list[Queue]:
        """Return the queues of the other readers. Call it with the first element: all readers are known then."""
        return [queue for queues in self.readers for queue in queues if queue is not mine]

    def need_room(self, queue: Queue) -> None:
        """Raise unless another element may wait in a queue, or in the queues that share its room.

        Call it if more elements than the hub's ``limit`` wait.
        """
        if not isinstance(queue, SpillQueue):
            raise self._overflow()
        for given in (queue, *self.dealt_to):
            if isinstance(given, SpillQueue):
                given.settle()
        room = queue.room
        if (refusal := room.refusal()) is not None:
            raise refusal()
        # Shared room may be full: the next element may be the reader's own, and need none.
        is_full = gt if self._hub._shares_room else ge
        if room.folder is None and (is_full(room.elements, room.most_elements) or is_full(room.bytes, room.most_bytes)):
            raise self._overflow()

    def _overflow(self) -> BufferError:
        """Return the error for a child that is read too far ahead of another."""
        hub = self._hub
        lags = {place: [x for x in queue if type(x) is not Lost] for place, queue in self.waiting.items()}
        sizes = {place: sum(map(size_of, elements)) for place, elements in lags.items()}
        last = max(lags, key=(lambda place: len(lags[place])) if hub.buffer_bytes is None else sizes.__getitem__)
        bounds = [f"{hub.buffer_size} elements"] if hub.buffer_size >= 0 else []
        bounds += [] if hub.buffer_bytes is None else [f"{hub.buffer_bytes} bytes"]
        raised = "buffer_size (-1: no limit)" if hub.buffer_bytes is None else "buffer_size or buffer_bytes"
        return BufferError(
            f"{hub._fluent} buffer overflow: {stage(hub)} keeps up to {' and '.join(bounds)}, and child "
            f"{self.children[last]} lags behind by {len(lags[last])} elements ({sizes[last]} bytes); this buffer is "
            f"insufficient: read the children in step, raise {raised}, or set spill_dir= to keep the rest on disk"
        )

    def fail(self, others: Sequence[Queue] = ()) -> None:
        """Note the error being handled. It has ended the source until the source is opened again.

        If it stands for an element that ``others`` would have got, the error waits there in its place. The error is not
        a parameter: a frame that names its own error would keep the iterator alive.
        """
        error = sys.exception()
        assert error is not None
        if not self._goes_on:
            self._failure = _again(error)
        for queue in others if consumes_element(error) else ():
            queue.append(Lost(_again(error)))

    def must_have_ended(self) -> None:
        """Raise the error that ended the source, if one did: a child in another thread may have met it."""
        if self._failure is not None:
            raise _again(self._failure)

    def in_step(self) -> bool:
        return not any(self.waiting.values())

    def save(self) -> dict[str, Any] | None:
        waiting = {place: list(queue) for place, queue in self.waiting.items()}
        if not any(waiting.values()):
            return None
        elements = [[place, [x for x in queue if type(x) is not Lost]] for place, queue in waiting.items()]
        errors = [
            [place, at, error_text(x.error)]
            for place, queue in waiting.items()
            for at, x in enumerate(queue)
            if type(x) is Lost
        ]
        return {"elements": self.encode(elements), "lost": errors}

    def load(self, saved: Any) -> None:
        if saved is None:
            return
        elements, errors = fields(saved, "elements", "lost")
        waiting: dict[int, list[Any]] = dict(_entry(entry, int, list) for entry in self.decode_list(elements))
        for entry in errors if type(errors) is list else [errors]:
            place, at, text = _entry(entry, int, int, str)
            queue = waiting.setdefault(place, [])
            queue.insert(count(at, "lost", most=len(queue)), Lost(lost(self, text)))
        for place, loaded in waiting.items():
            self.waiting[place] = self._new_queue()
            for element in loaded:
                self.waiting[place].append(element)

    def close(self) -> None:
        self.put_back = _nowhere  # it refers to the session, which has this cell
        # Waiting streams close by themselves, unless another child's consumer still reads them.
        for queue in self.waiting.values():
            queue.clear()


def _nowhere(element: Any) -> None:
    """Do nothing: the hub is not open."""


def _entry(entry: object, *kinds: type) -> Any:
    if type(entry) is not list or [type(value) for value in entry] != list(kinds):
        raise StateError(f"expected [{', '.join(kind.__name__ for kind in kinds)}], found {entry!r:.80}")
    return entry


def _again(error: BaseException) -> Any:
    """Return a copy of an error to raise for another child, perhaps much later. An interruption stays one."""
    return with_text_traceback(error) if isinstance(error, Exception) else copy(error)
