"""The iterator of a loader: an iterator of pipes whose position belongs to the loader.

An iterator keeps its loader alive, so that ``for x in DataLoader2(...)`` reaches the end. The loader keeps the position
after a ``break`` has dropped the iterator. If a newer iterator has replaced an iterator, or if the loader was shut down
in mid-epoch, the iterator raises RuntimeError in place of an element.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from datapipes.messages.interrupts import ShortInterrupts
from datapipes.position.cells import CountCell
from datapipes.position.iterator import CheckedIterator, PipeIterator
from datapipes.position.session import Session, segment, unbroken

if TYPE_CHECKING:
    from loader2.loader import DataLoader2
    from loader2.service_run import ServiceRun

T = TypeVar("T")

Position: TypeAlias = tuple[Session, CountCell, AbstractContextManager[object]]
"""A session, the number of elements that were handed on, and the display of their progress, for ``with``."""

_REPLACED: Final = (
    "This iterator has been invalidated, because another iterator has been created from the same DataLoader2, "
    "or a state was loaded into it: use the newer one, or make a second DataLoader2 of the same graph to "
    "iterate twice at once"
)
SHUT_DOWN: Final = (
    "this iterator's DataLoader2 has already been shut down, before the end of the epoch: "
    "leave the loop before shutdown(), or before the end of the `with` block"
)


class DataLoader2Iterator(PipeIterator[T]):
    """Iterator over one epoch of a loader.

    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> it = iter(DataLoader2(IterableWrapper(range(5))))
    >>> it.limit(2)
    >>> list(it), it.step
    ([0, 1], 2)
    >>> it.resume()
    >>> list(it)
    [2, 3]
    """

    dataloader: DataLoader2[T]

    @classmethod
    def begin(cls, dataloader: DataLoader2[T]) -> DataLoader2Iterator[T]:
        """Make an iterator over the session that the loader has at the first element.

        It counts the elements, shows the progress, and tells the service that the epoch has ended.
        """
        iterator = cast("DataLoader2Iterator[T]", cls.from_iterable(_segments(dataloader)))
        iterator.dataloader = dataloader
        return iterator

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's state, as ``DataLoader2.state_dict`` does. Raise if a newer iterator has replaced it."""
        if self._refusal is not None and self._refusal is not StopIteration:
            raise self._refusal()
        return self.dataloader.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Load a state into the loader, as ``DataLoader2.load_state_dict`` does, and continue from there."""
        self.dataloader.load_state_dict(state_dict, strict)
        with ShortInterrupts():
            self.dataloader._go_on_with(self)
        self._refusal = None

    @property
    def errors(self) -> dict[str, int]:
        """Number of errors that stages with an ``on_error`` tolerated in this epoch, by the stage as it prints."""
        return self.dataloader.errors

    @property
    def step(self) -> int:
        """Number of elements of this epoch that were handed on, including those before a saved position."""
        return self.dataloader.step

    def close(self) -> None:
        """End the loop over this iterator. The loader keeps the position until its next ``iter``."""
        self.refuse(StopIteration)

    def __getattr__(self, name: str) -> Any:
        # The iterable that a service returned in place of a graph may have an iterator with methods of its own.
        if name.startswith("_") or (foreign := self.dataloader._service.foreign) is None:
            raise AttributeError(f"'DataLoader2Iterator' object has no attribute {name!r}")
        return getattr(foreign, name)


class _CheckedLoaderIterator(CheckedIterator[T], DataLoader2Iterator[T]):
    """Checked form of a loader's iterator."""


DataLoader2Iterator._checked = _CheckedLoaderIterator


def replaced(service: ServiceRun) -> RuntimeError:
    """Return the exception of an iterator that another one has replaced, and end the service's epoch."""
    service.end_epoch()
    return RuntimeError(_REPLACED)


def _segments(dataloader: DataLoader2[Any]) -> Iterator[Iterator[Any]]:
    """Yield the parts of the stream. Each ends with an exception or with the epoch."""
    along: list[Position] = []

    def next_part(shown: ExitStack) -> Iterator[Any] | None:
        shown.close()
        if not along:
            along.append(dataloader._position())
        session, given, progress = along[0]
        if not session.ended:
            shown.enter_context(progress)
            return given.counting(segment(session, passes_over=True))
        session.close()
        dataloader._service.end_epoch()
        return None

    return unbroken(next_part, ExitStack())
