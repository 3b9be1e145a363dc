"""Checks of arguments that several operators share. They run when the graph is built, and show the call."""

from __future__ import annotations

from collections.abc import Sized
from contextvars import ContextVar
from typing import Any, cast

from datapipes.describe import stage
from datapipes.errors import BadArgument, BadArgumentType
from datapipes.on_error import may_leave_out
from datapipes.structure import Pipe, parents


def needs_callable(method: str, fn: object) -> None:
    """Refuse what cannot be called."""
    if not callable(fn):
        raise BadArgumentType(f"A callable function is expected by {method}(), got {type(fn).__name__}: {fn!r:.60}")


def needs(condition: bool, pipe: Pipe, reason: str) -> None:
    """Refuse an argument of a pipe whose attributes are already set; the message shows the call."""
    if not condition:
        raise BadArgument(f"{reason}, in {stage(pipe)}")


_known: ContextVar[dict[int, int] | None] = ContextVar("lengths", default=None)


def length_of(pipe: object) -> int:
    """``len`` of a parent; TypeError if it has none. In one question each stage is asked once, whatever the paths."""
    known = _known.get()
    if known is None:
        token = _known.set({})
        try:
            return length_of(pipe)
        finally:
            _known.reset(token)
    if id(pipe) not in known:
        known[id(pipe)] = len(cast("Sized", pipe))
    return known[id(pipe)]


def same_length(pipe: Any) -> int:
    """The ``__len__`` of stages that give as many elements as their source; a chain of them is one step.

    TypeError, naming the stage, if it is not known.
    """
    source = pipe
    while getattr(type(source), "__len__", None) is same_length:
        if may_leave_out(source):
            raise no_length(pipe)
        source = parents(source)[0]
    return source_length(pipe, source)


def given_length(pipe: Any) -> int:
    """The ``__len__`` of stages that are told theirs as ``length``, which is -1 if nobody knows it."""
    if pipe.length == -1:
        raise no_length(pipe)
    return int(pipe.length)


def source_length(pipe: Pipe, source: object) -> int:
    """``len`` of a stage's source; TypeError, naming the stage, if it is not known."""
    try:
        return length_of(source)
    except (TypeError, RecursionError):
        raise no_length(pipe) from None


def no_length(pipe: Pipe) -> TypeError:
    """The error of a stage whose length cannot be known beforehand."""
    return TypeError(f"{type(pipe).__name__} instance doesn't have valid length: {stage(pipe)}")
