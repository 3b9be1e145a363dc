"""The arguments of a call: matched to ``forward``'s signature, and to those that the model was compiled with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from datapipes.errors import BadArgument
from reading_services.ipu.names.custom_types import rebuilt, tensors_of
from reading_services.ipu.names.errors import Error
from reading_services.ipu.simulator.matching import differs, matched, named, same_keys, template_of

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Arguments:
    """Arguments that a model was compiled with: all of ``forward`` without their data, defaults among them.

    So it is one call whether an argument is given by its place or its name, or left out where it has that very value.
    """

    signature: inspect.Signature
    names: tuple[str, ...]
    """Of the positional arguments."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    given: tuple[int, tuple[str, ...]]
    """How many were given by their places, and the names of the others."""

    @classmethod
    def of(cls, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Arguments of a first call, after looking whether ``forward`` can be called so."""
        signature = inspect.signature(forward)
        whole = bound(signature, args, kwargs)
        names = [name for name, each in signature.parameters.items() if each.kind in _POSITIONAL]
        names += [f"{_rest(signature)}[{number}]" for number in range(len(whole.args) - len(names))]
        given = len(args), tuple(kwargs)
        return cls(signature, tuple(names), template_of(whole.args), template_of(whole.kwargs), given)

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """The tensors of a later call, in order; an error if it differs from the first one in anything else."""
        whole = bound(self.signature, args, kwargs)
        try:
            return self._matched(whole)
        except Error as error:
            differing = error
        if len(args) != self.given[0]:
            raise differs("Number of positional arguments mismatch", self.given[0], len(args))
        same_keys(self.given[1], kwargs, "keyword arguments")
        raise differing

    def _matched(self, whole: inspect.BoundArguments) -> list[Tensor]:
        same_keys(self.kwargs, whole.kwargs, "keyword arguments")
        if len(whole.args) != len(self.args):
            raise differs("Number of positional arguments mismatch", len(self.args), len(whole.args))
        found = [tensor for each in zip(self.args, whole.args, self.names, strict=True) for tensor in matched(*each)]
        return found + [t for name, each in self.kwargs.items() for t in matched(each, whole.kwargs[name], name)]

    def named(self) -> list[tuple[str, Tensor]]:
        """The tensors, without their data, by their names."""
        pairs = [*zip(self.names, self.args, strict=True), *self.kwargs.items()]
        return [found for name, value in pairs for found in named(value, name)]

    def filled(self, tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call of ``forward`` with these tensors."""
        count = len(list(tensors_of(self.args)))
        return rebuilt(self.args, tensors[:count]), rebuilt(self.kwargs, tensors[count:])


def bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
    """All arguments of a call, defaults included; an error if ``forward`` cannot be called so.

    >>> bound(inspect.signature(lambda x, y=None, *, z=3: x), (1,), {"y": 2})
    <BoundArguments (x=1, y=2, z=3)>
    """
    parameters = signature.parameters
    places = [name for name, each in parameters.items() if each.kind in _POSITIONAL]
    kinds = [each.kind for each in parameters.values()]
    if len(args) > len(places) and _rest(signature) is None:
        raise BadArgument(f"Too many arguments provided: forward takes {places}, which is fewer than {len(args)}")
    given = places[: len(args)]
    for name in kwargs:
        if name in given:
            raise BadArgument(f"forward was given {name} twice: by its place and by its name")
        takes_it = name in parameters and parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY
        if not takes_it and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise BadArgument(f"forward has no parameter {name}: its parameters are {list(parameters)}")
    for name, each in parameters.items():
        mandatory = each.default is each.empty and each.kind in (*_POSITIONAL, inspect.Parameter.KEYWORD_ONLY)
        if mandatory and name not in given and name not in kwargs:
            raise Error(f"Mandatory parameter {name} missing: forward has no default for it")
    whole = signature.bind(*args, **kwargs)
    whole.apply_defaults()
    return whole


def _rest(signature: inspect.Signature) -> str | None:
    """The name of ``*args`` in a signature, if it has it."""
    every = signature.parameters.items()
    return next((name for name, each in every if each.kind is inspect.Parameter.VAR_POSITIONAL), None)
