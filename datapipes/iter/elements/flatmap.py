"""flatmap: each element replaced by the elements of an iterable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.operators.checks import needs_callable
from datapipes.operators.columns import on_input, validate_input_col
from datapipes.operators.flattening import Flattening
from datapipes.position.on_error import Tolerant

T_co = TypeVar("T_co", covariant=True)


@operator
class FlatMapper(Tolerant, Flattening[T_co]):
    """Every element of the iterable that a function makes of each element.

    Args:
        fn: The function. It is given the element, or its columns one by one. ``None``: the element is the iterable, or
            its column, or a tuple of its columns.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(["ab", "c"]).flatmap())
    ['a', 'b', 'c']
    """

    _fluent: ClassVar[str | None] = "flatmap"

    datapipe: IterDataPipe[Any]
    fn: Callable[..., Iterable[T_co]] | None = None
    input_col: Any = None

    def __post_init__(self) -> None:
        if self.fn is not None:
            needs_callable("flatmap", self.fn)
            validate_input_col(self.fn, self.input_col)
        super().__post_init__()

    def _inner(self, element: Any) -> Iterable[T_co]:
        made: Iterable[T_co] = on_input(_itself if self.fn is None else self.fn, self.input_col)(element)
        return made

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__}'s length relies on the output of its function.")


def _itself(*columns: Any) -> Any:
    return columns[0] if len(columns) == 1 else columns
