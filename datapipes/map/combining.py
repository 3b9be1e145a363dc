"""concat, zip, unzip of map-style pipes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence, Sized
from itertools import accumulate
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

from torch.utils.data import MapDataPipe as TorchMapDataPipe

from datapipes.description.pipe import MapDataPipe, composed, operator
from datapipes.description.printing import stage
from datapipes.errors import BadArgument, BadArgumentType, GraphError
from datapipes.map.mapping import Mapper
from datapipes.operator_support.checks import length_of, needs

T_co = TypeVar("T_co", covariant=True)


@operator
class Concater(MapDataPipe[T_co]):
    """One collection after another; negative keys count from the end of the last.

    Args:
        *datapipes: The inputs, in this order; as a method, those after this pipe. Each must have a length.

    >>> from datapipes.map import SequenceWrapper
    >>> dp = SequenceWrapper("ab").concat(SequenceWrapper("c"))
    >>> dp[2], dp[-1]
    ('c', 'c')
    """

    _fluent: ClassVar[str | None] = "concat"

    datapipes: tuple[MapDataPipe[T_co], ...]

    def __init__(self, *datapipes: MapDataPipe[T_co]) -> None:
        self.datapipes = datapipes
        _needs_sized_map_pipes(self, datapipes)

    def __getitem__(self, key: Any) -> T_co:
        ends = list(accumulate(map(length_of, self.datapipes)))
        position = key + ends[-1] if key < 0 else key
        if not 0 <= position < ends[-1]:
            raise IndexError(f"Index {key} is out of range: there are {ends[-1]} elements")
        which = bisect_right(ends, position)
        return self.datapipes[which][position - (ends[which - 1] if which else 0)]

    def __len__(self) -> int:
        return sum(map(length_of, self.datapipes))


@operator
class Zipper(MapDataPipe[tuple[Any, ...]]):
    """Tuples of the elements that the inputs have under one key.

    Args:
        *datapipes: The inputs, in this order; as a method, those after this pipe. Each must have a length.

    >>> from datapipes.map import SequenceWrapper
    >>> SequenceWrapper("ab").zip(SequenceWrapper([1, 2]))[1]
    ('b', 2)
    """

    _fluent: ClassVar[str | None] = "zip"

    datapipes: tuple[MapDataPipe[Any], ...]

    def __init__(self, *datapipes: MapDataPipe[Any]) -> None:
        self.datapipes = datapipes
        _needs_sized_map_pipes(self, datapipes)

    def __getitem__(self, key: Any) -> tuple[Any, ...]:
        try:
            return tuple(pipe[key] for pipe in self.datapipes)
        except IndexError as error:
            raise IndexError(f"Index {key} is out of range for one of the input MapDataPipes") from error

    def __len__(self) -> int:
        return min(map(length_of, self.datapipes))


@composed
def UnZipper(
    source_datapipe: MapDataPipe[Any], sequence_length: int, columns_to_skip: Sequence[int] | None = None
) -> list[MapDataPipe[Any]]:
    """A list of collections, one for each column of the elements.

    Args:
        sequence_length: The number of columns; further columns of an element are ignored.
        columns_to_skip: Positions of columns to leave out; not all of them. ``None``: none.

    >>> from datapipes.map import SequenceWrapper
    >>> letters, numbers = SequenceWrapper([("a", 1), ("b", 2)]).unzip(2)
    >>> list(letters), list(numbers)
    (['a', 'b'], [1, 2])
    """
    if sequence_length < 1:
        raise BadArgument(f"Expected `sequence_length` to be larger than 0, got {sequence_length}, in .unzip()")
    columns = [i for i in range(sequence_length) if i not in (columns_to_skip or ())]
    if not columns:
        raise GraphError(
            f"All instances are being filtered out in UnZipper: sequence_length={sequence_length}, "
            f"columns_to_skip={columns_to_skip}; keep at least one column"
        )
    return [Mapper(source_datapipe, itemgetter(column)) for column in columns]


def _needs_sized_map_pipes(pipe: MapDataPipe[Any], datapipes: tuple[Any, ...]) -> None:
    needs(len(datapipes) > 0, pipe, "Expected at least one DataPipe, got none")
    for source in datapipes:
        if not isinstance(source, MapDataPipe | TorchMapDataPipe):
            raise BadArgumentType(
                f"Expected all inputs to be `MapDataPipe`, got {type(source).__name__}: {source!r:.60}, "
                f"in {stage(pipe)}"
            )
        if not isinstance(source, Sized):
            raise BadArgumentType(
                f"Expected all inputs to be `Sized`, but {source!r:.60} has no __len__, in {stage(pipe)}"
            )
