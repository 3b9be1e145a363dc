"""Checks of arguments that several operators share. They run when the graph is built. Their errors show the call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from difflib import get_close_matches
from functools import wraps
from operator import index
from typing import Any, TypeVar, cast

from datapipes.description.printing import stage
from datapipes.description.structure import Pipe, is_pipe, is_stream, parents
from datapipes.errors import BadArgument, BadArgumentType, LengthUnknown
from datapipes.messages.short import shortened
from datapipes.position.on_error import may_leave_out

F = TypeVar("F", bound=Callable[..., Any])


def needs_callable(method: str, fn: object, *, or_none: bool = False) -> None:
    """Raise BadArgumentType for an argument that is not callable."""
    if not callable(fn) and not (or_none and fn is None):
        raise BadArgumentType(f"A callable function is expected by {method}(), got {type(fn).__name__}: {fn!r:.60}")


def needs(condition: bool, pipe: Pipe, reason: str) -> None:
    """Raise BadArgument with the call unless a condition holds. The attributes of the pipe have to be set already."""
    if not condition:
        raise BadArgument(f"{reason}, in {stage(pipe)}")


def needs_count(pipe: Pipe, name: str, least: int | None = None, reason: str = "", *, or_none: bool = False) -> None:
    """Raise an error for an argument that is not a whole number, or is below ``least``. Convert it to an int."""
    value = getattr(pipe, name)
    if value is None and or_none:
        return
    count = whole_number(name, value, pipe)
    setattr(pipe, name, count)
    needs(least is None or count >= least, pipe, reason)


def check_options(pipe: Pipe, options: Collection[str], known: Collection[str] | None = None) -> None:
    """Raise BadArgumentType for a keyword that the wrapped function does not take: it is probably misspelt.

    If the ``known`` keywords cannot be listed, as when they depend on the file system, only keywords similar to one of
    the stage's own are refused. The attributes of the stage have to be set already. They have the names of its
    parameters; one that is also a method of all pipes starts with ``_``.
    """
    own = [name.removeprefix("_") for name in vars(pipe)]
    for name in options:
        if known is not None and name in known:
            continue
        near = get_close_matches(name, [*own, *(known or ())], n=1, cutoff=0.8)
        if near or known is not None:
            remedy = f"did you mean {near[0]!r}?" if near else f"beside its own it takes {', '.join(known or ())}"
            # The value is not shown: a misspelt name does not tell whether it is a secret.
            raise BadArgumentType(f"{pipe._fluent}() got an unexpected keyword argument {name!r}; {remedy}")


def misspelt(init: Callable[..., Any], given: Mapping[str, object]) -> BadArgumentType | None:
    """Return the error for a keyword argument that a constructor does not take and that is similar to one of its own.

    Return None if there is no such argument.
    """
    if not given:
        return None
    parameters = inspect.signature(init).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    for name, value in given.items():
        if name not in parameters and (near := get_close_matches(name, parameters, n=1)):
            call = f"{init.__qualname__.removesuffix('.__init__')}({name}={shortened(value)})"
            return BadArgumentType(f"{call}: there is no argument of that name; did you mean {near[0]}=?")
    return None


def explained(why: Callable[[dict[str, object]], BadArgumentType | None]) -> Callable[[F], F]:
    """Wrap a constructor: raise the error that ``why`` returns for its keyword arguments, or that of a misspelt one."""

    def decorate(init: F) -> F:
        @wraps(init)
        def checked(self: object, *args: Any, **given: Any) -> None:
            if (wrong := why(given) or misspelt(init, given)) is not None:
                raise wrong
            init(self, *args, **given)

        return cast("F", checked)

    return decorate


def whole_number(name: str, value: Any, asking: object) -> int:
    """Return a number as an int. Raise BadArgumentType, which shows ``asking`` as the call, if it is not whole."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return index(value)
    except TypeError:
        call = asking if isinstance(asking, str) else stage(asking)
        raise BadArgumentType(
            f"{name} is a whole number, got {type(value).__name__}: {shortened(value)}, in {call}"
        ) from None


_known: ContextVar[dict[int, tuple[object, int]] | None] = ContextVar("lengths", default=None)


def length_of(pipe: object) -> int:
    """Return ``len`` of a stage. Raise LengthUnknown if it has none. One outer call asks each stage only once."""
    known = _known.get()
    if known is None:
        token = _known.set({})
        try:
            return length_of(pipe)
        finally:
            _known.reset(token)
    if id(pipe) not in known:  # a stage that was asked is kept, so that no other one can have its id
        known[id(pipe)] = pipe, _length(pipe)
    return known[id(pipe)][1]


def _length(pipe: Any) -> int:
    try:
        return len(pipe)
    except LengthUnknown:
        raise
    except TypeError:
        if not is_pipe(pipe) or hasattr(type(pipe), "__len__"):
            raise
        raise no_length(pipe) from None


def same_length(pipe: Any) -> int:
    """Return the length of the source, as the ``__len__`` of stages that give as many elements as their source.

    Raise LengthUnknown, which names the stage without a length. A chain of such stages takes one recursion step.
    """
    source = pipe
    while getattr(type(source), "__len__", None) is same_length:
        if may_leave_out(source):
            raise no_length(pipe, stage(source))
        source = parents(source)[0]
    return source_length(pipe, source)


def given_length(pipe: Any) -> int:
    """Return the parameter ``length``, as a ``__len__``. Raise LengthUnknown if it is None (or torchdata's -1)."""
    if pipe.length in (None, -1):
        raise no_length(pipe)
    return int(pipe.length)


def source_length(pipe: Pipe, source: object) -> int:
    """Return ``len`` of a stage's source. Raise LengthUnknown, which names both stages, if it is not known."""
    try:
        return length_of(source)
    except LengthUnknown as error:
        raise no_length(pipe, error.stage) from None
    except (TypeError, RecursionError):
        raise no_length(pipe, stage(source)) from None


def no_length(pipe: Pipe, because: str = "") -> LengthUnknown:
    """Return the error for a stage without a length. ``because`` is the stage above it whose length is not known."""
    own = stage(pipe)
    message = f"{type(pipe).__name__} instance doesn't have valid length: {own}"
    if because not in ("", own):
        message += f", because {because} has no known length"
    remedy = ".set_length(n) below that stage" if is_stream(pipe) else "a __len__ to its class"
    return LengthUnknown(f"{message}; if you know it, add {remedy}", because or own)
