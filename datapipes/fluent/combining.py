"""Methods that make one stream of several, or several of one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe, MapDataPipe
    from datapipes.iter.combining.hub import Folder
    from datapipes.position.on_error import OnError

T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class CombiningMethods(Generic[T_co]):
    """concat, zip and mux with their kin; fork, demux, unzip and random_split."""

    @overload
    def concat(self, a: IterDataPipe[A], /) -> IterDataPipe[T_co | A]: ...
    @overload
    def concat(self, a: IterDataPipe[A], b: IterDataPipe[B], /) -> IterDataPipe[T_co | A | B]: ...
    @overload
    def concat(
        self, a: IterDataPipe[A], b: IterDataPipe[B], c: IterDataPipe[C], /
    ) -> IterDataPipe[T_co | A | B | C]: ...
    @overload
    def concat(
        self, a: IterDataPipe[A], b: IterDataPipe[B], c: IterDataPipe[C], d: IterDataPipe[D], /
    ) -> IterDataPipe[T_co | A | B | C | D]: ...
    @overload
    def concat(self, *datapipes: IterDataPipe[Any]) -> IterDataPipe[Any]: ...

    def concat(self, *datapipes: IterDataPipe[Any]) -> IterDataPipe[Any]:
        """This stream, and then the others.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").concat(IterableWrapper("c")))
        ['a', 'b', 'c']
        """
        from datapipes.iter.combining.concat import Concater

        return Concater(self, *datapipes)  # type: ignore[arg-type]  # self is an IterDataPipe

    @overload
    def zip(self, a: IterDataPipe[A], /) -> IterDataPipe[tuple[T_co, A]]: ...
    @overload
    def zip(self, a: IterDataPipe[A], b: IterDataPipe[B], /) -> IterDataPipe[tuple[T_co, A, B]]: ...
    @overload
    def zip(
        self, a: IterDataPipe[A], b: IterDataPipe[B], c: IterDataPipe[C], /
    ) -> IterDataPipe[tuple[T_co, A, B, C]]: ...
    @overload
    def zip(
        self, a: IterDataPipe[A], b: IterDataPipe[B], c: IterDataPipe[C], d: IterDataPipe[D], /
    ) -> IterDataPipe[tuple[T_co, A, B, C, D]]: ...
    @overload
    def zip(self, *datapipes: IterDataPipe[Any]) -> IterDataPipe[tuple[Any, ...]]: ...

    def zip(self, *datapipes: IterDataPipe[Any]) -> IterDataPipe[tuple[Any, ...]]:
        """Tuples of one element of each, up to the end of the shortest.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").zip(IterableWrapper(range(9))))
        [('a', 0), ('b', 1)]
        """
        from datapipes.iter.combining.zipping import Zipper

        return Zipper(self, *datapipes)  # type: ignore[arg-type]  # self is an IterDataPipe

    def zip_longest(self, *datapipes: IterDataPipe[Any], fill_value: Any = None) -> IterDataPipe[tuple[Any, ...]]:
        """Tuples of one element of each, up to the end of the longest.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").zip_longest(IterableWrapper([1])))
        [('a', 1), ('b', None)]
        """
        from datapipes.iter.combining.zipping import ZipperLongest

        return ZipperLongest(self, *datapipes, fill_value=fill_value)  # type: ignore[arg-type]  # self is an IterDataPipe

    @overload
    def mux(self, a: Iterable[A], /) -> IterDataPipe[T_co | A]: ...
    @overload
    def mux(self, a: Iterable[A], b: Iterable[B], /) -> IterDataPipe[T_co | A | B]: ...
    @overload
    def mux(self, a: Iterable[A], b: Iterable[B], c: Iterable[C], /) -> IterDataPipe[T_co | A | B | C]: ...
    @overload
    def mux(
        self, a: Iterable[A], b: Iterable[B], c: Iterable[C], d: Iterable[D], /
    ) -> IterDataPipe[T_co | A | B | C | D]: ...
    @overload
    def mux(self, *datapipes: Iterable[Any]) -> IterDataPipe[Any]: ...

    def mux(self, *datapipes: Iterable[Any]) -> IterDataPipe[Any]:
        """One element of each in turn, as long as each has one.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("abc").mux(IterableWrapper([1, 2])))
        ['a', 1, 'b', 2]
        """
        from datapipes.iter.combining.mux import Multiplexer

        return Multiplexer(self, *datapipes)  # type: ignore[arg-type]  # self is an IterDataPipe

    @overload
    def mux_longest(self, a: Iterable[A], /) -> IterDataPipe[T_co | A]: ...
    @overload
    def mux_longest(self, a: Iterable[A], b: Iterable[B], /) -> IterDataPipe[T_co | A | B]: ...
    @overload
    def mux_longest(self, a: Iterable[A], b: Iterable[B], c: Iterable[C], /) -> IterDataPipe[T_co | A | B | C]: ...
    @overload
    def mux_longest(
        self, a: Iterable[A], b: Iterable[B], c: Iterable[C], d: Iterable[D], /
    ) -> IterDataPipe[T_co | A | B | C | D]: ...
    @overload
    def mux_longest(self, *datapipes: Iterable[Any]) -> IterDataPipe[Any]: ...

    def mux_longest(self, *datapipes: Iterable[Any]) -> IterDataPipe[Any]:
        """One element of each in turn, those that have ended being passed over, until all have.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("abc").mux_longest(IterableWrapper([1])))
        ['a', 1, 'b', 'c']
        """
        from datapipes.iter.combining.mux import MultiplexerLongest

        return MultiplexerLongest(self, *datapipes)  # type: ignore[arg-type]  # self is an IterDataPipe

    def zip_with_iter(
        self,
        ref_datapipe: IterDataPipe[Any],
        key_fn: Callable[[Any], Hashable],
        ref_key_fn: Callable[[Any], Hashable] | None = None,
        keep_key: bool = False,
        buffer_size: int | None = 10000,
        merge_fn: Callable[[Any, Any], Any] | None = None,
    ) -> IterDataPipe[Any]:
        """Pairs of each element and the one of the same key in another stream, whose others wait in a buffer.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").zip_with_iter(IterableWrapper("cBA"), str, str.lower))
        [('a', 'A'), ('b', 'B')]
        """
        from datapipes.iter.combining.key_zipping import IterKeyZipper

        return IterKeyZipper(self, ref_datapipe, key_fn, ref_key_fn, keep_key, buffer_size, merge_fn)  # type: ignore[arg-type]  # self is an IterDataPipe

    def zip_with_map(
        self,
        map_datapipe: MapDataPipe[Any],
        key_fn: Callable[[Any], Any],
        merge_fn: Callable[[Any, Any], Any] | None = None,
        keep_key: bool = False,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[Any]:
        """Pairs of each element and what a collection has under its key.

        >>> from datapipes.iter import IterableWrapper
        >>> from datapipes.map import SequenceWrapper
        >>> list(IterableWrapper([2, 0]).zip_with_map(SequenceWrapper("abc"), key_fn=int))
        [(2, 'c'), (0, 'a')]
        """
        from datapipes.iter.combining.key_zipping import MapKeyZipper

        source: IterDataPipe[Any] = self  # type: ignore[assignment]  # self is an IterDataPipe
        return MapKeyZipper(source, map_datapipe, key_fn, merge_fn, keep_key, on_error=on_error, max_errors=max_errors)

    def fork(
        self,
        num_instances: int,
        buffer_size: int = 1000,
        copy: str | None = None,
        *,
        buffer_bytes: int | None = None,
        spill_dir: Folder | None = None,
    ) -> list[IterDataPipe[T_co]]:
        """A list of ``num_instances`` streams of the same elements.

        >>> from datapipes.iter import IterableWrapper
        >>> a, b = IterableWrapper(range(2)).fork(2)
        >>> list(a.zip(b))
        [(0, 0), (1, 1)]
        """
        from datapipes.iter.combining.fork import Forker

        return Forker(self, num_instances, buffer_size, copy, buffer_bytes=buffer_bytes, spill_dir=spill_dir)  # type: ignore[arg-type]  # self is an IterDataPipe

    def demux(
        self,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
        *,
        buffer_bytes: int | None = None,
        spill_dir: Folder | None = None,
    ) -> list[IterDataPipe[T_co]]:
        """A list of streams; an element goes to the one whose number ``classifier_fn`` returns.

        >>> from datapipes.iter import IterableWrapper
        >>> even, odd = IterableWrapper(range(5)).demux(2, lambda x: x % 2)
        >>> list(odd)
        [1, 3]
        """
        from datapipes.iter.combining.demux import Demultiplexer

        source: IterDataPipe[T_co] = self  # type: ignore[assignment]  # self is an IterDataPipe
        return Demultiplexer(
            source, num_instances, classifier_fn, drop_none, buffer_size, buffer_bytes=buffer_bytes, spill_dir=spill_dir
        )

    def round_robin_demux(
        self,
        num_instances: int,
        buffer_size: int = 1000,
        *,
        buffer_bytes: int | None = None,
        spill_dir: Folder | None = None,
    ) -> list[IterDataPipe[T_co]]:
        """A list of ``num_instances`` streams that the elements go to in turn.

        >>> from datapipes.iter import IterableWrapper
        >>> a, b = IterableWrapper(range(5)).round_robin_demux(2)
        >>> list(b), len(a)
        ([1, 3], 3)
        """
        from datapipes.iter.combining.demux import RoundRobinDemultiplexer

        return RoundRobinDemultiplexer(self, num_instances, buffer_size, buffer_bytes=buffer_bytes, spill_dir=spill_dir)  # type: ignore[arg-type]  # self is an IterDataPipe

    def random_split(
        self, weights: Mapping[Any, float], seed: int, total_length: int | None = None, target: Hashable | None = None
    ) -> Any:
        """A list with a stream for each weight, or the stream for ``target``; each element is in one of them at random.

        >>> from datapipes.iter import IterableWrapper
        >>> train, valid = IterableWrapper(range(10)).random_split(weights={"train": 8, "valid": 2}, seed=0)
        >>> len(list(train)), len(list(valid))
        (8, 2)
        """
        from datapipes.iter.combining.random_split import RandomSplitter

        return RandomSplitter(self, weights, seed, total_length, target)  # type: ignore[arg-type]  # self is an IterDataPipe

    def unzip(
        self,
        sequence_length: int,
        buffer_size: int = 1000,
        columns_to_skip: Sequence[int] | None = None,
        *,
        buffer_bytes: int | None = None,
        spill_dir: Folder | None = None,
    ) -> list[IterDataPipe[Any]]:
        """A list with a stream for each column of the elements.

        >>> from datapipes.iter import IterableWrapper
        >>> letters, numbers = IterableWrapper([("a", 1), ("b", 2)]).unzip(2)
        >>> list(numbers)
        [1, 2]
        """
        from datapipes.iter.combining.fork import UnZipper

        source: IterDataPipe[Any] = self  # type: ignore[assignment]  # self is an IterDataPipe
        return UnZipper(
            source, sequence_length, buffer_size, columns_to_skip, buffer_bytes=buffer_bytes, spill_dir=spill_dir
        )
