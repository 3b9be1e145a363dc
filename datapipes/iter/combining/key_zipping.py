"""zip_with_iter, zip_with_map: each element with the one of the same key, in another stream or in a collection.

``zip_with_iter`` reads the reference stream until the key is found; the elements read before wait, in order. The
element whose key is searched is part of the position: if the reference raises, the search continues after the failed
reference element. Waiting elements belong to this stage alone, so their streams are closed when they are dropped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator
from itertools import chain
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, MapDataPipe, operator
from datapipes.description.printing import stage
from datapipes.description.structure import is_pipe, is_stream
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgumentType, StateError
from datapipes.operator_support.checks import needs_callable, needs_count, same_length
from datapipes.position.cells import Cell, fields
from datapipes.position.on_error import Tolerant
from datapipes.position.opening import Opening
from datapipes.position.steps import Step

T_co = TypeVar("T_co", covariant=True)

_MISSING: Any = object()


@operator
class IterKeyZipper(IterDataPipe[Any]):
    """Each element with the one that has the same key in another stream: ``(element, reference)``.

    Two waiting reference elements with the same key are a ``ValueError``. A key without a reference element is a
    ``BufferError``.

    Args:
        ref_datapipe: The other stream, of reference elements. It is read only until the key is found.
        key_fn: A function that returns the key of an element.
        ref_key_fn: A function that returns the key of a reference element. ``None``: ``key_fn``.
        keep_key: Whether to give pairs of the key and the result.
        buffer_size: Number of reference elements that may wait; beyond it the oldest are dropped, with a warning.
            ``None``: no limit.
        merge_fn: A function of an element and its reference element that returns the result. ``None``: both, as a pair.

    >>> from datapipes.iter import IterableWrapper
    >>> labels = IterableWrapper([("b", 2), ("a", 1)])
    >>> list(IterableWrapper("ab").zip_with_iter(labels, str, lambda label: label[0], merge_fn=lambda x, y: (x, y[1])))
    [('a', 1), ('b', 2)]
    """

    _fluent: ClassVar[str | None] = "zip_with_iter"

    source_datapipe: IterDataPipe[Any]
    ref_datapipe: IterDataPipe[Any]
    key_fn: Callable[[Any], Hashable]
    ref_key_fn: Callable[[Any], Hashable] | None = None
    keep_key: bool = False
    buffer_size: int | None = 10000
    merge_fn: Callable[[Any, Any], Any] | None = None

    def __post_init__(self) -> None:
        if not is_stream(self.ref_datapipe):
            raise BadArgumentType(
                "zip_with_iter needs `ref_datapipe` to be an `IterDataPipe`, "
                f"got {type(self.ref_datapipe).__name__}: {self.ref_datapipe!r:.60}"
            )
        needs_callable("zip_with_iter", self.key_fn)
        for fn in (self.ref_key_fn, self.merge_fn):
            needs_callable("zip_with_iter", fn, or_none=True)
        needs_count(self, "buffer_size", 1, "'buffer_size' is required to be positive, or None", or_none=True)

    def _open(self, at: Opening) -> Iterator[Any]:
        search = at.cell(_KeySearchCell)
        references = chain(search.held, at.source(self.ref_datapipe))
        return self._pairs(at.source(self.source_datapipe), references, search)

    def _pairs(self, source: Iterator[Any], references: Iterator[Any], search: _KeySearchCell) -> Iterator[Any]:
        key_fn, merge_fn, keep_key = self.key_fn, self.merge_fn, self.keep_key
        for element in search.elements(source):
            searching = found = False
            try:
                key = key_fn(element)
                search.sought, searching = [element], True
                reference = self._reference(key, references, search)
                found = True
                made = (element, reference) if merge_fn is None else merge_fn(element, reference)
            except Exception:
                if found or not searching:
                    search.end()
                search.held = []
                raise
            except BaseException:  # an interruption: the pair will be made again
                search.sought = [element]
                raise
            search.sought, search.held = [], []  # without a call: no signal can arrive in between
            yield (key, made) if keep_key else made
        search.close()

    def _reference(self, key: Hashable, references: Iterator[Any], search: _KeySearchCell) -> Any:
        """Return the reference element with a key; those read before it wait."""
        waiting, ref_key_fn = search.waiting, self.ref_key_fn or self.key_fn
        if key in waiting:
            search.held = [waiting[key]]
            del waiting[key]
            return search.held[0]
        for reference in references:
            search.held = [reference]
            ref_key = ref_key_fn(reference)
            if ref_key in waiting:
                raise ValueError(
                    f"Duplicate key: {ref_key!r:.80} is the key of two reference elements in {stage(self)}, and the "
                    "first of them still waits; make the keys unique, or read the streams in a closer order"
                )
            if ref_key == key:
                return reference
            if len(waiting) == self.buffer_size:
                self._give_up_the_oldest(search)
            waiting[ref_key] = reference
            search.held = []
        search.end()
        raise BufferError(
            f"No matching key can be found: {stage(self)} has read all reference elements, and no waiting one has "
            f"the key {key!r:.80}; {len(waiting)} wait, of {self.buffer_size or 'any number'} that may"
        )

    def _give_up_the_oldest(self, search: _KeySearchCell) -> None:
        if not search.warned:
            search.warned = True
            warnings.warn(
                f"Buffer reaches the upper limit: {stage(self)} drops reference elements whose key was not requested, "
                "oldest first; a larger buffer_size keeps more",
                stacklevel=2,
            )
        StreamWrapper.close_streams(search.waiting.pop(next(iter(search.waiting))))

    __len__ = same_length


class _KeySearchCell(Cell):
    """Waiting reference elements by key, and the element whose key is searched."""

    def __init__(self) -> None:
        self.waiting: dict[Any, Any] = {}
        self.warned = False
        self.sought: list[Any] = []
        self.held: list[Any] = []  # a reference element that was taken and does not wait

    def elements(self, source: Iterator[Any]) -> Iterator[Any]:
        """Yield the element whose key is searched, if there is one, and then those of the source."""
        yield from self.sought[:]
        yield from source

    def end(self) -> None:
        """End a search: the partner was found, or does not exist."""
        self.sought = []

    def save(self) -> dict[str, Any] | None:
        if not self.waiting and not self.sought:
            return None
        held = {"held": self.encode(self.held)} if self.held else {}
        return {"waiting": self.encode(list(self.waiting.items())), "sought": self.encode(self.sought), **held}

    def load(self, saved: Any) -> None:
        if saved is None:
            return
        held = ("held",) if isinstance(saved, dict) and "held" in saved else ()
        waiting, sought, *rest = map(self.decode_list, fields(saved, "waiting", "sought", *held))
        if len(sought) > 1:
            raise StateError(f"sought: expected one element at most, found {len(sought)}")
        try:
            self.waiting = dict(waiting)
        except (TypeError, ValueError) as error:
            raise StateError(f"waiting: expected pairs of a key and an element: {error}") from error
        self.sought, self.held = sought, rest[0] if rest else []

    def close(self) -> None:
        StreamWrapper.close_streams([*self.waiting.values(), *self.sought, *self.held])
        self.waiting.clear()
        self.sought, self.held = [], []


@operator
class MapKeyZipper(Tolerant, IterDataPipe[Any]):
    """Each element with the value of its key in a collection: ``(element, found)``.

    A key that the collection does not have is a KeyError; ``on_error="skip"`` leaves its element out.

    Args:
        map_datapipe: The collection, a map-style pipe.
        key_fn: A function that returns the key of an element.
        merge_fn: A function of an element and the value found that returns the result. ``None``: both, as a pair.
        keep_key: Whether to give pairs of the key and the result.

    >>> from datapipes.iter import IterableWrapper
    >>> from datapipes.map import SequenceWrapper
    >>> list(IterableWrapper("ab").zip_with_map(SequenceWrapper({"a": 1, "b": 2}), key_fn=str))
    [('a', 1), ('b', 2)]
    """

    _fluent: ClassVar[str | None] = "zip_with_map"

    source_iterdatapipe: IterDataPipe[Any]
    map_datapipe: MapDataPipe[Any]
    key_fn: Callable[[Any], Any]
    merge_fn: Callable[[Any, Any], Any] | None = None
    keep_key: bool = False

    def __post_init__(self) -> None:
        if not is_pipe(self.map_datapipe) or is_stream(self.map_datapipe):
            raise BadArgumentType(
                "zip_with_map needs `map_datapipe` to be a `MapDataPipe`, "
                f"got {type(self.map_datapipe).__name__}: {self.map_datapipe!r:.60}"
            )
        needs_callable("zip_with_map", self.key_fn)
        needs_callable("zip_with_map", self.merge_fn, or_none=True)
        super().__post_init__()

    def _step(self) -> Step:
        return Step("map", self._merged)

    def _merged(self, element: Any) -> Any:
        key = self.key_fn(element)
        try:
            found = self.map_datapipe[key]
        except (KeyError, IndexError) as error:
            raise KeyError(f"{key!r:.80} is not a valid key of the collection in {stage(self)}") from error
        merged = (element, found) if self.merge_fn is None else self.merge_fn(element, found)
        return (key, merged) if self.keep_key else merged

    __len__ = same_length
