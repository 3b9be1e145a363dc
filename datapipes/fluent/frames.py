"""Methods that make data frames of pandas, and work on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe
    from datapipes.iter.frames.regrouping import ShuffleDataFramesPipe
    from datapipes.iter.frames.tracing import DataFrameTracer
    from datapipes.position.on_error import OnError

T_co = TypeVar("T_co", covariant=True)


class FrameMethods(Generic[T_co]):
    """dataframe, trace_as_dataframe, and the methods that torch begins with an underscore."""

    def dataframe(
        self,
        dataframe_size: int = 1000,
        dtype: Any = None,
        dtype_generator: Callable[[], Any] | None = None,
        columns: Sequence[Any] | None = None,
        device: str = "",
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[Any]:
        """Data frames of ``dataframe_size`` rows.

        >>> from datapipes.iter import IterableWrapper
        >>> [dict(frame.dtypes) for frame in IterableWrapper([{"x": 1}, {"x": 2}]).dataframe(dtype="float32")]
        [{'x': dtype('float32')}]
        """
        from datapipes.iter.frames.making import DataFrameMaker

        return DataFrameMaker(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            *(dataframe_size, dtype, dtype_generator, columns, device),
            on_error=on_error,
            max_errors=max_errors,
        )

    def trace_as_dataframe(self, schema_df: Any = None) -> DataFrameTracer:
        """The stream as one data frame: what is done to it is done to each of its frames.

        >>> from datapipes.iter import IterableWrapper
        >>> df = IterableWrapper([1, 2]).dataframe(1, columns=["x"]).trace_as_dataframe()
        >>> df["y"] = df["x"] > 1
        >>> list(df._dataframes_as_tuples())
        [(1, False), (2, True)]
        """
        from datapipes.iter.frames.tracing import DataFrameTracer

        return DataFrameTracer(self, schema_df)  # type: ignore[arg-type]  # self is an IterDataPipe

    def _to_dataframes_pipe(self, dataframe_size: int = 10, columns: Sequence[Any] | None = None) -> IterDataPipe[Any]:
        """Data frames of ``dataframe_size`` rows.

        >>> from datapipes.iter import IterableWrapper
        >>> [frame.shape for frame in IterableWrapper([(1, 2)] * 12)._to_dataframes_pipe()]
        [(10, 2), (2, 2)]
        """
        from datapipes.iter.frames.making import ExampleAggregateAsDataFrames

        return ExampleAggregateAsDataFrames(self, dataframe_size, columns)  # type: ignore[arg-type]  # self is an IterDataPipe

    def _dataframes_as_tuples(self) -> IterDataPipe[tuple[Any, ...]]:
        """The rows of data frames.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([{"x": 1, "y": "a"}])._to_dataframes_pipe()._dataframes_as_tuples())
        [(1, 'a')]
        """
        from datapipes.iter.frames.parting import DataFramesAsTuplesPipe

        return DataFramesAsTuplesPipe(self)  # type: ignore[arg-type]  # self is an IterDataPipe

    def _dataframes_per_row(self) -> IterDataPipe[Any]:
        """Data frames of one row each.

        >>> from datapipes.iter import IterableWrapper
        >>> [len(frame) for frame in IterableWrapper([1, 2, 3])._to_dataframes_pipe()._dataframes_per_row()]
        [1, 1, 1]
        """
        from datapipes.iter.frames.parting import PerRowDataFramesPipe

        return PerRowDataFramesPipe(self)  # type: ignore[arg-type]  # self is an IterDataPipe

    def _dataframes_concat(self, batch: int = 3) -> IterDataPipe[Any]:
        """Every ``batch`` data frames as one.

        >>> from datapipes.iter import IterableWrapper
        >>> [len(frame) for frame in IterableWrapper(range(4))._to_dataframes_pipe(1)._dataframes_concat()]
        [3, 1]
        """
        from datapipes.iter.frames.parting import ConcatDataFramesPipe

        return ConcatDataFramesPipe(self, batch)  # type: ignore[arg-type]  # self is an IterDataPipe

    def _dataframes_shuffle(self) -> ShuffleDataFramesPipe:
        """The rows of all data frames in a random order.

        >>> from datapipes.iter import IterableWrapper
        >>> [len(frame) for frame in IterableWrapper(range(5))._to_dataframes_pipe(2)._dataframes_shuffle()]
        [2, 2, 1]
        """
        from datapipes.iter.frames.regrouping import ShuffleDataFramesPipe

        return ShuffleDataFramesPipe(self)  # type: ignore[arg-type]  # self is an IterDataPipe

    def _dataframes_filter(self, filter_fn: Callable[[Any], Any]) -> IterDataPipe[Any]:
        """The rows for which ``filter_fn`` is true.

        >>> from datapipes.iter import IterableWrapper
        >>> frames = IterableWrapper(range(5))._to_dataframes_pipe(columns=["x"])
        >>> list(frames._dataframes_filter(lambda row: row["x"] > 2)._dataframes_as_tuples())
        [(3,), (4,)]
        """
        from datapipes.iter.frames.regrouping import FilterDataFramesPipe

        return FilterDataFramesPipe(self, filter_fn)  # type: ignore[arg-type]  # self is an IterDataPipe
