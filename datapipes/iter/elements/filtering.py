"""filter: the elements that a function says True to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.operators.checks import needs_callable
from datapipes.operators.columns import on_input, validate_input_col
from datapipes.position.on_error import Tolerant
from datapipes.position.steps import Step

T_co = TypeVar("T_co", covariant=True)


@operator
class Filter(Tolerant, IterDataPipe[T_co]):
    """The elements for which a function returns True.

    Of a pandas DataFrame it may choose rows; a frame of which none are kept is left out.

    Args:
        filter_fn: The function. It is given the element, or its columns one by one, and returns True or False, or for a
            DataFrame a Series of them: the rows to keep. Anything else is an error.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(6)).filter(lambda x: x % 2 == 0))
    [0, 2, 4]
    """

    _fluent: ClassVar[str | None] = "filter"
    _hands_on: ClassVar[bool] = True

    datapipe: IterDataPipe[T_co]
    filter_fn: Callable[..., bool]
    input_col: Any = None

    def __post_init__(self) -> None:
        needs_callable("filter", self.filter_fn)
        validate_input_col(self.filter_fn, self.input_col)
        super().__post_init__()

    def _step(self) -> Step:
        return Step("filter", on_input(self.filter_fn, self.input_col))
