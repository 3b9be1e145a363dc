"""_dataframes_as_tuples, _dataframes_per_row, _dataframes_concat: data frames as rows, cut up, and put together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe
from datapipes.iter.frames.making import needs_pandas
from datapipes.operators.flattening import Flattening


class DataFramesAsTuplesPipe(Flattening[tuple[Any, ...]]):
    """The rows of data frames, as tuples.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([(1, "a"), (2, "b")])._to_dataframes_pipe()._dataframes_as_tuples())
    [(1, 'a'), (2, 'b')]
    """

    _fluent: ClassVar[str | None] = "_dataframes_as_tuples"

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        needs_pandas("_dataframes_as_tuples")
        self.source_datapipe = source_datapipe

    def _sources(self) -> tuple[IterDataPipe[Any]]:
        return (self.source_datapipe,)

    def _inner(self, element: Any) -> Iterator[tuple[Any, ...]]:
        rows: Iterator[tuple[Any, ...]] = element.itertuples(index=False, name=None)
        return rows


class PerRowDataFramesPipe(Flattening[Any]):
    """Data frames of one row each.

    >>> from datapipes.iter import IterableWrapper
    >>> [frame.shape for frame in IterableWrapper([(1, 2), (3, 4)])._to_dataframes_pipe()._dataframes_per_row()]
    [(1, 2), (1, 2)]
    """

    _fluent: ClassVar[str | None] = "_dataframes_per_row"

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        needs_pandas("_dataframes_per_row")
        self.source_datapipe = source_datapipe

    def _sources(self) -> tuple[IterDataPipe[Any]]:
        return (self.source_datapipe,)

    def _inner(self, element: Any) -> Iterator[Any]:
        return (element.iloc[i : i + 1] for i in range(len(element)))


def ConcatDataFramesPipe(source_datapipe: IterDataPipe[Any], batch: int = 3) -> IterDataPipe[Any]:
    """Data frames of ``batch`` frames each, one below the other; rows keep their labels. A ``batch`` and a ``map``.

    >>> from datapipes.iter import IterableWrapper
    >>> frames = IterableWrapper(range(5))._to_dataframes_pipe(dataframe_size=1)
    >>> [len(frame) for frame in frames._dataframes_concat(2)]
    [2, 2, 1]
    """
    needs_pandas("_dataframes_concat")
    return source_datapipe.batch(batch).map(one_below_the_other)


def one_below_the_other(frames: list[Any]) -> Any:
    """The rows of all these frames in one."""
    import pandas as pd

    return frames[0] if len(frames) == 1 else pd.concat(frames)
