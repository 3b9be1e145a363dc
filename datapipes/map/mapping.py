"""map, batch, in_memory_cache of map-style pipes: elements made by key, at every access or once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import MapDataPipe, operator
from datapipes.description.printing import stage
from datapipes.elements.chunk import DataChunk
from datapipes.messages.where import where
from datapipes.operator_support.checks import length_of, needs_callable, needs_count, source_length

R_co = TypeVar("R_co", covariant=True)

B_co = TypeVar("B_co", covariant=True)

T_co = TypeVar("T_co", covariant=True)


def identity(element: Any) -> Any:
    """Return the element itself."""
    return element


@operator
class Mapper(MapDataPipe[R_co]):
    """A function of the element of each key, computed at every access.

    Args:
        fn: The function of the element. By default it returns the element itself.

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


@operator
class Batcher(MapDataPipe[B_co]):
    """Under key ``k``, the elements ``k * batch_size`` and following, as a list.

    Args:
        batch_size: The number of elements in a batch.
        drop_last: Whether to leave out a last batch that is not full.
        wrapper_class: A class or function that makes a batch of a list of elements. A ``DataChunk`` is a list.

    >>> from datapipes.map import SequenceWrapper
    >>> SequenceWrapper(range(5)).batch(2)[2]
    [4]
    """

    _fluent: ClassVar[str | None] = "batch"

    datapipe: MapDataPipe[Any]
    batch_size: int
    drop_last: bool = False
    wrapper_class: Callable[[list[Any]], B_co] = DataChunk  # type: ignore[assignment]  # the usual B_co

    def __post_init__(self) -> None:
        needs_count(self, "batch_size", 1, "Batch size is required to be larger than 0")

    def __getitem__(self, key: Any) -> B_co:
        batch: list[Any] = []
        first = key * self.batch_size
        try:
            batch.extend(self.datapipe[first + i] for i in range(self.batch_size if key >= 0 else 0))
        except IndexError:
            if self._is_inside(first + len(batch)):
                raise  # a function's error, and not the end of the source
            if self.drop_last:
                batch = []
        if not batch:
            raise IndexError(f"Index {key} is out of bound: there is no such batch, in {stage(self)}")
        return self.wrapper_class(batch)

    def _is_inside(self, position: int) -> bool:
        try:
            return position < length_of(self.datapipe)
        except TypeError:
            return False  # only an IndexError marks the end of a source without a length

    def __len__(self) -> int:
        length = source_length(self, self.datapipe)
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


@operator
class InMemoryCacheHolder(MapDataPipe[T_co]):
    """The same elements: the first access to a key makes its element, later ones return the same object.

    >>> from datapipes.map import SequenceWrapper
    >>> dp = SequenceWrapper("ab").map(str.upper).in_memory_cache()
    >>> dp[0] is dp[0], dp.cache
    (True, {0: 'A'})
    """

    _fluent: ClassVar[str | None] = "in_memory_cache"

    source_dp: MapDataPipe[T_co]
    cache: dict[Any, T_co] = field(default_factory=dict, init=False)

    def __getitem__(self, key: Any) -> T_co:
        if key not in self.cache:
            # If two threads make an element at the same time, both get the first object.
            return self.cache.setdefault(key, self.source_dp[key])
        return self.cache[key]

    def __len__(self) -> int:
        return length_of(self.source_dp)
