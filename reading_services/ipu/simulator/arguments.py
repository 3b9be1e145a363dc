"""The arguments of a call: compared with ``forward``'s signature, and with those that the model was compiled with.

A later call has tensors of the same shapes and types, the same nesting, and the same other values. A template is a
value whose tensors are empty ones without memory. It describes all later values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from datapipes.errors import BadArgument
from reading_services.ipu.names.custom_types import parser_of, rebuilt, tensors_of
from reading_services.ipu.names.errors import Error

ADVICE = (
    "a compiled model only takes arguments like those that it was compiled with: make a new wrapper for the model, or "
    "call destroy() on this one, which then compiles again"
)


def template_of(value: Any) -> Any:
    """Return the value with its tensors replaced by empty ones of the same shape and type."""
    return rebuilt(value, [tensor.detach().to("meta") for tensor in tensors_of(value)])


def named(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in a value, each with the expression that leads to it.

    >>> import torch
    >>> [name for name, _ in named({"mask": (torch.ones(1), torch.ones(2))}, "x")]
    ["x['mask'][0]", "x['mask'][1]"]
    """
    if isinstance(value, Tensor):
        yield name, value
    for inner, each in _parts(value, name) or ():
        yield from named(each, inner)


def matched(template: Any, value: Any, name: str) -> Iterator[Tensor]:
    """Yield the tensors of a value in the template's order. Raise Error if it differs from the template."""
    if isinstance(template, Tensor) and isinstance(value, Tensor):
        _same("Shape mismatch", name, template.shape, value.shape)
        _same("Data type mismatch", name, template.dtype, value.dtype)
        yield value
        return
    if type(template) is not type(value) and not _parsed_alike(template, value):
        raise differs(f"Type mismatch for {name}", type(template), type(value))
    if isinstance(template, Mapping) and parser_of(type(template)) is None:
        same_keys(template, value, name)
        value = {key: value[key] for key in template}
    wanted, given = _parts(template, name), _parts(value, name)
    if wanted is None or given is None:
        if template is not value:
            _same("Value mismatch", name, template, value)
        return
    _same("Length mismatch", name, len(wanted), len(given))
    for (inner, one), (_, other) in zip(wanted, given, strict=True):
        yield from matched(one, other, inner)


def _parsed_alike(template: Any, value: Any) -> bool:
    """Return whether one parser handles both. The parser may make objects of a base class of the user's."""
    parser = parser_of(type(template))
    return parser is not None and parser_of(type(value)) is parser


def same_keys(template: Collection[Any], value: Collection[Any], name: str) -> None:
    """Raise Error if two collections of keys differ. The order of the keys does not matter."""
    missing = [key for key in template if key not in value]
    unexpected = [key for key in value if key not in template]
    parts: list[tuple[str, list[Any]]] = [("Missing arguments", missing), ("Unexpected arguments", unexpected)]
    said = " ".join(f"{what}: {', '.join(map(str, keys))}." for what, keys in parts if keys)
    if said:
        raise Error(f"Keys mismatch for {name}. {said} Remember that {ADVICE}")


def differs(what: str, expected: Any, got: Any) -> Error:
    """Return the error for an argument that differs from the time when the model was compiled."""
    return Error(f"{what}: expected {expected} but got {got}; {ADVICE}")


def _same(what: str, name: str, expected: Any, got: Any) -> None:
    if expected != got:
        raise differs(f"{what} for {name}", expected, got)


def _parts(value: Any, name: str) -> list[tuple[str, Any]] | None:
    """Return the parts of a value, each with its name. Return None for a value without parts."""
    parser = None if isinstance(value, Tensor) else parser_of(type(value))
    if parser is not None:
        return [(f"{name}.{number}", each) for number, each in enumerate(parser.yieldTensors(value))]
    if isinstance(value, Mapping):
        return [(f"{name}[{key!r}]", each) for key, each in value.items()]
    if isinstance(value, tuple | list):
        return [(f"{name}[{number}]", each) for number, each in enumerate(value)]
    return None


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Arguments:
    """Arguments that a model was compiled with: those of ``forward`` with defaults, without their data.

    So an argument may be given by position or by name, or left out if its default has the same value.
    """

    signature: inspect.Signature
    names: tuple[str, ...]
    """Names of the positional arguments."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    given: tuple[int, tuple[str, ...]]
    """The number of arguments given by position, and the names of the others."""

    @classmethod
    def of(cls, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Check that ``forward`` can be called with these arguments, and return those of the first call."""
        signature = inspect.signature(forward)
        whole = bound(signature, args, kwargs)
        names = [name for name, each in signature.parameters.items() if each.kind in _POSITIONAL]
        names += [f"{_rest(signature)}[{number}]" for number in range(len(whole.args) - len(names))]
        given = len(args), tuple(kwargs)
        return cls(signature, tuple(names), template_of(whole.args), template_of(whole.kwargs), given)

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """Return the tensors of a later call, in order. Raise Error if it differs from the first one in another way."""
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

    def growth(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Return by how many times the rows of all tensors have grown. Return 1 if the call differs in another way."""
        try:
            whole = bound(self.signature, args, kwargs)
        except Error:
            return 1
        compiled, given = ([*tensors_of(each)] for each in ((self.args, self.kwargs), (whole.args, whole.kwargs)))
        if len(compiled) != len(given) or not all(each.dim() for each in (*compiled, *given)):
            return 1
        factors = {divmod(more.shape[0], fewer.shape[0]) for fewer, more in zip(compiled, given, strict=True)}
        if len(factors) != 1 or (factor := factors.pop())[1]:
            return 1
        times = max(1, int(factor[0]))
        grown = [each.new_empty((each.shape[0] * times, *each.shape[1:])) for each in compiled]
        wanted_args, wanted_kwargs = rebuilt((self.args, self.kwargs), grown)
        try:
            replace(self, args=wanted_args, kwargs=wanted_kwargs).tensors(args, kwargs)
        except Error:
            return 1
        return times

    def named(self) -> list[tuple[str, Tensor]]:
        """Return the tensors, without their data, by their names."""
        pairs = [*zip(self.names, self.args, strict=True), *self.kwargs.items()]
        return [found for name, value in pairs for found in named(value, name)]

    def filled(self, tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call of ``forward`` with these tensors."""
        count = len(list(tensors_of(self.args)))
        return rebuilt(self.args, tensors[:count]), rebuilt(self.kwargs, tensors[count:])


def bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
    """Return all arguments of a call, with defaults. Raise if ``forward`` cannot be called with them.

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
            raise BadArgument(f"forward got {name} twice: by position and by name")
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
    """Return the name of ``*args`` in a signature, or None."""
    every = signature.parameters.items()
    return next((name for name, each in every if each.kind is inspect.Parameter.VAR_POSITIONAL), None)
