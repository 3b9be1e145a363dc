"""to_iter_datapipe: a map-style pipe as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from torch.utils.data import MapDataPipe as TorchMapDataPipe

from datapipes.description.indexed import Indexed
from datapipes.description.pipe import IterDataPipe, MapDataPipe, operator
from datapipes.description.printing import chain
from datapipes.errors import BadArgumentType
from datapipes.position.counting import Given
from datapipes.position.opening import Opening
from datapipes.rewriting.gathering import Rows, gather
from datapipes.rewriting.positions import Positions

T_co = TypeVar("T_co", covariant=True)


@operator
class MapToIterConverter(IterDataPipe[T_co]):
    """The elements of a map-style pipe as a stream.

    Args:
        indices: The keys of the elements, in their order. ``None``: 0, 1, 2 ... up to the length, which the pipe must
            have then; an empty list gives no elements.

    >>> from datapipes.map import SequenceWrapper
    >>> list(SequenceWrapper("abc").to_iter_datapipe())
    ['a', 'b', 'c']
    """

    _fluent: ClassVar[str | None] = "to_iter_datapipe"
    _identified_by: ClassVar[str | None] = "indices"

    datapipe: MapDataPipe[T_co]
    indices: Sequence[Any]

    def __init__(self, datapipe: MapDataPipe[T_co], indices: Iterable[Any] | None = None) -> None:
        if not isinstance(datapipe, MapDataPipe | TorchMapDataPipe):
            raise BadArgumentType(
                f"MapToIterConverter can only apply on MapDataPipe, got {type(datapipe).__name__}: {datapipe!r:.60}"
            )
        self.datapipe = datapipe
        self.indices = keys_of("to_iter_datapipe", datapipe, indices)

    def _open(self, at: Opening) -> Iterator[T_co]:
        return self._elements(at.cell(Given))

    def _elements(self, given: Given) -> Iterator[T_co]:
        for index in given.following(self.indices):
            yield self.datapipe[index]

    def _indexed(self) -> Indexed:
        return Indexed(len(self.indices), self._at)

    def _at(self, i: int) -> T_co:
        return self.datapipe[self.indices[i]]

    def _positions(self) -> Rows:
        return Rows(Positions(self), self, gather(self.datapipe, self.indices))

    def __len__(self) -> int:
        return len(self.indices)


def keys_of(method: str, datapipe: MapDataPipe[Any], indices: Iterable[Any] | None) -> Sequence[Any]:
    """The keys of a stream over a map-style pipe: those given, or all positions of a sized one."""
    if indices is not None:
        return indices if isinstance(indices, Sequence) else list(indices)
    try:
        return range(len(datapipe))
    except TypeError:
        raise BadArgumentType(
            f"{method}() needs to know the keys of {chain(datapipe)}, which has no length: give them as `indices`"
        ) from None
