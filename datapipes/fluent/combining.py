"""Methods that make one stream of several, or several of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from datapipes.pipe import IterDataPipe

T_co = TypeVar("T_co", covariant=True)


class CombiningMethods(Generic[T_co]):
    """concat, zip, zip_longest, mux; fork, demux, unzip."""

    def concat(self, *datapipes: IterDataPipe[Any]) -> IterDataPipe[Any]:
        """This stream, and then the others.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").concat(IterableWrapper("c")))
        ['a', 'b', 'c']
        """
        from datapipes.iter.concat import Concater

        return Concater(self, *datapipes)  # type: ignore[arg-type]  # self is an IterDataPipe

    def zip(self, *datapipes: IterDataPipe[Any]) -> IterDataPipe[tuple[Any, ...]]:
        """Tuples of one element of each, up to the end of the shortest.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").zip(IterableWrapper(range(9))))
        [('a', 0), ('b', 1)]
        """
        from datapipes.iter.zipping import Zipper

        return Zipper(self, *datapipes)  # type: ignore[arg-type]  # self is an IterDataPipe

    def zip_longest(self, *datapipes: IterDataPipe[Any], fill_value: Any = None) -> IterDataPipe[tuple[Any, ...]]:
        """Tuples of one element of each, up to the end of the longest.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").zip_longest(IterableWrapper([1])))
        [('a', 1), ('b', None)]
        """
        from datapipes.iter.zipping import ZipperLongest

        return ZipperLongest(self, *datapipes, fill_value=fill_value)  # type: ignore[arg-type]  # self is an IterDataPipe

    def mux(self, *datapipes: Iterable[Any]) -> IterDataPipe[Any]:
        """One element of each in turn, as long as each has one.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("abc").mux(IterableWrapper([1, 2])))
        ['a', 1, 'b', 2]
        """
        from datapipes.iter.mux import Multiplexer

        return Multiplexer(self, *datapipes)  # type: ignore[arg-type]  # self is an IterDataPipe

    def fork(self, num_instances: int, buffer_size: int = 1000, copy: str | None = None) -> list[IterDataPipe[T_co]]:
        """A list of ``num_instances`` streams of the same elements.

        >>> from datapipes.iter import IterableWrapper
        >>> a, b = IterableWrapper(range(2)).fork(2)
        >>> list(a.zip(b))
        [(0, 0), (1, 1)]
        """
        from datapipes.iter.fork import Forker

        return Forker(self, num_instances, buffer_size, copy)  # type: ignore[arg-type]  # self is an IterDataPipe

    def demux(
        self,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> list[IterDataPipe[T_co]]:
        """A list of streams; an element goes to the one whose number ``classifier_fn`` returns.

        >>> from datapipes.iter import IterableWrapper
        >>> even, odd = IterableWrapper(range(5)).demux(2, lambda x: x % 2)
        >>> list(odd)
        [1, 3]
        """
        from datapipes.iter.fork import Demultiplexer

        return Demultiplexer(self, num_instances, classifier_fn, drop_none, buffer_size)  # type: ignore[arg-type]  # self is an IterDataPipe

    def unzip(
        self, sequence_length: int, buffer_size: int = 1000, columns_to_skip: Sequence[int] | None = None
    ) -> list[IterDataPipe[Any]]:
        """A list with a stream for each column of the elements.

        >>> from datapipes.iter import IterableWrapper
        >>> letters, numbers = IterableWrapper([("a", 1), ("b", 2)]).unzip(2)
        >>> list(numbers)
        [1, 2]
        """
        from datapipes.iter.fork import UnZipper

        return UnZipper(self, sequence_length, buffer_size, columns_to_skip)  # type: ignore[arg-type]  # self is an IterDataPipe
