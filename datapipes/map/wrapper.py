"""SequenceWrapper: a sequence or mapping as a map-style pipe."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Protocol, TypeVar

from datapipes.description.pipe import MapDataPipe, operator
from datapipes.errors import BadArgumentType
from datapipes.messages.warnings import warn

T_co = TypeVar("T_co", covariant=True)


class KeyedElements(Protocol[T_co]):
    """Sized collection with elements by key: a list, a dict, a tensor, an array, a Dataset of torch."""

    def __getitem__(self, key: Any, /) -> T_co: ...

    def __len__(self) -> int: ...


@operator
class SequenceWrapper(MapDataPipe[T_co]):
    """The elements of a sequence or mapping by key.

    Args:
        sequence: The sequence or mapping, or another object with ``[key]``.
        deepcopy: Whether to copy it once, so that later changes have no effect here. False saves time and memory. An
            object that cannot be copied is used itself, with a warning.

    >>> SequenceWrapper(["a", "b"])[1]
    'b'
    """

    _identified_by: ClassVar[str | None] = "sequence"

    sequence: KeyedElements[T_co]
    deepcopy: bool = True

    def __post_init__(self) -> None:
        if not hasattr(self.sequence, "__getitem__"):
            raise BadArgumentType(f"SequenceWrapper needs a sequence or mapping, got {type(self.sequence).__name__}")
        if self.deepcopy:
            try:
                self.sequence = copy.deepcopy(self.sequence)
            except TypeError:
                warn(
                    f"the {type(self.sequence).__name__} of SequenceWrapper can not be deepcopied: the original is "
                    "used, so changes of it show (deepcopy=False confirms this)"
                )

    def __getitem__(self, key: Any) -> T_co:
        return self.sequence[key]

    def __len__(self) -> int:
        return len(self.sequence)
