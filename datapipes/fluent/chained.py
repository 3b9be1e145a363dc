"""Chain methods made of operators: the signature, the docstring and the example stand at the operator alone.

``header = chained(operators.Header)`` makes ``pipe.header(3)`` the same as ``Header(pipe, 3)``. To a type checker
``operators.Header`` is the operator's class. When the program runs it is a function that imports that class, and is
called when the method is first used or asked about: the class is made from the one that the method belongs to.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from datapipes.fluent.called import explaining

P = ParamSpec("P")
Source = TypeVar("Source")
R = TypeVar("R")
M = TypeVar("M", bound=Callable[..., Any])


def chained(operator: Callable[Concatenate[Source, P], R]) -> Callable[Concatenate[Source, P], R]:
    """A chain method that makes ``operator`` of the pipe that it is called on.

    >>> from datapipes.iter import IterableWrapper
    >>> import inspect
    >>> print(inspect.signature(IterableWrapper("abc").repeat))
    (times: 'int') -> 'Repeater'
    """
    return cast("Callable[Concatenate[Source, P], R]", _Chained(operator))


def overloaded(operator: Callable[..., Any]) -> Callable[[M], M]:
    """Decorator of the last of several overloads, for an operator whose own signature says less than they do."""
    return cast("Callable[[M], M]", lambda stub: _Chained(operator))


def operators_of(methods: type) -> dict[str, Callable[..., Any]]:
    """The operator of each chain method, by the method's name, sorted."""
    named = {name: getattr(methods, name) for name in sorted(vars(methods)) if not name.startswith("__")}
    # Behind an operator that is a function, and a class to who looks for it, there is the bare function.
    return {name: inspect.unwrap(m, stop=inspect.isclass) for name, m in named.items() if callable(m)}


class _Chained:
    """Descriptor: a method until it is first asked for; then what its signature is read from, if anybody asks."""

    __wrapped__: Callable[..., Any]  # the operator

    def __init__(self, operator: Any) -> None:
        self._import: Callable[[], Callable[..., Any]] = operator

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, pipe: Any, kind: type | None = None) -> Any:
        self.__wrapped__ = operator = self._import()
        method: Any = explaining(operator, self._name)
        # The package has the class as well; were its file named here, the operator's example would be tried there too.
        method.__module__, method.__qualname__ = __package__, f"{self._owner.__qualname__}.{self._name}"
        method.__doc__ = operator.__doc__
        method.__wrapped__ = self
        setattr(self._owner, self._name, method)  # from now on it is found without coming here
        return method.__get__(pipe, kind)

    @cached_property
    def __signature__(self) -> Signature:
        signature = inspect.signature(self.__wrapped__)
        parameters = list(signature.parameters.values())
        if parameters[0].kind is not Parameter.VAR_POSITIONAL:  # of which the pipe is but the first
            parameters.pop(0)
        returned = signature.return_annotation
        if inspect.isclass(getattr(self.__wrapped__, "__wrapped__", self.__wrapped__)):  # and no function called one
            returned = self.__wrapped__.__name__
        return Signature([Parameter("self", Parameter.POSITIONAL_ONLY), *parameters], return_annotation=returned)


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
