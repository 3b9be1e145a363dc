"""Decorators that check the types a user's class declares: of the pipes it is given, and of the elements it yields.

They cost a check for each element, and are for tests and for code that is handed to others; a type checker finds most
of this beforehand.
"""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data import MapDataPipe as TorchMapDataPipe

from datapipes.description.pipe import IterDataPipe, MapDataPipe
from datapipes.description.structure import is_pipe_class
from datapipes.errors import BadArgumentType, WrongElement
from datapipes.graph.determinism import InForce

_KIN: tuple[tuple[type, type], ...] = ((IterDataPipe, TorchIterDataPipe), (MapDataPipe, TorchMapDataPipe))
"""Ours and torch's base classes, which stand for each other in annotations."""

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


def argument_validation(f: Callable[P, R]) -> Callable[P, R]:
    """Check that arguments annotated as pipes are pipes, when ``f``, a constructor as a rule, is called.

    >>> from datapipes.iter import IterDataPipe
    >>> @argument_validation
    ... def first(source: IterDataPipe[int]) -> int:
    ...     return next(iter(source))
    >>> first([1, 2])
    Traceback (most recent call last):
        ...
    datapipes.errors.BadArgumentType: first(): Expected argument 'source' as a IterDataPipe, but found list: [1, 2]
    """
    signature = inspect.signature(f)

    @functools.cache
    def pipes() -> dict[str, type]:  # asked at the first call, when all names in the annotations are known
        classes = {name: get_origin(hint) or hint for name, hint in get_type_hints(f).items()}
        return {name: cls for name, cls in classes.items() if isinstance(cls, type) and is_pipe_class(cls)}

    def fits(value: object, cls: type) -> bool:
        return isinstance(value, next((kin for kin in _KIN if cls in kin), cls))

    @functools.wraps(f)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs).arguments
        for name, cls in pipes().items():
            if name in given and not fits(given[name], cls):
                found = given[name]
                raise BadArgumentType(
                    f"{f.__qualname__}(): Expected argument {name!r} as a {cls.__name__}, "
                    f"but found {type(found).__name__}: {found!r:.80}"
                )
        return f(*args, **kwargs)

    return checked


class runtime_validation_disabled(InForce):
    """While this holds, ``runtime_validation`` checks nothing: from when it is made, or for a ``with`` block."""


def runtime_validation(f: F) -> F:
    """Check each element that an ``__iter__`` yields against the type that its class declares.

    That is the ``int`` of ``IterDataPipe[int]``, or of ``-> Iterator[int]`` where the class says nothing.

    >>> from datapipes.iter import IterDataPipe
    >>> class Numbers(IterDataPipe[int]):
    ...     @runtime_validation
    ...     def __iter__(self):
    ...         yield "1"
    >>> list(Numbers())
    Traceback (most recent call last):
        ...
    datapipes.errors.WrongElement: Numbers: Expected an instance as subtype of int, but found '1' (str)
    ...
    """
    if f.__name__ != "__iter__":
        raise BadArgumentType(
            f"Can not decorate function {f.__name__} with 'runtime_validation': it checks an __iter__"
        )

    @functools.wraps(f)
    def checked(self: Any) -> Iterator[Any]:
        if runtime_validation_disabled.in_force:
            yield from f(self)
            return
        expected = _declared(type(self), f)
        for element in f(self):
            if not is_of(element, expected):
                shown = expected.__qualname__ if isinstance(expected, type) else expected
                raise WrongElement(
                    f"{type(self).__qualname__}: Expected an instance as subtype of {shown}, "
                    f"but found {element!r:.80} ({type(element).__name__})"
                )
            yield element

    return cast("F", checked)


def _declared(cls: type, f: Callable[..., Any]) -> Any:
    """The type of the elements, as a class says by the base it is derived from, or its ``__iter__`` by its hint."""
    for owner in cls.__mro__:
        for base in vars(owner).get("__orig_bases__", ()):
            if is_pipe_class(get_origin(base) or object) and not isinstance(get_args(base)[0], TypeVar):
                return get_args(base)[0]
    return next(iter(get_args(get_type_hints(f).get("return"))), Any)


def is_of(value: object, hint: Any) -> bool:
    """Whether a value is what a type hint says, down through tuples, unions and collections.

    >>> is_of((1, ["a"]), tuple[int, list[str]]), is_of((1, [2]), tuple[int, list[str] | None])
    (True, False)
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is None:
        return value is None
    if origin in (Union, UnionType):
        return any(is_of(value, one) for one in arguments)
    if origin is Literal:
        return value in arguments
    if origin is Annotated:
        return is_of(value, arguments[0])
    if is_typeddict(hint):
        return isinstance(value, dict)
    kind = origin or hint
    if kind is Any or not isinstance(kind, type):  # a variable, or what only a type checker can tell
        return True
    if not isinstance(value, (int, float) if kind is float else kind):
        return False
    if isinstance(value, tuple) and arguments and kind is tuple:
        if arguments[-1] is not Ellipsis:
            return len(value) == len(arguments) and all(map(is_of, value, arguments))
        arguments = arguments[:1]
    if isinstance(value, Mapping) and len(arguments) == 2:
        return all(is_of(key, arguments[0]) and is_of(item, arguments[1]) for key, item in value.items())
    if isinstance(value, tuple | list | set | frozenset | deque) and len(arguments) == 1:
        return all(is_of(item, arguments[0]) for item in value)
    return True
