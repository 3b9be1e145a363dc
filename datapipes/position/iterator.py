"""PipeIterator: an iterator over a session that can be saved, loaded, limited, paused and closed.

``PipeIterator`` inherits ``next`` from ``itertools.chain``, so an element costs no Python call. The chain runs through
*segments*, each a generator over the stream. It returns to Python only when a segment ends, at the end of the stream or
by an exception. An iterator that has a limit, is paused or has ended early becomes a ``CheckedIterator``, which checks
this before each element.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, TypeVar, cast

from datapipes.description import passes
from datapipes.description.pipe import IterDataPipe
from datapipes.description.printing import operator_calls
from datapipes.errors import BadArgument, StateError
from datapipes.position.cells import fields
from datapipes.position.plain_data import (
    CHECKSUM,
    VERSION,
    check,
    check_by_place,
    check_plain,
    check_sealed,
    is_uint64,
    sealed,
)
from datapipes.position.seeds import Run
from datapipes.position.session import Session, segment, unbroken
from datapipes.position.torch_worker import session_here

T = TypeVar("T")

_FIELDS = ("version", "seed", "epoch", "stages", "sources", "cells")
_FIELDS_OF_2 = ("buffered", "passes", CHECKSUM)


class PipeIterator(chain[T]):
    """An iterator over a graph whose position can be saved and loaded.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper(range(10)).batch(3)
    >>> it = iter(dp)
    >>> next(it), next(it)
    ([0, 1, 2], [3, 4, 5])
    >>> again = iter(dp)
    >>> again.load_state_dict(it.state_dict())
    >>> list(again)
    [[6, 7, 8], [9]]
    """

    session: Session
    limit_threshold: int | None = None
    limit_counter: int = 0
    paused: bool = False
    _refusal: Callable[[], Exception] | None = None  # makes the exception to raise in place of an element
    _checked: ClassVar[type[PipeIterator[Any]]]

    @classmethod
    def over(cls, session: Session) -> PipeIterator[T]:
        """Return the iterator over a session. It closes the session at the end, or when it is dropped."""
        closing = ExitStack()
        closing.callback(session.close)
        parts = unbroken(lambda _: _part(session), closing)
        iterator = cast("PipeIterator[T]", cls.from_iterable(parts))
        iterator.session = session
        return iterator

    def state_dict(self) -> dict[str, Any]:
        """Return the position of this iterator as plain data."""
        if self._refusal is not None:
            raise StateError(
                "the iterator was closed before its end, and its position is gone: call state_dict() first"
            )
        session = self.session
        _count(session)
        cells = None if session.ended else session.table()
        return sealed(
            {
                "version": VERSION,
                "seed": session.run.seed,
                "epoch": session.run.epoch,
                "buffered": session.run.buffered,
                "stages": session.plan.labels,
                "passes": dict(session.run.passes or {}),
                "sources": {} if cells is None else session.plan.sources.now(),
                "cells": cells,
            }
        )

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Continue from the position of another iterator over the same graph. Call it before the first element.

        Loading runs no code. If the elements of a source have changed since the state was saved, StateError is raised.
        With ``strict=False`` the saved counts are applied to the new elements.
        """
        is_old = isinstance(state_dict, dict) and set(_FIELDS_OF_2).isdisjoint(state_dict)
        newer = () if is_old else _FIELDS_OF_2
        version, seed, epoch, stages, sources, cells, *rest = fields(state_dict, *_FIELDS, *newer)
        check(type(version) is int and version == (1 if is_old else VERSION), "version", f"1 or {VERSION}", version)
        for name, number in (("seed", seed), ("epoch", epoch)):
            check(is_uint64(number), name, "an unsigned 64-bit number", number)
        buffered, counted = rest[:2] if rest else (True, {})
        check(type(buffered) is bool, "buffered", "True or False", buffered)
        for name, value in (("stages", stages), ("passes", counted), ("sources", sources), ("cells", cells)):
            check_plain(value, name)
        check_by_place(counted, "passes")
        check(all(map(is_uint64, counted.values())), "passes", "numbers of passes by place", counted)
        check_by_place(sources, "sources")
        if cells is not None:
            check_by_place(cells, "cells")
        check_sealed(state_dict)
        here = self.session.plan.labels
        if here != tuple(names(stages)):
            raise StateError(difference(here, names(stages)))
        if strict:
            self.session.plan.sources.must_be(sources)
        run = replace(self.session.run, seed=seed, epoch=epoch, number=epoch, passes=counted, buffered=buffered)
        self.session.go_to(run, cells)
        passes.go_on(self.session.plan.graph, counted)

    @property
    def errors(self) -> dict[str, int]:
        """Counts of errors that stages with an ``on_error`` have tolerated since the start, by the stage as it prints.

        >>> from datapipes.iter import IterableWrapper
        >>> it = iter(IterableWrapper(["1", "2"]).map(int, on_error="skip"))
        >>> list(it), it.errors
        ([1, 2], {})
        """
        return self.session.errors()

    def limit(self, num_batches: int | None) -> None:
        """Pause after ``num_batches`` more elements, and again after each ``resume``. None removes the limit."""
        if num_batches is not None and num_batches < 0:
            raise BadArgument(
                f"limit({num_batches}): the number of elements must not be negative; None removes the limit"
            )
        self.limit_threshold = num_batches
        self.limit_counter = 0
        self.__class__ = self._checked

    def pause(self) -> None:
        """End the loop over this iterator at its next element. ``resume`` continues with that element."""
        self.paused = True
        self.__class__ = self._checked

    def resume(self) -> None:
        """Continue after a pause."""
        if not self.paused:
            warnings.warn("resume() has no effect: the iterator is not paused", stacklevel=2)
        self.paused = False
        self.limit_counter = 0

    def refuse(self, error: Callable[[], Exception]) -> None:
        """Raise an exception in place of each further element: the result of ``error``."""
        self._refusal = error
        self.__class__ = self._checked

    def close(self) -> None:
        """End the iteration and release its files and threads."""
        if not self.session.ended:
            self.refuse(StopIteration)
        self.session.close()


class CheckedIterator(PipeIterator[T]):
    """An iterator that checks before each element whether to hand it on, and counts."""

    def __next__(self) -> T:
        if self._refusal is not None:
            raise self._refusal()
        if self.paused:
            raise StopIteration
        if self.limit_threshold is not None and self.limit_counter >= self.limit_threshold:
            self.paused = True
            self.limit_counter = 0
            raise StopIteration
        element = super().__next__()
        self.limit_counter += 1
        return element


PipeIterator._checked = CheckedIterator


def repeatable(pipe: IterDataPipe[T], seed: int, number: int) -> PipeIterator[T]:
    """Return an iterator over a pipe that is an element or an argument of a stage. One seed gives one order.

    Args:
        pipe: The pipe. It is no stage of the graph, so a position in it can only be a count.
        seed: The seed of its stages.
        number: The number of the epoch, for stages whose seed the user has set.
    """
    return PipeIterator.over(Session.of(pipe, Run(seed, number=number)))


def _count(session: Session) -> None:
    """Count a plain iteration when its first element or its position is read."""
    if session.run.passes is None and not session.ended:
        passes.count(session.plan.graph)
        session.run = replace(session.run, passes=passes.numbers(session.plan.graph))


def _part(session: Session) -> Iterator[Any] | None:
    _count(session)
    return None if session.ended else segment(session, passes_over=True)


def names(stages: Any) -> list[str]:
    """Return the stages of a graph as a state lists them. Raise StateError if it is no list of names."""
    if not isinstance(stages, list | tuple) or not all(type(stage) is str for stage in stages):
        raise StateError(f"stages: expected a list of names, found {stages!r:.80}")
    return list(stages)


def difference(here: Sequence[str], saved: Sequence[str]) -> str:
    """Return an error text with the differences of a graph from the one that a state was saved from."""
    calls = operator_calls()

    def printed(entry: str) -> str:
        place, _, kind = entry.partition(" ")
        return f"{place} {calls.get(kind, kind)}"

    missing = [f"-{printed(entry)}" for entry in saved if entry not in here]
    added = [f"+{printed(entry)}" for entry in here if entry not in saved]
    return (
        "stages: the state was saved from another graph (place and stage; - only in the state, + only here): "
        f"{', '.join([*missing, *added][:12]) or 'the same stages in another order'}; load it into a loader of that "
        "graph, or begin an epoch of this one, without the state"
    )


def iterate(pipe: IterDataPipe[T]) -> PipeIterator[T]:
    """Open a graph at its start, as ``iter`` does, with a precise type for type checkers.

    A type checker knows only that ``iter(pipe)`` is an iterator, because a user's class may have any ``__iter__``.
    >>> from datapipes.iter import IterableWrapper
    >>> elements = iterate(IterableWrapper(range(5)).batch(2))
    >>> next(elements), sorted(elements.state_dict())
    ([0, 1], ['buffered', 'cells', 'checksum', 'epoch', 'passes', 'seed', 'sources', 'stages', 'version'])
    """
    # A session has bound the pipe to its run. Otherwise the run follows from this process (torch's worker info).
    bound: Run | None = pipe.__dict__.get("_run")
    if bound is None:
        return PipeIterator.over(session_here(pipe))
    own_iter = type(pipe).__iter__ is not IterDataPipe.__iter__
    iterator: PipeIterator[T] = PipeIterator.over(Session.of(pipe, bound, native_end=own_iter))
    if bound.iterators is not None:
        bound.iterators.add(iterator)
    return iterator
