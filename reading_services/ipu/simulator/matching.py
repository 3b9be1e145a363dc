"""Match values against those that a model was compiled with: same tensors, same nesting, same numbers beside them.

A template is a value whose tensors are empty ones without memory: it says what each later value has to look like.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from torch import Tensor

from reading_services.ipu.names.custom_types import parser_of, rebuilt, tensors_of
from reading_services.ipu.names.errors import Error

ADVICE = (
    "a compiled model takes what it was compiled with and nothing else: make a new wrapper for the model, or call "
    "destroy() on this one, which then compiles again"
)


def template_of(value: Any) -> Any:
    """The value with its tensors replaced by empty ones of the same shape and type."""
    return rebuilt(value, [tensor.detach().to("meta") for tensor in tensors_of(value)])


def named(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors in a value, each with the words that lead to it.

    >>> import torch
    >>> [name for name, _ in named({"mask": (torch.ones(1), torch.ones(2))}, "x")]
    ["x['mask'][0]", "x['mask'][1]"]
    """
    if isinstance(value, Tensor):
        yield name, value
    for inner, each in _parts(value, name) or ():
        yield from named(each, inner)


def matched(template: Any, value: Any, name: str) -> Iterator[Tensor]:
    """The tensors of a value in the template's order; whatever differs from the template is an error."""
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
    """Whether one parser takes both apart; what it makes may be of a base class of the user's."""
    parser = parser_of(type(template))
    return parser is not None and parser_of(type(value)) is parser


def same_keys(template: Collection[Any], value: Collection[Any], name: str) -> None:
    """Raise if two collections of keys differ; the order of the keys does not matter."""
    missing = [key for key in template if key not in value]
    unexpected = [key for key in value if key not in template]
    parts: list[tuple[str, list[Any]]] = [("Missing arguments", missing), ("Unexpected arguments", unexpected)]
    said = " ".join(f"{what}: {', '.join(map(str, keys))}." for what, keys in parts if keys)
    if said:
        raise Error(f"Keys mismatch for {name}. {said} Remember that {ADVICE}")


def differs(what: str, expected: Any, got: Any) -> Error:
    """The error for something that is not as it was when the model was compiled."""
    return Error(f"{what}: expected {expected} but got {got}; {ADVICE}")


def _same(what: str, name: str, expected: Any, got: Any) -> None:
    if expected != got:
        raise differs(f"{what} for {name}", expected, got)


def _parts(value: Any, name: str) -> list[tuple[str, Any]] | None:
    """The values that a value is made of, each with its name; None for one that is not made of others."""
    parser = None if isinstance(value, Tensor) else parser_of(type(value))
    if parser is not None:
        return [(f"{name}.{number}", each) for number, each in enumerate(parser.yieldTensors(value))]
    if isinstance(value, Mapping):
        return [(f"{name}[{key!r}]", each) for key, each in value.items()]
    if isinstance(value, tuple | list):
        return [(f"{name}[{number}]", each) for number, each in enumerate(value)]
    return None
