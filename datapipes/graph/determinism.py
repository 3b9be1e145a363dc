"""Mark pipes whose order can vary from run to run, and refuse them where a program relies on order.

The guard is the program's: it holds from the moment it is made, or for the length of a ``with`` block. A pipe is asked
when it is built.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar, overload

from datapipes.description.pipe import IterDataPipe
from datapipes.errors import BadArgumentType

C = TypeVar("C", bound="type[IterDataPipe[Any]]")


class InForce:
    """A program-wide switch, in force from when it is made, or for the length of a ``with`` block."""

    in_force: ClassVar[bool] = False

    def __init__(self) -> None:
        self._before = self.in_force
        type(self).in_force = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        type(self).in_force = self._before


class guaranteed_datapipes_determinism(InForce):
    """While this holds, building a pipe that is marked ``non_deterministic`` is an error.

    >>> @non_deterministic
    ... class Arrivals(IterDataPipe[int]):
    ...     def __iter__(self):
    ...         yield 1
    >>> with guaranteed_datapipes_determinism():
    ...     Arrivals()
    Traceback (most recent call last):
        ...
    datapipes.errors.BadArgumentType: datapipes.graph.determinism.Arrivals is non-deterministic, and ...
    """


@overload
def non_deterministic(marked: C) -> C: ...
@overload
def non_deterministic(marked: Callable[..., bool]) -> Callable[[C], C]: ...


def non_deterministic(marked: Any) -> Any:
    """Class decorator: the order of this pipe's elements can vary; or, given a function, it can for some arguments.

    Args:
        marked: The class; or a function that is called with the constructor's arguments, and says with True that the
            order can vary, otherwise with False.
    """
    if isinstance(marked, type):
        return _marked(marked, lambda *args, **kwargs: True)
    if not callable(marked):
        raise BadArgumentType(
            f"non_deterministic marks a class of pipes, or takes a function of its arguments; got {marked!r:.80}"
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
