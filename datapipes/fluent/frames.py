"""The method that makes data frames of pandas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe
    from datapipes.position.on_error import OnError

T_co = TypeVar("T_co", covariant=True)


class FrameMethods(Generic[T_co]):
    """dataframe."""

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
