"""Nested structures of tensors: taken apart into their tensors, and put together again from others.

A structure is a tensor, or a tuple, list, named tuple or mapping of structures (of any class that can be copied), or an
object of a registered type, whose *parser* knows its tensors. The tensors come in one fixed order, that of the
structure, so what was taken apart is put together by reading other tensors in the same order. Whatever else is in a
structure stays as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from copy import copy
from typing import Any

import torch

from reading_services.ipu.names.errors import Error


class ICustomArgParser(ABC):
    """How objects of one type are taken apart into tensors, and put together again."""

    @abstractmethod
    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        """Give the tensors of an object, always in the same order."""

    @abstractmethod
    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        """Make an object like another one, of the tensors that the iterator gives in that order."""


_parsers: dict[type, ICustomArgParser] = {}


def registerCustomArgParser(custom_type: type, parser: ICustomArgParser | None) -> None:
    """Register how a type is taken apart, in place of what was said before; None takes it back.

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
    """All parsers by type, to be given to another process."""
    return dict(_parsers)


def parser_of(kind: type) -> ICustomArgParser | None:
    """The parser of a type: its own, else that of the first registered type that it inherits from."""
    found = _parsers.get(kind)
    return found or next((parser for base, parser in _parsers.items() if issubclass(kind, base)), None)


def leaves_of(structure: Any) -> Iterator[Any]:
    """The leaves of a structure: its tensors, and whatever is no structure itself."""
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
    """Whether this is what torch's collate makes of texts: a list or tuple of them, one a row."""
    return type(part) in (list, tuple) and bool(part) and all(isinstance(text, str | bytes) for text in part)


def tensors_of(structure: Any) -> Iterator[torch.Tensor]:
    """The tensors of a structure, in order.

    >>> list(tensors_of([torch.tensor(1), {"a": (torch.tensor(2),), "name": "n"}]))
    [tensor(1), tensor(2)]
    """
    return (leaf for leaf in leaves_of(structure) if isinstance(leaf, torch.Tensor))


def columns_of(structure: Any) -> Iterator[Any]:
    """The columns of a batch, with one entry a row: its tensors and its lists of texts, in order."""
    return (leaf for leaf in leaves_of(structure) if isinstance(leaf, torch.Tensor) or is_texts(leaf))


def rebuilt(like: Any, tensors: Iterable[torch.Tensor]) -> Any:
    """A structure like another one, of other tensors; what is no tensor is taken from the other one.

    >>> rebuilt((torch.tensor(1), {"a": torch.tensor(2), "name": "n"}), [torch.tensor(3), torch.tensor(4)])
    (tensor(3), {'a': tensor(4), 'name': 'n'})
    """
    return _rebuilt(like, iter(tensors), texts=False)


def of_columns(like: Any, columns: Iterable[Any]) -> Any:
    """A batch like another one, of other columns; what is no column is taken from the other one."""
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
    """A mapping like another one, with other values."""
    if type(like) is dict or not isinstance(like, MutableMapping):
        return type(like)(parts)
    made = copy(like)  # it may be made of more than its items
    for key, part in parts.items():
        made[key] = part
    attributes = getattr(made, "__dict__", {})  # some have their items as attributes, too
    attributes.update({name: parts[name] for name in attributes if name in parts and attributes[name] is like[name]})
    return made
