"""Chain methods made of operators, so that signature, docstring and example stand only once, at the operator.

``header = chained(operators.Header)`` makes ``pipe.header(3)`` the same as ``Header(pipe, 3)``. To a type checker
``operators.Header`` is the operator's class. At run time it is a function that imports the class. It is called when the
method is first used or inspected, because the operator's class is itself a subclass of the class with the method.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property, update_wrapper
from importlib import import_module
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from datapipes.fluent.called import explaining

P = ParamSpec("P")
Source = TypeVar("Source")
R = TypeVar("R")
M = TypeVar("M", bound=Callable[..., Any])


def chained(operator: Callable[Concatenate[Source, P], R]) -> Callable[Concatenate[Source, P], R]:
    """Return a chain method that makes ``operator`` of the pipe that it is called on.

    >>> from datapipes.iter import IterableWrapper
    >>> import inspect
    >>> print(inspect.signature(IterableWrapper("abc").repeat))
    (times: 'int') -> 'Repeater'
    """
    return cast("Callable[Concatenate[Source, P], R]", _Chained(operator))


def overloaded(operator: Callable[..., Any]) -> Callable[[M], M]:
    """Decorate the last overload of a chain method, for an operator whose own signature is less precise."""
    return cast("Callable[[M], M]", lambda stub: _Chained(operator))


def operators_of(methods: type) -> dict[str, Callable[..., Any]]:
    """Return the operators by the names of their chain methods, sorted."""
    return {name: made.operator for name, made in sorted(vars(methods).items()) if isinstance(made, _Chained)}


class _Chained:
    """Descriptor of a chain method: a pipe gets the method with the operator's docstring, and a class a short form."""

    def __init__(self, operator: Any) -> None:
        self._import: Callable[[], Callable[..., Any]] = operator

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.qualname = name, f"{owner.__qualname__}.{name}"

    def __get__(self, pipe: Any, kind: type | None = None) -> Any:
        return self._of_class if pipe is None else self.method.__get__(pipe)

    @cached_property
    def operator(self) -> Any:
        """The operator's class, or its function."""
        return self._import()

    @property
    def __wrapped__(self) -> Any:
        return self.operator

    @cached_property
    def method(self) -> Any:
        """The function that makes the operator from its first argument."""
        method: Any = explaining(self.operator, self.name)
        # The operator's own module would make doctest run the operator's example twice.
        method.__module__, method.__qualname__, method.__doc__ = __package__, self.qualname, self.operator.__doc__
        method.__wrapped__ = self
        return method

    @cached_property
    def _of_class(self) -> _OfClass:
        return _OfClass(self)

    @cached_property
    def __signature__(self) -> Signature:
        signature = inspect.signature(self.operator)
        parameters = list(signature.parameters.values())
        if parameters[0].kind is not Parameter.VAR_POSITIONAL:  # *datapipes stays: the pipe is only its first value
            parameters.pop(0)
        returned = signature.return_annotation
        if inspect.isclass(getattr(self.operator, "__wrapped__", self.operator)):  # a class, not a function
            returned = self.operator.__name__
        return Signature([Parameter("self", Parameter.POSITIONAL_ONLY), *parameters], return_annotation=returned)


class _OfClass:
    """A chain method as ``help`` lists it for a class. It is no function: ``help`` shows these with all their text."""

    def __init__(self, chained: _Chained) -> None:
        update_wrapper(self, chained.method, ("__module__", "__name__", "__qualname__"))
        self.__origin__ = chained.operator  # ``help`` of this object shows its origin
        first_line = (chained.operator.__doc__ or "").partition("\n")[0]
        summary = f"{chained.operator.__name__}: {first_line}"
        room = _LINE - len(chained.name)
        self._text = f"<{summary if len(summary) <= room else f'{summary[: room - 3]}...'}>"

    def __call__(self, pipe: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(pipe, *args, **kwargs)  # type: ignore[attr-defined]  # update_wrapper sets it

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined,no-any-return]  # update_wrapper sets it

    def __repr__(self) -> str:
        return self._text


_LINE = 62  # characters that ``help`` shows of a name and its value


if TYPE_CHECKING:
    from datapipes import iter as operators
    from datapipes import map as map_operators
else:

    class _Operators:
        """The operators of a package by name, each as a function that imports it."""

        def __init__(self, package):
            self._package = package

        def __getattr__(self, name):
            return lambda: getattr(import_module(self._package), name)

    operators, map_operators = _Operators("datapipes.iter"), _Operators("datapipes.map")

__all__ = ["chained", "map_operators", "operators", "operators_of", "overloaded"]
