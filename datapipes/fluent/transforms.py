"""Methods that change what elements hold, several at a time or in the background."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from datapipes.pinning import pin_memory_fn as pin

if TYPE_CHECKING:
    from datapipes.iter.memory_cell import MemoryCell
    from datapipes.pipe import IterDataPipe

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class TransformMethods(Generic[T_co]):
    """drop, slice, flatten, add_index, rows2columnar, set_length, memory_cell, pin_memory."""

    def drop(self, indices: Any) -> IterDataPipe[Any]:
        """The elements without some columns: one index or key, or a list of them.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a", 1), ("b", 2)]).drop(0))
        [(1,), (2,)]
        """
        from datapipes.iter.selecting import Dropper

        return Dropper(self, indices)  # type: ignore[arg-type]  # self is an IterDataPipe

    def slice(self, index: Any, stop: int | None = None, step: int | None = None) -> IterDataPipe[Any]:
        """A part of each element: ``element[index:stop:step]``, or the positions or keys in the list ``index``.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a", 1, 2), ("b", 3, 4)]).slice([0, 2]))
        [('a', 2), ('b', 4)]
        """
        from datapipes.iter.selecting import Slicer

        return Slicer(self, index, stop, step)  # type: ignore[arg-type]  # self is an IterDataPipe

    def flatten(self, indices: Any = None) -> IterDataPipe[Any]:
        """Each element with the containers in it taken apart, one level; all of them, or those at ``indices``.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a", (1, 2)), ("b", (3, 4))]).flatten())
        [('a', 1, 2), ('b', 3, 4)]
        """
        from datapipes.iter.selecting import Flattener

        return Flattener(self, indices)  # type: ignore[arg-type]  # self is an IterDataPipe

    def add_index(self, index_name: str = "index") -> IterDataPipe[dict[Any, Any]]:
        """Each element, which is a dict, with its number stored in it.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([{"x": "a"}, {"x": "b"}]).add_index())
        [{'x': 'a', 'index': 0}, {'x': 'b', 'index': 1}]
        """
        from datapipes.iter.numbering import IndexAdder

        return IndexAdder(self, index_name)  # type: ignore[arg-type]  # self is an IterDataPipe

    def rows2columnar(self, column_names: Collection[Any] | None = None) -> IterDataPipe[dict[Any, list[Any]]]:
        """Each batch of rows as a dict of columns.

        >>> from datapipes.iter import IterableWrapper
        >>> [batch] = IterableWrapper([{"x": 1}, {"x": 2}]).batch(2).rows2columnar()
        >>> batch["x"]
        [1, 2]
        """
        from datapipes.iter.columnar import Rows2Columnar

        return Rows2Columnar(self, column_names)  # type: ignore[arg-type]  # self is an IterDataPipe

    def set_length(self, length: int) -> IterDataPipe[T_co]:
        """The same elements, with a length that the user knows.

        >>> from datapipes.iter import IterableWrapper
        >>> len(IterableWrapper(range(10)).filter(lambda x: x < 5).set_length(5))
        5
        """
        from datapipes.iter.length import LengthSetter

        return LengthSetter(self, length)  # type: ignore[arg-type]  # self is an IterDataPipe

    def memory_cell(self, remember_elements: int = 1000) -> MemoryCell[T_co]:
        """The same elements; the last ones can be asked for.

        >>> from datapipes.iter import IterableWrapper
        >>> dp = IterableWrapper("abc").memory_cell()
        >>> list(dp), dp.get_last()
        (['a', 'b', 'c'], (2, 'c'))
        """
        from datapipes.iter.memory_cell import MemoryCell

        return MemoryCell(self, remember_elements)  # type: ignore[arg-type]  # self is an IterDataPipe

    def pin_memory(self, device: Any = None, pin_memory_fn: Callable[[Any, Any], Any] = pin) -> IterDataPipe[T_co]:
        """The same elements with their tensors in pinned memory; it needs CUDA.

        >>> import torch
        >>> from datapipes.iter import IterableWrapper
        >>> if torch.cuda.is_available():
        ...     assert next(iter(IterableWrapper(range(4)).batch(2).collate().pin_memory())).is_pinned()
        """
        from datapipes.iter.pin_memory import PinMemory

        return PinMemory(self, device, pin_memory_fn)  # type: ignore[arg-type]  # self is an IterDataPipe
