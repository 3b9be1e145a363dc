"""The arguments of a call: matched to ``forward``'s signature, and to those that the model was compiled with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from datapipes.errors import BadArgument
from reading_services.ipu.custom_types import rebuilt, tensors_of
from reading_services.ipu.device.matching import differs, matched, named, same_keys, template_of
from reading_services.ipu.errors import Error

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Arguments:
    """What a model was compiled with: its arguments without their data, and the names of the positional ones."""

    names: tuple[str, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @classmethod
    def of(cls, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Those of a first call, after looking whether ``forward`` can be called so."""
        names = bound(forward, args, kwargs)
        return cls(names, template_of(args), template_of(kwargs))

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """The tensors of a later call, in order; an error if it differs from the first one in anything else."""
        if len(args) != len(self.args):
            raise differs("Number of positional arguments mismatch", len(self.args), len(args))
        same_keys(self.kwargs, kwargs, "keyword arguments")
        found = [tensor for each in zip(self.args, args, self.names, strict=True) for tensor in matched(*each)]
        return found + [tensor for name, each in self.kwargs.items() for tensor in matched(each, kwargs[name], name)]

    def named(self) -> list[tuple[str, Tensor]]:
        """The tensors, without their data, by their names."""
        pairs = [*zip(self.names, self.args, strict=True), *self.kwargs.items()]
        return [found for name, value in pairs for found in named(value, name)]

    def filled(self, tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call of ``forward`` with these tensors."""
        count = len(list(tensors_of(self.args)))
        return rebuilt(self.args, tensors[:count]), rebuilt(self.kwargs, tensors[count:])


def bound(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """The names of the positional arguments; an error if ``forward`` cannot be called so.

    >>> bound(lambda x, y=None: x, (1,), {"y": 2})
    ('x',)
    """
    parameters = inspect.signature(forward).parameters
    places = [name for name, each in parameters.items() if each.kind in _POSITIONAL]
    kinds = [each.kind for each in parameters.values()]
    rest = next((n for n, each in parameters.items() if each.kind is inspect.Parameter.VAR_POSITIONAL), None)
    if len(args) > len(places) and rest is None:
        raise BadArgument(f"Too many arguments provided: forward takes {places}, which is fewer than {len(args)}")
    given = tuple(places[: len(args)])
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
    return given + tuple(f"{rest}[{number}]" for number in range(len(args) - len(given)))
