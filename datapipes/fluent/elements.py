"""Methods that work on one element at a time, or on how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from torch.utils.data import default_collate

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe, MapDataPipe
    from datapipes.position.on_error import OnError
    from datapipes.ranks.topics import Uneven

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class ElementMethods(Generic[T_co]):
    """map, filter, flatmap, collate, enumerate, header, repeat, cycle, prefetch, fullsync, to_map_datapipe."""

    def map(
        self,
        fn: Callable[..., R],
        input_col: Any = None,
        output_col: Any = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[R]:
        """``fn`` of each element, or of some of its columns.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([1, 2]).map(lambda x: 10 * x))
        [10, 20]
        """
        from datapipes.iter.elements.mapping import Mapper

        return Mapper(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            fn,
            input_col,
            output_col,
            on_error=on_error,
            max_errors=max_errors,
        )

    def filter(
        self,
        filter_fn: Callable[..., bool],
        input_col: Any = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[T_co]:
        """The elements for which ``filter_fn`` returns True.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).filter(lambda x: x > 2))
        [3, 4]
        """
        from datapipes.iter.elements.filtering import Filter

        return Filter(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            filter_fn,
            input_col,
            on_error=on_error,
            max_errors=max_errors,
        )

    def flatmap(
        self,
        fn: Callable[..., Iterable[R]] | None = None,
        input_col: Any = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[R]:
        """Every element of ``fn(element)``, or of the element itself.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([1, 2]).flatmap(lambda x: [x, -x]))
        [1, -1, 2, -2]
        """
        from datapipes.iter.elements.flatmap import FlatMapper

        return FlatMapper(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            fn,
            input_col,
            on_error=on_error,
            max_errors=max_errors,
        )

    @overload
    def collate(
        self,
        conversion: Callable[[T_co], R],
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[R]: ...
    @overload
    def collate(
        self,
        conversion: Callable[..., Any] | None = ...,
        *,
        collate_fn: Callable[[T_co], R],
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[R]: ...
    @overload
    def collate(
        self,
        conversion: Callable[..., Any] | Mapping[str, Callable[[Any], Any]] | None = ...,
        collate_fn: Callable[..., Any] | None = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[Any]: ...

    def collate(
        self,
        conversion: Callable[..., Any] | Mapping[str, Callable[[Any], Any]] | None = default_collate,
        collate_fn: Callable[..., Any] | None = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[Any]:
        """Each element, usually a batch, as tensors.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(4)).batch(2).collate())
        [tensor([0, 1]), tensor([2, 3])]
        """
        from datapipes.iter.elements.mapping import Collator

        return Collator(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            conversion,
            collate_fn,
            on_error=on_error,
            max_errors=max_errors,
        )

    def enumerate(self, starting_index: int = 0) -> IterDataPipe[tuple[int, T_co]]:
        """``(index, element)`` for each element.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").enumerate())
        [(0, 'a'), (1, 'b')]
        """
        from datapipes.iter.elements.numbering import Enumerator

        return Enumerator(self, starting_index)  # type: ignore[arg-type]  # self is an IterDataPipe

    def header(self, limit: int | None = 10) -> IterDataPipe[T_co]:
        """The first ``limit`` elements.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(100)).header(3))
        [0, 1, 2]
        """
        from datapipes.iter.elements.numbering import Header

        return Header(self, limit)  # type: ignore[arg-type]  # self is an IterDataPipe

    def repeat(self, times: int) -> IterDataPipe[T_co]:
        """Each element ``times`` times in a row.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").repeat(2))
        ['a', 'a', 'b', 'b']
        """
        from datapipes.iter.elements.numbering import Repeater

        return Repeater(self, times)  # type: ignore[arg-type]  # self is an IterDataPipe

    def cycle(self, count: int | None = None) -> IterDataPipe[T_co]:
        """The whole stream ``count`` times over, or without end.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").cycle(2))
        ['a', 'b', 'a', 'b']
        """
        from datapipes.iter.elements.cycle import Cycler

        return Cycler(self, count)  # type: ignore[arg-type]  # self is an IterDataPipe

    def prefetch(self, buffer_size: int = 10) -> IterDataPipe[T_co]:
        """The same elements, up to ``buffer_size`` of them made beforehand by a thread.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").prefetch())
        ['a', 'b']
        """
        from datapipes.iter.placement.prefetch import Prefetcher

        return Prefetcher(self, buffer_size)  # type: ignore[arg-type]  # self is an IterDataPipe

    def fullsync(self, timeout: float = 1800, *, uneven: Uneven = "drop") -> IterDataPipe[Any]:
        """As many elements as every other rank of the process group gives.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("abc").sharding_filter().fullsync())
        ['a', 'b', 'c']
        """
        from datapipes.iter.placement.full_sync import FullSync

        return FullSync(self, timeout, uneven=uneven)  # type: ignore[arg-type]  # self is an IterDataPipe

    def to_map_datapipe(self, key_value_fn: Callable[[Any], Any] | None = None) -> MapDataPipe[Any]:
        """The elements, which are pairs of a key and a value or are made into such, to be looked up by key.

        >>> from datapipes.iter import IterableWrapper
        >>> IterableWrapper([("a", 1), ("b", 2)]).to_map_datapipe()["b"]
        2
        """
        from datapipes.converting.from_iter import IterToMapConverter

        return IterToMapConverter(self, key_value_fn)  # type: ignore[arg-type]  # self is an IterDataPipe
