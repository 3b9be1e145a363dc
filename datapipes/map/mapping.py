"""map: a function of each element of a map-style pipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import MapDataPipe, operator
from datapipes.description.printing import stage
from datapipes.messages.where import where
from datapipes.operators.checks import length_of, needs_callable

R_co = TypeVar("R_co", covariant=True)


def identity(element: Any) -> Any:
    """The element as it is."""
    return element


@operator
class Mapper(MapDataPipe[R_co]):
    """A function of the element of each key, computed at every access.

    Args:
        fn: The function. It is given the element; by default it returns it as it is.

    >>> from datapipes.map import SequenceWrapper
    >>> SequenceWrapper([1, 2]).map(lambda x: 10 * x)[1]
    20
    """

    _fluent: ClassVar[str | None] = "map"

    datapipe: MapDataPipe[Any]
    fn: Callable[[Any], R_co] = identity

    def __post_init__(self) -> None:
        needs_callable("map", self.fn)

    def __getitem__(self, key: Any) -> R_co:
        try:
            return self.fn(self.datapipe[key])
        except StopIteration as error:
            raise RuntimeError(
                f"a StopIteration escaped from {where(self.fn)}, in {stage(self)}[{key!r}]: it would have ended "
                "a loop over the pipe without a word"
            ) from error

    def __len__(self) -> int:
        return length_of(self.datapipe)
