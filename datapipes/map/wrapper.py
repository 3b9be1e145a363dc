"""SequenceWrapper: a sequence or mapping as a map-style pipe."""

from __future__ import annotations

import copy
import warnings
from typing import Any, ClassVar, Protocol, TypeVar

from datapipes.description.pipe import MapDataPipe
from datapipes.errors import BadArgumentType

T_co = TypeVar("T_co", covariant=True)


class Elements(Protocol[T_co]):
    """Elements by key, and how many there are: a list, a dict, a tensor, an array, a Dataset of torch."""

    def __getitem__(self, key: Any, /) -> T_co: ...

    def __len__(self) -> int: ...


class SequenceWrapper(MapDataPipe[T_co]):
    """The elements of a sequence or mapping, copied once so that later changes of it do not show.

    >>> SequenceWrapper(["a", "b"])[1]
    'b'
    """

    _data: ClassVar[frozenset[str]] = frozenset({"sequence"})
    _identified_by: ClassVar[str | None] = "sequence"

    def __init__(self, sequence: Elements[T_co], deepcopy: bool = True) -> None:
        if not hasattr(sequence, "__getitem__"):
            raise BadArgumentType(f"SequenceWrapper needs a sequence or mapping, got {type(sequence).__name__}")
        self.deepcopy = deepcopy
        if deepcopy:
            try:
                sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn(
                    f"the {type(sequence).__name__} of SequenceWrapper can not be deepcopied: the original is used, so "
                    "changes of it show (deepcopy=False says that this is meant)",
                    stacklevel=2,
                )
        self.sequence = sequence

    def __getitem__(self, key: Any) -> T_co:
        return self.sequence[key]

    def __len__(self) -> int:
        return len(self.sequence)
