"""The methods of a MapDataPipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from datapipes.fluent.chained import chained, map_operators, operators, overloaded
from datapipes.fluent.plugin_methods import MapPlugins

if TYPE_CHECKING:
    from datapipes.description.pipe import MapDataPipe

T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")


class MapMethods(MapPlugins[T_co]):
    """All methods of a MapDataPipe."""

    map = chained(map_operators.Mapper)

    @overload
    def batch(self, batch_size: int, drop_last: bool = False) -> MapDataPipe[list[T_co]]: ...
    @overload
    def batch(
        self, batch_size: int, drop_last: bool = False, *, wrapper_class: Callable[[list[T_co]], R]
    ) -> MapDataPipe[R]: ...
    @overload
    def batch(self, batch_size: int, drop_last: bool, wrapper_class: Callable[[list[T_co]], R]) -> MapDataPipe[R]: ...
    @overloaded(map_operators.Batcher)
    def batch(self, *args: Any, **kwargs: Any) -> Any:
        """Group elements with neighbouring keys to lists of ``batch_size``."""

    sliding_window = chained(map_operators.SlidingWindow)
    shuffle = chained(map_operators.Shuffler)

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
    @overloaded(map_operators.Concater)
    def concat(self, *args: Any, **kwargs: Any) -> Any:
        """Join this collection and the others, under consecutive keys."""

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
    @overloaded(map_operators.Zipper)
    def zip(self, *args: Any, **kwargs: Any) -> Any:
        """Give tuples of the elements that the inputs have under one key."""

    unzip = chained(map_operators.UnZipper)
    in_memory_cache = chained(map_operators.InMemoryCacheHolder)
    decode_images = chained(map_operators.KeyedImageDecoder)
    to_iter_datapipe = chained(operators.MapToIterConverter)
