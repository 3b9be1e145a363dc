"""Methods that change what elements hold, several at a time or in the background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from datapipes.memory.pinning import pin_memory_fn as pin

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe
    from datapipes.iter.caching.memory_cell import MemoryCell
    from datapipes.iter.elements.shuffled_flatmap import ShuffledFlatMapper
    from datapipes.position.on_error import OnError

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class TransformMethods(Generic[T_co]):
    """shuffled_flatmap, map_batches, async_map_batches, threadpool_map, drop, slice, flatten, add_index and others."""

    def shuffled_flatmap(
        self,
        fn: Callable[..., Iterable[R]] | None = None,
        input_col: Any = None,
        buffer_size: int = 100,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> ShuffledFlatMapper[R]:
        """Every element of ``fn(element)``, or of the element itself, those of several elements interleaved at random.

        >>> from datapipes.iter import IterableWrapper
        >>> sorted(IterableWrapper([1, 2]).shuffled_flatmap(lambda x: [x, -x]))
        [-2, -1, 1, 2]
        """
        from datapipes.iter.elements.shuffled_flatmap import ShuffledFlatMapper

        source: IterDataPipe[Any] = self  # type: ignore[assignment]  # self is an IterDataPipe
        return ShuffledFlatMapper(source, fn, input_col, buffer_size, on_error=on_error, max_errors=max_errors)

    def map_batches(
        self,
        fn: Callable[[list[Any]], Iterable[R]],
        batch_size: int,
        input_col: Any = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[R]:
        """Every element of ``fn(batch)``, for lists of ``batch_size`` elements.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([1, 2, 3]).map_batches(lambda batch: [x + len(batch) for x in batch], batch_size=2))
        [3, 4, 4]
        """
        from datapipes.iter.elements.batch_mapping import BatchMapper

        source: IterDataPipe[Any] = self  # type: ignore[assignment]  # self is an IterDataPipe
        return BatchMapper(source, fn, batch_size, input_col, on_error=on_error, max_errors=max_errors)

    def async_map_batches(
        self,
        async_fn: Callable[..., Awaitable[Any]],
        batch_size: int,
        input_col: Any = None,
        output_col: Any = None,
        max_concurrency: int = 32,
        flatten: bool = True,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[Any]:
        """``await async_fn(element)`` for each element, those of a batch at work at the same time.

        >>> from datapipes.iter import IterableWrapper
        >>> async def tenfold(x):
        ...     return 10 * x
        >>> list(IterableWrapper([1, 2, 3]).async_map_batches(tenfold, batch_size=2))
        [10, 20, 30]
        """
        from datapipes.iter.elements.async_batches import BatchAsyncMapper

        return BatchAsyncMapper(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            async_fn,
            batch_size,
            input_col,
            output_col,
            max_concurrency,
            flatten,
            on_error=on_error,
            max_errors=max_errors,
        )

    def threadpool_map(
        self,
        fn: Callable[..., R],
        input_col: Any = None,
        output_col: Any = None,
        scheduled_tasks: int = 128,
        max_workers: int | None = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **threadpool_kwargs: Any,
    ) -> IterDataPipe[R]:
        """``fn`` of each element, called in a pool of threads; the order is kept.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([1, 2, 3]).threadpool_map(lambda x: 10 * x, max_workers=2))
        [10, 20, 30]
        """
        from datapipes.iter.elements.threadpool import ThreadPoolMapper

        return ThreadPoolMapper(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            fn,
            input_col,
            output_col,
            scheduled_tasks,
            max_workers,
            on_error=on_error,
            max_errors=max_errors,
            **threadpool_kwargs,
        )

    def drop(self, indices: Any) -> IterDataPipe[Any]:
        """The elements without some columns: one index or key, or a list of them.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a", 1), ("b", 2)]).drop(0))
        [(1,), (2,)]
        """
        from datapipes.iter.elements.selecting import Dropper

        return Dropper(self, indices)  # type: ignore[arg-type]  # self is an IterDataPipe

    def slice(self, index: Any, stop: int | None = None, step: int | None = None) -> IterDataPipe[Any]:
        """A part of each element: ``element[index:stop:step]``, or the positions or keys in the list ``index``.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a", 1, 2), ("b", 3, 4)]).slice([0, 2]))
        [('a', 2), ('b', 4)]
        """
        from datapipes.iter.elements.selecting import Slicer

        return Slicer(self, index, stop, step)  # type: ignore[arg-type]  # self is an IterDataPipe

    def flatten(
        self, indices: Any = None, *, on_error: OnError = "raise", max_errors: int | float | None = None
    ) -> IterDataPipe[Any]:
        """Each element with the containers in it taken apart, one level; all of them, or those at ``indices``.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a", (1, 2)), ("b", (3, 4))]).flatten())
        [('a', 1, 2), ('b', 3, 4)]
        """
        from datapipes.iter.elements.selecting import Flattener

        source: IterDataPipe[Any] = self  # type: ignore[assignment]  # self is an IterDataPipe
        return Flattener(source, indices, on_error=on_error, max_errors=max_errors)

    def add_index(self, index_name: str = "index") -> IterDataPipe[dict[Any, Any]]:
        """Each element, which is a dict, with its number stored in it.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([{"x": "a"}, {"x": "b"}]).add_index())
        [{'x': 'a', 'index': 0}, {'x': 'b', 'index': 1}]
        """
        from datapipes.iter.elements.numbering import IndexAdder

        return IndexAdder(self, index_name)  # type: ignore[arg-type]  # self is an IterDataPipe

    def rows2columnar(
        self,
        column_names: Collection[Any] | None = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[dict[Any, list[Any]]]:
        """Each batch of rows as a dict of columns.

        >>> from datapipes.iter import IterableWrapper
        >>> [batch] = IterableWrapper([{"x": 1}, {"x": 2}]).batch(2).rows2columnar()
        >>> batch["x"]
        [1, 2]
        """
        from datapipes.iter.elements.columnar import Rows2Columnar

        source: IterDataPipe[Any] = self  # type: ignore[assignment]  # self is an IterDataPipe
        return Rows2Columnar(source, column_names, on_error=on_error, max_errors=max_errors)

    def set_length(self, length: int) -> IterDataPipe[T_co]:
        """The same elements, with a length that the user knows.

        >>> from datapipes.iter import IterableWrapper
        >>> len(IterableWrapper(range(10)).filter(lambda x: x < 5).set_length(5))
        5
        """
        from datapipes.iter.elements.length import LengthSetter

        return LengthSetter(self, length)  # type: ignore[arg-type]  # self is an IterDataPipe

    def memory_cell(self, remember_elements: int = 1000) -> MemoryCell[T_co]:
        """The same elements; the last ones can be asked for.

        >>> from datapipes.iter import IterableWrapper
        >>> dp = IterableWrapper("abc").memory_cell()
        >>> list(dp), dp.get_last()
        (['a', 'b', 'c'], (2, 'c'))
        """
        from datapipes.iter.caching.memory_cell import MemoryCell

        return MemoryCell(self, remember_elements)  # type: ignore[arg-type]  # self is an IterDataPipe

    def pin_memory(self, device: Any = None, pin_memory_fn: Callable[[Any, Any], Any] = pin) -> IterDataPipe[T_co]:
        """The same elements with their tensors in pinned memory; it needs CUDA.

        >>> import torch
        >>> from datapipes.iter import IterableWrapper
        >>> if torch.cuda.is_available():
        ...     assert next(iter(IterableWrapper(range(4)).batch(2).collate().pin_memory())).is_pinned()
        """
        from datapipes.iter.placement.pin_memory import PinMemory

        return PinMemory(self, device, pin_memory_fn)  # type: ignore[arg-type]  # self is an IterDataPipe
