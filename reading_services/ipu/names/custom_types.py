"""Nested structures of tensors: taken apart into their tensors, and rebuilt with other tensors.

A structure is a tensor, or a tuple, list, named tuple or mapping of structures (of any class that can be copied), or an
object of a registered type, whose *parser* knows its tensors. The tensors have one fixed order, that of the structure.
Rebuilding takes the new tensors in the same order. All other leaves of a structure stay as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from copy import copy
from typing import Any

import torch

from reading_services.ipu.names.errors import Error


class ICustomArgParser(ABC):
    """Base of parsers: a parser takes objects of one type apart into tensors, and rebuilds them."""

    @abstractmethod
    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        """Yield the tensors of an object, always in the same order."""

    @abstractmethod
    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        """Return an object like ``original_structure`` with the iterator's tensors, which come in that order."""


_parsers: dict[type, ICustomArgParser] = {}


def registerCustomArgParser(custom_type: type, parser: ICustomArgParser | None) -> None:
    """Register the parser of a type, and replace an earlier one. None removes the registered parser.

    >>> class Pair:
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> class PairParser(ICustomArgParser):
    ...     def yieldTensors(self, struct):
    ...         yield from (struct.left, struct.right)
    ...     def reconstruct(self, original_structure, tensor_iterator):
    ...         return Pair(next(tensor_iterator), next(tensor_iterator))
    >>> registerCustomArgParser(Pair, PairParser())
    >>> [tensor.item() for tensor in tensors_of({"pair": Pair(torch.tensor(1), torch.tensor(2))})]
    [1, 2]
    >>> registerCustomArgParser(Pair, None)
    """
    if parser is None:
        _parsers.pop(custom_type, None)
    elif isinstance(parser, ICustomArgParser):
        _parsers[custom_type] = parser
    else:
        raise Error(f"the parser of {custom_type.__name__} must inherit from ICustomArgParser; it is {parser!r:.200}")


def registered() -> dict[type, ICustomArgParser]:
    """Return all parsers by type, for another process."""
    return dict(_parsers)


def parser_of(kind: type) -> ICustomArgParser | None:
    """Return the parser of a type: its own, else that of the first registered type that it inherits from."""
    found = _parsers.get(kind)
    return found or next((parser for base, parser in _parsers.items() if issubclass(kind, base)), None)


def leaves_of(structure: Any) -> Iterator[Any]:
    """Yield the leaves of a structure: its tensors, and all objects that are not structures."""
    parser = None if isinstance(structure, torch.Tensor) else parser_of(type(structure))
    if parser is not None:
        yield from parser.yieldTensors(structure)
    elif isinstance(structure, Mapping):
        for part in structure.values():
            yield from leaves_of(part)
    elif isinstance(structure, tuple | list) and not is_texts(structure):
        for part in structure:
            yield from leaves_of(part)
    else:
        yield structure


def is_texts(part: Any) -> bool:
    """Return whether this is a column of texts as torch's collate makes it: a list or tuple with one text a row."""
    return type(part) in (list, tuple) and bool(part) and all(isinstance(text, str | bytes) for text in part)


def tensors_of(structure: Any) -> Iterator[torch.Tensor]:
    """Return the tensors of a structure, in order.

    >>> list(tensors_of([torch.tensor(1), {"a": (torch.tensor(2),), "name": "n"}]))
    [tensor(1), tensor(2)]
    """
    return (leaf for leaf in leaves_of(structure) if isinstance(leaf, torch.Tensor))


def columns_of(structure: Any) -> Iterator[Any]:
    """Return the columns of a batch, which have one entry a row: its tensors and its lists of texts, in order."""
    return (leaf for leaf in leaves_of(structure) if isinstance(leaf, torch.Tensor) or is_texts(leaf))


def rebuilt(like: Any, tensors: Iterable[torch.Tensor]) -> Any:
    """Return a structure like ``like`` with other tensors. Leaves that are not tensors are those of ``like``.

    >>> rebuilt((torch.tensor(1), {"a": torch.tensor(2), "name": "n"}), [torch.tensor(3), torch.tensor(4)])
    (tensor(3), {'a': tensor(4), 'name': 'n'})
    """
    return _rebuilt(like, iter(tensors), texts=False)


def of_columns(like: Any, columns: Iterable[Any]) -> Any:
    """Return a batch like ``like`` with other columns. Leaves that are not columns are those of ``like``."""
    return _rebuilt(like, iter(columns), texts=True)


def _rebuilt(like: Any, tensors: Iterator[Any], texts: bool) -> Any:
    if isinstance(like, torch.Tensor) or (texts and is_texts(like)):
        return next(tensors)
    parser = parser_of(type(like))
    if parser is not None:
        return parser.reconstruct(like, tensors)
    if isinstance(like, Mapping):
        return _mapping(like, {key: _rebuilt(part, tensors, texts) for key, part in like.items()})
    if isinstance(like, tuple | list):
        parts = [_rebuilt(part, tensors, texts) for part in like]
        return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)
    return like


def _mapping(like: Any, parts: dict[Any, Any]) -> Any:
    """Return a mapping like ``like`` with other values."""
    if type(like) is dict or not isinstance(like, MutableMapping):
        return type(like)(parts)
    made = copy(like)  # it may have more than its items
    for key, part in parts.items():
        made[key] = part
    attributes = getattr(made, "__dict__", {})  # some classes also keep their items as attributes
    attributes.update({name: parts[name] for name in attributes if name in parts and attributes[name] is like[name]})
    return made
