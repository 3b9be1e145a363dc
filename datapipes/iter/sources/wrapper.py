"""IterableWrapper: a stream of the elements of any iterable.

The elements are copies by default, so that stages which change them in place do not change the user's data. Each
opening reads the iterable from its start. The position is an index in a sequence, otherwise a count. A list has as many
elements as when it was opened, in order, shuffled or sharded: appended elements belong to the next opening.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import islice
from operator import length_hint
from types import GeneratorType
from typing import Any, ClassVar, TypeVar, cast
from weakref import WeakSet

from datapipes.description.indexed import Indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import BadArgumentType, StateError, UnsavableElement
from datapipes.messages.warnings import warn
from datapipes.operator_support.checks import no_length
from datapipes.position.cells import Cell, Counted, count, skip
from datapipes.position.iterator import repeatable
from datapipes.position.opening import Opening
from datapipes.rewriting.gathering import RowStream
from datapipes.rewriting.pushdown import Positions

T_co = TypeVar("T_co", covariant=True)

_OF_A_PATH = re.compile(r"[/\\*]|\.\w{1,7}$")
_NEVER_CHANGE = frozenset({int, float, complex, bool, str, bytes, type(None), range})


@operator
class IterableWrapper(IterDataPipe[T_co]):
    """The elements of an iterable; of a list, those that it has when the iteration begins.

    Args:
        iterable: The iterable. One that cannot start again, such as a generator, gives only its remaining elements to
            later iterations, with a warning. An object with ``[i]`` and ``len`` instead of ``__iter__``, such as a
            map-style data set, gives as many elements as its ``len``. A pipe is read with seeds that follow from this
            stage's, and a resume reads it again up to its position; using the pipe itself is faster. The position in a
            ``DataLoader2`` cannot be saved.
        deepcopy: Whether to give copies, so that stages which change elements in place leave the originals unchanged.
            Elements of a list are copied one by one, another iterable as a whole. False saves time and memory. Objects
            that cannot be copied are used themselves, with a warning.

    >>> list(IterableWrapper(range(3)))
    [0, 1, 2]
    """

    _identified_by: ClassVar[str | None] = "iterable"

    iterable: Iterable[T_co]
    deepcopy: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.iterable, Iterable) and not hasattr(self.iterable, "__getitem__"):
            raise BadArgumentType(
                f"IterableWrapper needs an iterable, got {type(self.iterable).__name__}: {self.iterable!r:.60}"
            )
        if isinstance(self.iterable, str) and _OF_A_PATH.search(self.iterable):
            warn(
                f"IterableWrapper({self.iterable!r:.60}) gives the letters of this text one by one; "
                f"for a stream of one path write IterableWrapper([{self.iterable!r:.60}])"
            )

    def _open(self, at: Opening) -> Iterator[T_co]:
        cell = at.cell(lambda: _IterableCell(self._is_sequence(), _is_a_loader(self.iterable)))
        if isinstance(self.iterable, IterDataPipe):
            seed, number = at.seed(), at.run.number
            return cast("Iterator[T_co]", cell.start(self, at.interrupted, lambda pipe: repeatable(pipe, seed, number)))
        return cast("Iterator[T_co]", cell.start(self, at.interrupted))

    @property
    def _gives_once(self) -> bool:
        """Whether a second opening continues where the first one is: an iterator that is not copied."""
        return isinstance(self.iterable, Iterator) and (not self.deepcopy or isinstance(self.iterable, GeneratorType))

    def _is_sequence(self) -> bool:
        return type(self.iterable) in (list, tuple, range)

    def _copies(self) -> bool:
        """Return whether the elements of a sequence are copied: not if none of them can change."""
        data = cast("Sequence[T_co]", self.iterable)
        return self.deepcopy and not (isinstance(data, range) or set(map(type, data)) <= _NEVER_CHANGE)

    def _indexed(self) -> Indexed | None:
        if not self._is_sequence():
            return None
        data = cast("Sequence[T_co]", self.iterable)
        if isinstance(data, range):
            return Indexed(len(data), data.__getitem__, data)
        return Indexed(len(data), self._copy_of if self.deepcopy else data.__getitem__)

    def _is_free(self) -> bool:
        return not self._copies()

    def _positions(self) -> RowStream | None:
        # The buffer of a shuffle then has numbers: an element is copied when it is handed on.
        return RowStream(Positions(self), self) if self._is_sequence() and self._copies() else None

    def _copy_of(self, i: int) -> Any:
        element = self.iterable[i]  # type: ignore[index]  # of a sequence
        return element if type(element) in _NEVER_CHANGE else _copied(element)

    def __len__(self) -> int:
        try:
            return len(cast("Sequence[T_co]", self.iterable))
        except TypeError:
            raise no_length(self) from None


class _IterableCell(Cell):
    """Position in an iterable: the number of elements taken."""

    def __init__(self, is_sequence: bool, is_of_a_loader: bool = False) -> None:
        self._is_sequence = is_sequence
        self._is_of_a_loader = is_of_a_loader
        self._behind = 0
        self._copies: Counted[Any] | None = None  # of a sequence whose elements are copied
        self._failed = 0  # number of elements that could not be copied
        self._sequence: Sequence[Any] = ()
        self._iterator: Iterator[Any] | None = None
        self._elements: Iterator[Any] = iter(())
        self._counted: Counted[Any] | None = None

    def start(
        self, pipe: IterableWrapper[Any], interrupted: bool, of_pipe: Callable[[Any], Iterator[Any]] | None = None
    ) -> Iterator[Any]:
        """Return the elements from the position on; ``of_pipe`` iterates over an iterable that is a pipe."""
        generator = self._iterator
        if interrupted and isinstance(generator, GeneratorType) and generator.gi_frame is None:
            if pipe._gives_once:
                raise StateError(
                    f"{self.label}: the generator was interrupted, and Python ends an interrupted generator: its "
                    "remaining elements are lost; wrap an object whose __iter__ starts again"
                )
            self._behind, self._iterator = self.save(), None
        if interrupted and self._copies is not None:  # the interrupted copy is made again
            self._behind, self._iterator = self._copies.taken + self._failed, None
        if self._iterator is None:
            self._begin(pipe, of_pipe)
        return self._elements

    def _begin(self, pipe: IterableWrapper[Any], of_pipe: Callable[[Any], Iterator[Any]] | None) -> None:
        data: Any = pipe.iterable
        if self._is_sequence:
            if self._behind > len(data):
                raise StateError(f"{self.label}: {self._behind} elements were taken, but there are only {len(data)}")
            iterator: Any = iter(data)
            iterator.__setstate__(self._behind)
            elements = islice(iterator, len(data) - self._behind) if type(data) is list else iterator
            if pipe._copies():
                self._copies = Counted(map(self._copied, elements), start=self._behind - self._failed)
                elements = self._copies.elements
            self._sequence, self._iterator, self._elements = data, iterator, elements
            return
        if of_pipe is None:
            iterator = _iterator_of(_copied(data) if pipe.deepcopy else data)
        else:
            iterator = of_pipe(data)
        if iterator is data:
            _warn_if_used(data)
        if skip(iterator, self._behind) < self._behind:
            raise StateError(f"{self.label}: {self._behind} elements were taken, but there are fewer now")
        counted = Counted(iterator, start=self._behind)
        self._iterator, self._counted, self._elements = iterator, counted, counted.elements

    def _copied(self, value: Any) -> Any:
        try:
            return _copied(value)
        except Exception:
            self._failed += 1
            raise

    def save(self) -> int:
        if self._is_of_a_loader:
            raise UnsavableElement(
                f"{self.label} holds a loader, which has its own order and position; use the loader's graph instead"
            )
        return self.done()

    def done(self) -> int:
        if self._iterator is None:
            return self._behind
        if self._counted is not None:
            return self._counted.taken
        return len(self._sequence) - length_hint(self._iterator)  # also right for a list that grows meanwhile

    def load(self, saved: Any) -> None:
        self._behind = count(saved)


def _is_a_loader(data: Any) -> bool:
    """Return whether an object is a DataLoader2, which this package cannot import."""
    return any((cls.__module__, cls.__name__) == ("loader2.loader", "DataLoader2") for cls in type(data).__mro__)


def _iterator_of(data: Any) -> Iterator[Any]:
    """Iterate over an object. Its length ends one without ``__iter__``, which may never raise IndexError."""
    iterator: Iterator[Any] = iter(data)
    return iterator if isinstance(data, Iterable) or not isinstance(data, Sized) else islice(iterator, len(data))


_begun: WeakSet[Any] = WeakSet()


def _warn_if_used(iterator: Any) -> None:
    """Warn of an iterator that was iterated before and cannot start again: only its remaining elements come."""
    try:
        used = iterator in _begun
        _begun.add(iterator)
    except TypeError:
        return  # most iterators without weak references can be copied
    if used:
        warnings.warn(
            f"the {type(iterator).__name__} in IterableWrapper was iterated before and continues where it is, so "
            "elements are missing here; wrap a list, or an object whose __iter__ starts again",
            stacklevel=2,
        )


def _copied(value: Any) -> Any:
    """Return a deep copy, or the object itself, with a warning, if Python cannot copy it."""
    try:
        return copy.deepcopy(value)
    except StopIteration as error:
        raise RuntimeError(
            f"copying {type(value).__name__} raised StopIteration, which would end the stream"
        ) from error
    except TypeError:
        warnings.warn(
            f"{type(value).__name__} can not be deepcopied: the stream gives the original, so stages that change "
            "elements in place change the source, too (deepcopy=False confirms this)",
            stacklevel=2,
        )
        return value
