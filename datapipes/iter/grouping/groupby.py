"""groupby: elements with equal keys in groups, within the bounds of a buffer.

The cell has the waiting groups, in the order of their first elements, and saves their elements. Groups of open streams
cannot be saved. The cell then saves the table above from when nothing waited last, and a resume takes all later
elements again, without handing on again what was handed on.

A heap of (size, arrival, key) finds the biggest group. It is made when the buffer is full for the first time, and gets
an entry for each size that a group reaches. Outdated entries are skipped, and removed when they are the majority. A
scan of all groups would cost 10,000 steps an element if all keys differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, NamedTuple

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.chunk import DataChunk
from datapipes.elements.streams import StreamWrapper, is_lost
from datapipes.errors import StateError
from datapipes.operator_support.checks import needs, needs_callable, needs_count
from datapipes.position.cells import Cell, Table, count, fields
from datapipes.position.opening import Opening, PositionsAbove


@operator
class Grouper(IterDataPipe[Any]):
    """Lists of the elements that have the same key.

    A group is handed on when it is complete or must make room; the others follow at the end, with any size.

    Args:
        group_key_fn: A function that returns the key of an element.
        keep_key: Whether to give pairs of the key and the list.
        buffer_size: Number of elements that may wait for their groups: then the biggest group makes room. ``None``: no
            limit.
        group_size: Number of elements in a complete group; at most ``buffer_size``. ``None``: groups are complete at
            the end.
        guaranteed_group_size: Least elements of a group that makes room; at most ``group_size``, which must also be
            given. ``None``: ``group_size``.
        drop_remaining: Whether a smaller group that makes room is dropped. Otherwise it is a ``RuntimeError``.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(["a1", "b1", "a2"]).groupby(lambda name: name[0], keep_key=True))
    [('a', ['a1', 'a2']), ('b', ['b1'])]
    """

    _fluent: ClassVar[str | None] = "groupby"

    datapipe: IterDataPipe[Any]
    group_key_fn: Callable[[Any], Any]
    _: KW_ONLY
    keep_key: bool = False
    buffer_size: int | None = 10000
    group_size: int | None = None
    guaranteed_group_size: int | None = None
    drop_remaining: bool = False

    def __post_init__(self) -> None:
        needs_callable("groupby", self.group_key_fn)
        needs_count(self, "buffer_size", 1, "buffer_size should be larger than 0, or None for no limit", or_none=True)
        if self.group_size is not None:
            unfit = "group_size should be larger than 0, and not exceed buffer_size"
            needs_count(self, "group_size", 1, unfit)
            needs(self.buffer_size is None or self.group_size <= self.buffer_size, self, unfit)
        if self.guaranteed_group_size is not None:
            unfit = "guaranteed_group_size should be larger than 0, and not exceed group_size, which must also be given"
            needs_count(self, "guaranteed_group_size", 1, unfit)
            needs(self.group_size is not None and self.guaranteed_group_size <= self.group_size, self, unfit)

    def _open(self, at: Opening) -> Iterator[Any]:
        above = at.above()
        groups = at.cell(lambda: _GroupsCell(self))
        groups.begin(above)
        return self._grouped(groups.inputs(at, at.source(self.datapipe), above), groups, at)

    def _grouped(self, inputs: Iterator[Any], groups: _GroupsCell, at: Opening) -> Iterator[Any]:
        key_fn, waiting, keep_key = self.group_key_fn, groups.waiting, self.keep_key
        due = groups.due()
        while True:
            if due is None:
                for element in inputs:
                    try:
                        key = key_fn(element)
                        group = waiting.get(key)
                        is_new = group is None
                        if group is None:
                            group = _Group(key, groups.begun, DataChunk([element]))
                            waiting[key] = group
                    except BaseException as error:
                        at.keep(element, error)
                        raise
                    if is_new:
                        groups.begun += 1
                    else:
                        group.elements.append(element)
                    groups.elements += 1
                    if (due := groups.due_after(group)) is not None:
                        break
                else:
                    if (due := groups.first()) is None:
                        return
            size, given_before = len(due.elements), groups.give_again > 0
            made: Any = (due.key, due.elements) if keep_key else due.elements
            del waiting[due.key]  # from here on without a call: no signal can arrive before the yield
            groups.elements -= size
            groups.given += 1
            if given_before:
                groups.give_again -= 1
            else:
                yield made
            made = due = None


class _Group(NamedTuple):
    """Group that is being collected; ``number`` is the count of groups begun before it."""

    key: Any
    number: int
    elements: DataChunk[Any]


class _GroupsCell(Cell):
    """Waiting groups, by key."""

    carries = True

    def __init__(self, pipe: Grouper) -> None:
        self._pipe = pipe
        self._least = pipe.group_size if pipe.guaranteed_group_size is None else pipe.guaranteed_group_size
        self._most = float("inf") if pipe.buffer_size is None else pipe.buffer_size
        self.waiting: dict[Any, _Group] = {}
        self.begun = 0
        self.elements = 0  # number of waiting elements
        self._by_size: list[tuple[int, int, Any]] | None = None
        self._above: Table | None = None  # the table above when nothing waited last
        self._taken = self.given = 0  # numbers of elements taken and groups handed on since then
        self._take_again = self.give_again = 0  # numbers of them to repeat for a loaded position
        self._loaded: Any = None  # a loaded position, until an element is taken
        self._watch = True

    # -- elements and groups -------------------------------------------------------------------------------------------

    def begin(self, above: PositionsAbove | None) -> None:
        """Start at a loaded position. Raise StateError if it has a table above, but another stage reads there."""
        self._by_size = None
        self.elements = sum(len(group.elements) for group in self.waiting.values())
        if self._loaded is None:  # after an error, the waiting elements cannot all be taken again
            self._above = None
        elif above is None:
            raise StateError(
                f"{self.label}: the state was saved where no other stage reads its source, but here one does"
            )

    def inputs(self, at: Opening, source: Iterator[Any], above: PositionsAbove | None) -> Iterator[Any]:
        """Yield the elements of the source. Keep the table above as long as elements hold streams."""
        at_start = not at.resumed
        while self._watch and above is not None:
            if not self.waiting and (self._loaded is not None or not self._take_again):
                self._above = above.at_start() if at_start else above.cheap_table()
                self._taken = self.given = 0
            at_start, self._loaded = False, None
            self._take_again = max(self._take_again - 1, 0)
            for element in source:
                try:
                    self._watch = is_lost(element)
                except BaseException as error:
                    at.keep(element, error)
                    raise
                self._taken += 1
                yield element
                break
            else:
                return
        self._above = None
        yield from source

    def due(self) -> _Group | None:
        """Return the group that an interruption kept from being handed on, or None."""
        for group in self.waiting.values():
            if len(group.elements) == self._pipe.group_size:
                return group
        return self._room_made() if self.elements >= self._most else None

    def due_after(self, group: _Group) -> _Group | None:
        """Return the group to hand on after an element was added to this one: it is complete, or must make room."""
        if len(group.elements) == self._pipe.group_size:
            return group
        if self._by_size is not None:
            heappush(self._by_size, (-len(group.elements), group.number, group.key))
        return self._room_made() if self.elements >= self._most else None

    def first(self) -> _Group | None:
        """Return the oldest group, or None if there are no more."""
        return next(iter(self.waiting.values())) if self.waiting else None

    def _room_made(self) -> _Group | None:
        group = self._biggest()
        if self._least is None or len(group.elements) >= self._least:
            return group
        size = len(group.elements)
        del self.waiting[group.key]
        self.elements -= size
        StreamWrapper.close_streams(group.elements)
        if self._pipe.drop_remaining:
            return None
        raise RuntimeError(
            f"Failed to group items: {self._pipe.buffer_size} elements wait in {self.label}, and the biggest group, "
            f"with the key {group.key!r:.80}, has {len(group.elements)} of {self._least}; it is dropped. Set a larger "
            "buffer_size, a smaller guaranteed_group_size, or drop_remaining=True to drop such groups silently"
        )

    def _biggest(self) -> _Group:
        if self._by_size is None or len(self._by_size) > 2 * len(self.waiting) + 100:
            self._by_size = [(-len(group.elements), group.number, group.key) for group in self.waiting.values()]
            heapify(self._by_size)
        while True:
            size, number, key = heappop(self._by_size)
            group = self.waiting.get(key)
            if group is not None and (group.number, len(group.elements)) == (number, -size):
                return group

    # -- the position --------------------------------------------------------------------------------------------------

    def save(self) -> dict[str, Any] | None:
        if self._loaded is not None:
            loaded: dict[str, Any] = self._loaded
            return loaded
        if self._is_carried():
            return {"taken": self._taken, "given": self.given}
        if not self.waiting:
            return None
        return {"groups": self.encode([[group.key, list(group.elements)] for group in self.waiting.values()])}

    def _is_carried(self) -> bool:
        return self._above is not None and self._watch and bool(self.waiting)

    def carried(self) -> Table | None:
        return self._above if self._is_carried() else None

    def load(self, saved: Any) -> None:
        if saved is None:
            return
        if isinstance(saved, dict) and "groups" in saved:
            (packed,) = fields(saved, "groups")
            for entry in self.decode_list(packed):
                self._load_group(entry)
            return
        taken, given = fields(saved, "taken", "given")
        self._take_again = count(taken, "taken")
        self.give_again = count(given, "given", most=taken)
        self._loaded = saved

    def _load_group(self, entry: Any) -> None:
        if not (type(entry) is list and len(entry) == 2 and type(entry[1]) is list and entry[1]):
            raise StateError(f"groups: expected [key, elements], found {entry!r:.80}")
        key, elements = entry
        try:
            known = key in self.waiting
        except TypeError:
            raise StateError(f"groups: {key!r:.80} cannot be a key") from None
        if known:
            raise StateError(f"groups: the key {key!r:.80} occurs twice")
        self.waiting[key] = _Group(key, self.begun, DataChunk(elements))
        self.begun += 1
        self.elements += len(elements)

    def close(self) -> None:
        self.waiting.clear()
        self._by_size = None
