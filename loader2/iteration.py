"""The iterator of a loader: elements, ``limit`` and ``resume``.

``DataLoader2Iterator`` hands on elements at the speed of C, by inheriting the ``next`` of ``itertools.chain``. One that
has to look before each element whether to hand it on becomes a ``LookingIterator``: it was given a limit or paused,
another iterator of the same loader has replaced it, or its loader was shut down before the end.

An iterator keeps its loader alive, so that ``for x in DataLoader2(...)`` is not cut short. The position is the
loader's, which can save it after a ``break`` has dropped the iterator.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from datapipes.errors import BadArgument
from datapipes.position.cells import Given
from datapipes.position.session import Session, segment, unbroken
from reading_services import ReadingServiceInterface

if TYPE_CHECKING:
    from loader2.loader import DataLoader2

T = TypeVar("T")

Position: TypeAlias = tuple[Session, Given, AbstractContextManager[object]]
"""A session, the count of what it has handed on, and what shows that, for as long as a part of the stream lasts."""

_REPLACED: Final = (
    "This iterator has been invalidated, because another iterator has been created from the same DataLoader2, "
    "or a state was loaded into it: use the newer one, or make a second DataLoader2 of the same graph to "
    "iterate twice at once"
)
_SHUT_DOWN: Final = (
    "this iterator's DataLoader2 has already been shut down, before the end of the epoch: "
    "leave the loop before shutdown(), or before the end of the `with` block"
)


class DataLoader2Iterator(chain[T]):
    """The elements of one epoch.

    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> it = iter(DataLoader2(IterableWrapper(range(5))))
    >>> it.limit(2)
    >>> list(it)
    [0, 1]
    >>> it.resume()
    >>> list(it)
    [2, 3]
    """

    dataloader: DataLoader2[T]
    foreign: Any = None
    """The iterator of what a service returned in place of a graph, if it did."""
    limit_threshold: int | None = None
    limit_counter: int = 0
    paused: bool = False
    _refusal: str = ""

    @classmethod
    def begin(cls, dataloader: DataLoader2[T], position: Callable[[], Position]) -> DataLoader2Iterator[T]:
        """The iterator over the session that a loader has when the first element is asked for.

        It counts and shows what comes with the session, and tells the service of the epoch's end.
        """
        iterator = cast("DataLoader2Iterator[T]", cls.from_iterable(_segments(position, dataloader.reading_service)))
        iterator.dataloader = dataloader
        return iterator

    def limit(self, num_batches: int | None) -> None:
        """Pause after ``num_batches`` more elements, and again after as many whenever it is resumed; None: never."""
        if num_batches is not None and num_batches < 0:
            raise BadArgument(
                f"limit({num_batches}): the number of elements must not be negative; None takes the limit away"
            )
        self.limit_threshold = num_batches
        self.limit_counter = 0
        self.__class__ = LookingIterator

    def pause(self) -> None:
        """End the loop over this iterator at its next element; ``resume`` goes on with that one."""
        self.paused = True
        self.__class__ = LookingIterator

    def resume(self) -> None:
        """Go on after a pause."""
        if not self.paused:
            warnings.warn("resume() has no effect: the iterator is not paused", stacklevel=2)
        self.paused = False
        self.limit_counter = 0

    def invalidate(self) -> None:
        """Make this iterator say that another one has taken its place."""
        self._refusal = _REPLACED
        self.__class__ = LookingIterator

    def shut_down(self) -> None:
        """Make this iterator say that its loader was shut down."""
        self._refusal = _SHUT_DOWN
        self.__class__ = LookingIterator

    def __getattr__(self, name: str) -> Any:
        # What a service returned in place of a graph may have methods of its own.
        if name.startswith("_") or self.foreign is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.foreign, name)


class LookingIterator(DataLoader2Iterator[T]):
    """An iterator that looks before each element whether to hand it on, and counts."""

    def __next__(self) -> T:
        if self._refusal:
            service = self.dataloader.reading_service
            if service is not None and self._refusal is _REPLACED:
                service.finalize_iteration()
            raise RuntimeError(self._refusal)
        if self.paused:
            raise StopIteration
        if self.limit_threshold is not None and self.limit_counter >= self.limit_threshold:
            self.paused = True
            self.limit_counter = 0
            raise StopIteration
        element = super().__next__()
        self.limit_counter += 1
        return element


def _segments(position: Callable[[], Position], service: ReadingServiceInterface | None) -> Iterator[Iterator[Any]]:
    """The stream, a part at a time: each ends with an exception, or at the end of the epoch."""
    along: list[Position] = []

    def part_of(shown: ExitStack) -> Iterator[Any] | None:
        shown.close()
        if not along:
            along.append(position())
        session, given, progress = along[0]
        if not session.ended:
            shown.enter_context(progress)
            return given.counting(segment(session, passes_over=True))
        session.close()
        if service is not None:
            service.finalize_iteration()
        return None

    return unbroken(part_of, ExitStack())
