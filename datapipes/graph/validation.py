"""Decorators of users' classes: refusal of pipes whose order can vary, and checks of declared types.

The constructor of a pipe that is marked ``non_deterministic`` raises an error while a guard is in force: from the
moment that the guard is made, or within a ``with`` block. The checks of types cover pipes as arguments and elements
that a class yields. They cost time for each element and are meant for tests. A type checker finds most such errors
before.
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
    ClassVar,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)

from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data import MapDataPipe as TorchMapDataPipe

from datapipes.description.pipe import IterDataPipe, MapDataPipe
from datapipes.description.structure import is_pipe_class
from datapipes.errors import BadArgumentType, WrongElement

C = TypeVar("C", bound="type[IterDataPipe[Any]]")

_KIN: tuple[tuple[type, type], ...] = ((IterDataPipe, TorchIterDataPipe), (MapDataPipe, TorchMapDataPipe))
"""Our base classes and torch's, which are interchangeable in annotations."""

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class ProgramSwitch:
    """A program-wide switch, on from the moment that it is made, or within a ``with`` block."""

    in_force: ClassVar[bool] = False

    def __init__(self) -> None:
        self._before = self.in_force
        type(self).in_force = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        type(self).in_force = self._before


class guaranteed_datapipes_determinism(ProgramSwitch):
    """A guard: while it is in force, making a pipe that is marked ``non_deterministic`` is an error.

    >>> @non_deterministic
    ... class Arrivals(IterDataPipe[int]):
    ...     def __iter__(self):
    ...         yield 1
    >>> with guaranteed_datapipes_determinism():
    ...     Arrivals()
    Traceback (most recent call last):
        ...
    datapipes.errors.BadArgumentType: datapipes.graph.validation.Arrivals is non-deterministic, and ...
    """


@overload
def non_deterministic(marked: C) -> C: ...


@overload
def non_deterministic(marked: Callable[..., bool]) -> Callable[[C], C]: ...


def non_deterministic(marked: Any) -> Any:
    """Mark a class of pipes whose elements can come in a varying order. Use as a class decorator.

    Args:
        marked: The class. Or a function of the constructor's arguments that returns True if the order can vary with
            them, and False otherwise; the result is then the decorator.
    """
    if isinstance(marked, type):
        return _marked(marked, lambda *args, **kwargs: True)
    if not callable(marked):
        raise BadArgumentType(
            f"non_deterministic takes a class of pipes, or a function of its arguments; got {marked!r:.80}"
        )
    return lambda cls: _marked(cls, marked)


def _marked(cls: Any, varies: Callable[..., Any]) -> Any:
    if not (isinstance(cls, type) and issubclass(cls, IterDataPipe)):
        raise BadArgumentType(f"only an IterDataPipe can be marked non_deterministic, got {cls!r:.80}")
    build = cls.__init__

    @functools.wraps(build)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        if guaranteed_datapipes_determinism.in_force:
            answer = varies(*args, **kwargs)
            if not isinstance(answer, bool):
                raise BadArgumentType(f"the function given to non_deterministic must return a bool, got {answer!r:.80}")
            if answer:
                name = f"{cls.__module__}.{cls.__qualname__}"
                raise BadArgumentType(f"{name} is non-deterministic, and the program has guaranteed determinism")
        build(self, *args, **kwargs)

    cls.__init__ = checked  # type: ignore[method-assign, misc, unused-ignore]  # the class stays a class: it can be subclassed and pickled
    return cls


def argument_validation(f: Callable[P, R]) -> Callable[P, R]:
    """Check that arguments that are annotated as pipes are pipes, whenever ``f``, usually a constructor, is called.

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
    def pipes() -> dict[str, type]:  # evaluated at the first call, when all names in the annotations are known
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


class runtime_validation_disabled(ProgramSwitch):
    """A guard: while it is in force, ``runtime_validation`` checks nothing."""


def runtime_validation(f: F) -> F:
    """Check each element that an ``__iter__`` yields against the type that its class declares.

    The type is the ``int`` of ``IterDataPipe[int]``, or of ``-> Iterator[int]`` if the class declares none.

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
    """Return the type of the elements, from the base class or from the return annotation of ``__iter__``."""
    for owner in cls.__mro__:
        for base in vars(owner).get("__orig_bases__", ()):
            if is_pipe_class(get_origin(base) or object) and not isinstance(get_args(base)[0], TypeVar):
                return get_args(base)[0]
    return next(iter(get_args(get_type_hints(f).get("return"))), Any)


def is_of(value: object, hint: Any) -> bool:
    """Return whether a value fits a type hint, including the contents of tuples, unions and collections.

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
    if kind is Any or not isinstance(kind, type):  # a type variable, or a hint for type checkers only
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
