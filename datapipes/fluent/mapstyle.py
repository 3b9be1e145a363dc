"""The methods of a MapDataPipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from datapipes.elements.chunk import DataChunk

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe, MapDataPipe
    from datapipes.map.shuffle import Shuffler

T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")


def identity(element: Any) -> Any:
    """The element as it is."""
    return element


class MapStyleMethods(Generic[T_co]):
    """map, batch, shuffle, concat, zip, unzip, in_memory_cache, to_iter_datapipe."""

    def map(self, fn: Callable[[Any], R] = identity) -> MapDataPipe[R]:
        """``fn`` of the element of each key.

        >>> from datapipes.map import SequenceWrapper
        >>> SequenceWrapper([1, 2]).map(lambda x: 10 * x)[1]
        20
        """
        from datapipes.map.mapping import Mapper

        return Mapper(self, fn)  # type: ignore[arg-type]  # self is a MapDataPipe

    @overload
    def batch(self, batch_size: int, drop_last: bool = False) -> MapDataPipe[list[T_co]]: ...
    @overload
    def batch(
        self, batch_size: int, drop_last: bool = False, *, wrapper_class: Callable[[list[T_co]], R]
    ) -> MapDataPipe[R]: ...
    @overload
    def batch(self, batch_size: int, drop_last: bool, wrapper_class: Callable[[list[T_co]], R]) -> MapDataPipe[R]: ...

    def batch(
        self, batch_size: int, drop_last: bool = False, wrapper_class: Callable[[list[Any]], Any] = DataChunk
    ) -> MapDataPipe[Any]:
        """Lists of ``batch_size`` elements with neighbouring keys.

        >>> from datapipes.map import SequenceWrapper
        >>> list(SequenceWrapper(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
        """
        from datapipes.map.batch import Batcher

        return Batcher(self, batch_size, drop_last, wrapper_class)  # type: ignore[arg-type]  # self is a MapDataPipe

    def shuffle(self, *, indices: Iterable[Any] | None = None) -> Shuffler[T_co]:
        """A stream of the elements in a random order.

        >>> from datapipes.map import SequenceWrapper
        >>> sorted(SequenceWrapper("abc").shuffle())
        ['a', 'b', 'c']
        """
        from datapipes.map.shuffle import Shuffler

        return Shuffler(self, indices=indices)  # type: ignore[arg-type]  # self is a MapDataPipe

    @overload
    def concat(self, a: MapDataPipe[A], /) -> MapDataPipe[T_co | A]: ...
    @overload
    def concat(self, a: MapDataPipe[A], b: MapDataPipe[B], /) -> MapDataPipe[T_co | A | B]: ...
    @overload
    def concat(self, a: MapDataPipe[A], b: MapDataPipe[B], c: MapDataPipe[C], /) -> MapDataPipe[T_co | A | B | C]: ...
    @overload
    def concat(
        self, a: MapDataPipe[A], b: MapDataPipe[B], c: MapDataPipe[C], d: MapDataPipe[D], /
    ) -> MapDataPipe[T_co | A | B | C | D]: ...
    @overload
    def concat(self, *datapipes: MapDataPipe[Any]) -> MapDataPipe[Any]: ...

    def concat(self, *datapipes: MapDataPipe[Any]) -> MapDataPipe[Any]:
        """This collection and then the others, under consecutive keys.

        >>> from datapipes.map import SequenceWrapper
        >>> SequenceWrapper("ab").concat(SequenceWrapper("c"))[2]
        'c'
        """
        from datapipes.map.combining import Concater

        return Concater(self, *datapipes)  # type: ignore[arg-type]  # self is a MapDataPipe

    @overload
    def zip(self, a: MapDataPipe[A], /) -> MapDataPipe[tuple[T_co, A]]: ...
    @overload
    def zip(self, a: MapDataPipe[A], b: MapDataPipe[B], /) -> MapDataPipe[tuple[T_co, A, B]]: ...
    @overload
    def zip(self, a: MapDataPipe[A], b: MapDataPipe[B], c: MapDataPipe[C], /) -> MapDataPipe[tuple[T_co, A, B, C]]: ...
    @overload
    def zip(
        self, a: MapDataPipe[A], b: MapDataPipe[B], c: MapDataPipe[C], d: MapDataPipe[D], /
    ) -> MapDataPipe[tuple[T_co, A, B, C, D]]: ...
    @overload
    def zip(self, *datapipes: MapDataPipe[Any]) -> MapDataPipe[tuple[Any, ...]]: ...

    def zip(self, *datapipes: MapDataPipe[Any]) -> MapDataPipe[tuple[Any, ...]]:
        """Tuples of the elements that the inputs have under one key.

        >>> from datapipes.map import SequenceWrapper
        >>> SequenceWrapper("ab").zip(SequenceWrapper([1, 2]))[1]
        ('b', 2)
        """
        from datapipes.map.combining import Zipper

        return Zipper(self, *datapipes)  # type: ignore[arg-type]  # self is a MapDataPipe

    def unzip(self, sequence_length: int, columns_to_skip: Sequence[int] | None = None) -> list[MapDataPipe[Any]]:
        """A collection for each column of the elements.

        >>> from datapipes.map import SequenceWrapper
        >>> letters, numbers = SequenceWrapper([("a", 1), ("b", 2)]).unzip(2)
        >>> numbers[0]
        1
        """
        from datapipes.map.combining import UnZipper

        return UnZipper(self, sequence_length, columns_to_skip)  # type: ignore[arg-type]  # self is a MapDataPipe

    def in_memory_cache(self) -> MapDataPipe[T_co]:
        """The same elements, each made once.

        >>> from datapipes.map import SequenceWrapper
        >>> dp = SequenceWrapper("ab").map(str.upper).in_memory_cache()
        >>> dp[0] is dp[0]
        True
        """
        from datapipes.map.cache import InMemoryCacheHolder

        return InMemoryCacheHolder(self)  # type: ignore[arg-type]  # self is a MapDataPipe

    def to_iter_datapipe(self, indices: Iterable[Any] | None = None) -> IterDataPipe[T_co]:
        """A stream of the elements of the given keys, by default 0, 1, 2 ...

        >>> from datapipes.map import SequenceWrapper
        >>> list(SequenceWrapper("abc").to_iter_datapipe([2, 0]))
        ['c', 'a']
        """
        from datapipes.converting.from_map import MapToIterConverter

        return MapToIterConverter(self, indices)  # type: ignore[arg-type]  # self is a MapDataPipe
