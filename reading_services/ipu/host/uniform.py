"""Elements of equal structure, shapes and types, as the first one sets them.

PopTorch copies later elements into buffers of the first one's sizes and types. So numbers of another type are converted
here, too; but where PopTorch would broadcast an element of another shape unseen, the error names what differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from datapipes.errors import BadArgument
from reading_services.ipu.names.custom_types import leaves_of, parser_of, rebuilt
from reading_services.ipu.names.messages import logger


def element_of(made: Any) -> Any:
    """A dataset's element as the accessor gives it: a flat container that is no mapping becomes a list."""
    if isinstance(made, torch.Tensor | Mapping | str | bytes) or parser_of(type(made)) is not None:
        return made
    return list(made) if isinstance(made, Iterable) else made


class Uniform:
    """The structure, shapes and types of all elements, taken from the first."""

    def __init__(self, first: Any, rows_vary: bool) -> None:
        self._rows_vary = rows_vary
        for number, leaf in enumerate(leaves_of(first)):
            if not isinstance(leaf, torch.Tensor):
                raise BadArgument(
                    f"Tensor at index {number} is not a torch tensor but of type {type(leaf).__name__}; an element is "
                    "a tensor, a flat 1D container of tensors, or dicts, lists and tuples of these"
                )
        tensors = list(_tensors(first, first, ""))
        self._shapes = [self._shape(tensor) for tensor in tensors]
        self._types = [tensor.dtype for tensor in tensors]
        self._said: set[tuple[torch.dtype, torch.dtype]] = set()
        self.like = rebuilt(first, [torch.empty(0, dtype=tensor.dtype) for tensor in tensors])
        """A structure like that of all elements, of empty tensors."""

    def tensors(self, element: Any) -> list[torch.Tensor]:
        """The tensors of an element, in the first one's order and types; BadArgument if it is not like that one."""
        tensors = list(_tensors(self.like, element, ""))
        shapes = [self._shape(tensor) for tensor in tensors]
        if shapes != self._shapes:
            raise BadArgument(
                f"every element must have the shapes of the first, {_shown(self._shapes)}; this one has "
                f"{_shown(shapes)}. Pad rows to one size, or pass drop_last=True if it is the last batch"
            )
        return [self._converted(*each) for each in zip(tensors, self._types, strict=True)]

    def _converted(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if tensor.dtype == dtype:
            return tensor
        if not torch.can_cast(tensor.dtype, dtype) and (tensor.dtype, dtype) not in self._said:
            self._said.add((tensor.dtype, dtype))
            logger.warning("%s is converted to %s, the type of the first element: numbers change", tensor.dtype, dtype)
        return tensor.detach().to(dtype)

    def _shape(self, tensor: torch.Tensor) -> tuple[int | None, ...]:
        return (None, *tensor.shape[1:]) if self._rows_vary and tensor.dim() else tuple(tensor.shape)


def _tensors(like: Any, part: Any, where: str) -> Iterator[torch.Tensor]:
    """The tensors of a structure in the order of another one, which it must be like."""
    if isinstance(like, torch.Tensor):
        if not isinstance(part, torch.Tensor):
            raise _unlike(where, "a tensor", part)
        yield part
    elif (parser := parser_of(type(like))) is not None:
        if not isinstance(part, type(like)):
            raise _unlike(where, type(like).__name__, part)
        yield from parser.yieldTensors(part)
    elif isinstance(like, Mapping):
        if not isinstance(part, Mapping) or part.keys() != like.keys():
            raise _unlike(
                where, f"a dict with the keys {list(like)}", list(part) if isinstance(part, Mapping) else part
            )
        for key in like:
            yield from _tensors(like[key], part[key], f"{where}[{key!r}]")
    else:
        if not isinstance(part, tuple | list) or len(part) != len(like):
            raise _unlike(where, f"{len(like)} of them", part)
        for number, inner in enumerate(like):
            yield from _tensors(inner, part[number], f"{where}[{number}]")


def _unlike(where: str, wanted: str, found: Any) -> BadArgument:
    return BadArgument(
        f"every element must be like the first, where element{where} was {wanted}; here it is {found!r:.200}"
    )


def _shown(shapes: list[tuple[int | None, ...]]) -> str:
    return ", ".join(map(str, shapes)) or "none"
