"""in_memory_cache, memory_cell: a stream that is made once and repeated in later passes; its last elements.

The stages above a cache are opened with a constant seed, independent of the loader's seed, the epoch and the lap. They
give the same elements every time. So a position is also valid in a process with an empty cache, which makes the
elements again. The cached elements belong to the settings of the stages above: if one of
these is replaced, seeded or sharded differently, the cache is filled again.

All openings and copies of a pipe in one process share the cache. A pass fills it when it ends, if it began at the start
and met no exception. A resumed pass fills it only if it had to read the source from the start.

``memory_cell`` keeps the last elements on the pipe: the pipe and the copies that an iteration makes of it share them.
They are not part of a position, and are not pickled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import field, replace
from itertools import islice
from typing import Any, ClassVar, NamedTuple, TypeVar

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.elements.sizes import size_of
from datapipes.elements.streams import holds_stream
from datapipes.errors import StateError, consumes_element
from datapipes.operator_support.checks import length_of, needs, needs_count
from datapipes.position.cells import Cell, CountCell, Counted, Table, count, fields, table
from datapipes.position.opening import Opening
from datapipes.position.session import Session, segment

T_co = TypeVar("T_co", covariant=True)

_MEGABYTE = 1024 * 1024
_OF_AN_OPENING = frozenset({"_place", "_run", "_fresh", "_opened_as"})
_PLAIN = (int, float, str, bytes, bool)
_SMALL = 100

_NONE: Any = object()


@operator
class InMemoryCacheHolder(IterDataPipe[T_co]):
    """The same elements in every pass: the first complete pass makes them, later ones give the same objects.

    Random stages above draw once, independently of the loader's seed (``set_seed`` above chooses another order). For an
    order that changes, shuffle below the cache. The cache is pickled with the pipe, but is never part of a state.

    Args:
        size: Most megabytes (MiB) of elements to cache, contents included. Beyond, the oldest elements are evicted and
            made again in each pass. ``None``: no limit.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper(range(3)).map(str).in_memory_cache()
    >>> list(dp), dp.cache, list(dp)
    (['0', '1', '2'], ['0', '1', '2'], ['0', '1', '2'])
    """

    _fluent: ClassVar[str | None] = "in_memory_cache"
    _exclusive_because = (
        "caches one child of a fork, demux or unzip while another part of the graph reads its sibling, "
        "but later passes would not read this child: put in_memory_cache() above the fork"
    )

    source_dp: IterDataPipe[T_co]

    def __init__(self, source_dp: IterDataPipe[T_co], size: float | None = None) -> None:
        self.source_dp = source_dp
        self._size = size
        self._kept = _CachedElements()
        needs(size is None or size > 0, self, "size is required to be larger than 0 megabytes, or None for no limit")

    @property
    def size(self) -> int | None:
        """Most bytes of the cached elements; None for no limit."""
        return None if self._size is None else int(self._size * _MEGABYTE)

    @property
    def cache(self) -> list[T_co] | None:
        """The cached elements; None before the first complete pass."""
        remembered = self._kept.of(_settings(self.source_dp))
        return None if remembered is None else list(remembered.elements)

    @property
    def idx(self) -> int:
        """Number of evicted elements, which each pass makes again."""
        remembered = self._kept.of(_settings(self.source_dp))
        return 0 if remembered is None else remembered.missing

    def _reads(self) -> tuple[()]:
        return ()

    def _open(self, at: Opening) -> Iterator[T_co]:
        reading = at.cell(_CachePassCell)
        if reading.loaded is not None:
            self._session_of(at, reading).iterator()  # raises now if the state does not fit
        return self._elements(at, reading)

    def _session_of(self, at: Opening, reading: _CachePassCell) -> Session:
        if reading.session is None:
            source = structure.unfold(self.source_dp)
            for above in structure.walk(source):  # relative places: independent of the cache's own place
                place = structure.place_of(above)
                above.__dict__["_place"] = at.place - place if place < at.place else place
            run = replace(at.run, seed=0, epoch=0, number=0, passes={}, lap=())
            reading.session = at.session(source, run, reading.loaded)
            reading.loaded = None
        return reading.session

    def _elements(self, at: Opening, reading: _CachePassCell) -> Iterator[T_co]:
        settings = _settings(self.source_dp, at.run.shard)
        remembered = self._kept.of(settings) if reading.whole else None
        if remembered is None or reading.given() < remembered.missing:
            yield from self._made(at, reading, settings, None if remembered is None else remembered.missing)
        if remembered is not None:
            reading.leave_source()
            yield from reading.counting(islice(remembered.elements, max(reading.given() - remembered.missing, 0), None))

    def _made(self, at: Opening, reading: _CachePassCell, settings: list[Any], most: int | None) -> Iterator[T_co]:
        """Make the elements of the source up to its end, or until ``most`` were given."""
        if reading.taken == 0 and reading.whole and most is None:
            reading.noted = _PassElements(self.size)
        elements: Any = segment(self._session_of(at, reading))
        while most is None or reading.taken < most:
            element = _NONE
            try:
                for element in elements:  # noqa: B007  # used below: a signal may arrive right after next() returns
                    break
                else:
                    reading.end()
                    break
                if reading.noted is not None:
                    self._refuse_streams(element)
                    reading.noted.add(element)
            except Exception as error:
                reading.taken += element is not _NONE
                if consumes_element(error):
                    reading.lose()
                raise
            except BaseException:
                if element is not _NONE and reading.session is not None:
                    reading.session.take_back(element)
                    reading.noted, reading.whole = None, False  # the element may be in it or not
                raise
            reading.taken += 1
            if reading.taken > reading.handed_on:
                reading.handed_on = reading.taken
                yield element
        elements.close()
        if reading.noted is not None:
            self._kept.remember(settings, reading.noted)

    def _refuse_streams(self, element: Any) -> None:
        if holds_stream(element):
            raise TypeError(
                f"{stage(self)} repeats elements in later passes, but an open file can be read only once: read it "
                "above the cache, for instance with .map(lambda file: (file[0], file[1].read()))"
            )

    def __len__(self) -> int:
        try:
            return length_of(self.source_dp)
        except TypeError:
            remembered = self._kept.of(_settings(self.source_dp))
        if remembered is None:
            raise TypeError(
                f"{type(self).__name__} instance doesn't have valid length until the cache is loaded: {stage(self)}"
            )
        return remembered.missing + len(remembered.elements)


def _settings(source: structure.Pipe, shard: object = None) -> list[Any]:
    """Return all settings that determine a stream's elements: the stages' attributes without those of an opening."""
    values: list[Any] = [repr(shard)]
    for above in structure.walk(source):
        values.append(type(above))
        for name, value in structure.attributes(above).items():
            if name not in _OF_AN_OPENING and next(structure.pipes_in(value), None) is None:
                values.append(value)
    return values


def _same(a: Any, b: Any) -> bool:
    """Return whether two settings are identical, or small plain values that are equal. Comparing data could fail."""
    if a is b or type(a) is not type(b):
        return a is b
    if type(a) in _PLAIN:
        return bool(a == b)
    if type(a) not in (dict, list, tuple) or not len(a) == len(b) <= _SMALL:
        return False
    return all(map(_same, *((list(x.items()) if type(x) is dict else x) for x in (a, b))))


class _CacheEntry(NamedTuple):
    """Elements of a stream without the first ``missing`` ones, and the stream's settings."""

    settings: list[Any]
    missing: int
    elements: list[Any]


class _CachedElements:
    """Cached elements of a stream, shared by all copies of a cache in one process."""

    def __init__(self) -> None:
        self._remembered: _CacheEntry | None = None

    def of(self, settings: list[Any]) -> _CacheEntry | None:
        """Return the cached elements of a stream with these settings, or None."""
        known = self._remembered
        same = known is not None and len(known.settings) == len(settings) and all(map(_same, known.settings, settings))
        return known if same else None

    def remember(self, settings: list[Any], noted: _PassElements) -> None:
        """Cache the noted elements, unless there are none or the cache is filled."""
        if noted.elements and self.of(settings) is None:
            self._remembered = _CacheEntry(settings, noted.missing, list(noted.elements))


class _PassElements:
    """Elements of a pass so far. If they exceed the limit, the oldest are dropped."""

    def __init__(self, most: int | None) -> None:
        self.elements: deque[Any] = deque()
        self.missing = 0
        self._most = most
        self._sizes: deque[int] = deque()
        self._size = 0

    def add(self, element: Any) -> None:
        """Append an element. Drop the oldest elements beyond the limit."""
        self.elements.append(element)
        if self._most is None:
            return
        self._sizes.append(size_of(element))
        self._size += self._sizes[-1]
        while self._size > self._most:
            self.elements.popleft()
            self._size -= self._sizes.popleft()
            self.missing += 1


class _CachePassCell(Cell):
    """Progress of a pass: elements taken from the source, and elements given from there or from the cache."""

    def __init__(self) -> None:
        self.taken = 0
        self.whole = True  # False after an element failed
        self.noted: _PassElements | None = None
        self.session: Session | None = None
        self.loaded: Table | None = None
        self.handed_on = 0
        self._counted: Counted[Any] | None = None

    def given(self) -> int:
        """Return the number of elements that were given."""
        return self.handed_on if self._counted is None else self._counted.taken

    done = given

    def lose(self) -> None:
        """Note that an element failed: the pass is incomplete. If it was being made again, count it as made."""
        self.whole, self.noted = False, None
        self.taken += self.taken < self.handed_on

    def end(self) -> None:
        """Check at the end of the source that all given elements were made again."""
        if self.taken < self.handed_on:
            raise StateError(
                f"{self.label}: {self.handed_on} elements were given, but the source made only {self.taken} again"
            )

    def counting(self, elements: Iterator[T_co]) -> Iterator[T_co]:
        """Return the elements of the cache, counted."""
        self._counted = Counted(elements, start=self.given())
        return self._counted.elements

    def leave_source(self) -> None:
        """Close the source's session: the remaining elements come from the cache."""
        if self.session is not None:
            self.session.close()
        self.session = self.loaded = None

    def save(self) -> dict[str, Any]:
        above = self.loaded if self.session is None else self.session.table()
        taken = 0 if above is None else self.taken
        return {"given": self.given(), "taken": taken, "whole": self.whole, "above": above}

    def load(self, saved: Any) -> None:
        given, taken, whole, above = fields(saved, "given", "taken", "whole", "above")
        if type(whole) is not bool:
            raise StateError(f"whole: expected True or False, found {type(whole).__name__}")
        self.handed_on, self.whole, self.loaded = count(given, "given"), whole, table(above)
        self.taken = count(taken, "taken", most=self.handed_on)

    def close(self) -> None:
        self.noted = None
        if self.session is not None:
            self.session.close()


@operator
class MemoryCell(IterDataPipe[T_co]):
    """The same elements; the last of them can be read from the pipe, with their numbers.

    Args:
        remember_elements: Number of elements to keep; they stay in memory as long as the pipe does.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper("abc").memory_cell(2)
    >>> list(dp), dp.get_last(), dp.get_buffer()
    (['a', 'b', 'c'], (2, 'c'), [(2, 'c'), (1, 'b')])
    """

    _fluent: ClassVar[str | None] = "memory_cell"

    source_datapipe: IterDataPipe[T_co]
    remember_elements: int = 1000
    _remembered: deque[tuple[int, T_co]] = field(init=False)

    def __post_init__(self) -> None:
        needs_count(
            self, "remember_elements", 1, f"remember_elements must be larger than 0, got {self.remember_elements}"
        )
        self._remembered = deque(maxlen=self.remember_elements)

    def get_last(self) -> tuple[int, T_co] | None:
        """Return the last element and its number, counted from 0 in its iteration; None before the first."""
        return self._remembered[-1] if self._remembered else None

    def get_buffer(self) -> list[tuple[int, T_co]]:
        """Return the kept elements with their numbers, the last one first."""
        return list(reversed(self._remembered))

    def _open(self, at: Opening) -> Iterator[T_co]:
        return self._elements(at.source(self.source_datapipe), at.cell(CountCell))

    def _elements(self, source: Iterator[T_co], given: CountCell) -> Iterator[T_co]:
        remember = self._remembered.append
        for numbered in enumerate(given.counting(source), start=given.given()):
            remember(numbered)
            yield numbered[1]

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "_remembered": deque(maxlen=self.remember_elements)}
