"""fork, unzip: one stream read by several children.

Within one opening of a graph the source is read once, and what the children are ahead of each other waits, up to
``buffer_size`` (see ``datapipes.iter.combining.hub``). Children that are iterated by themselves are openings of their
own: each reads the source from its start.
"""

from __future__ import annotations

import copy as copying
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, ClassVar, TypeVar, cast

from datapipes.description.composed import composed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import GraphError
from datapipes.iter.combining.hub import SPENT, Child, Folder, Hub, Lost, Queue, Queues
from datapipes.operators.checks import needs, source_length

T_co = TypeVar("T_co", covariant=True)

_COPIES: dict[str | None, Callable[[Any], Any] | None] = {None: None, "shallow": copying.copy, "deep": copying.deepcopy}


@composed
def Forker(
    datapipe: IterDataPipe[T_co],
    num_instances: int,
    buffer_size: int = 1000,
    copy: str | None = None,
    *,
    buffer_bytes: int | None = None,
    spill_dir: Folder | None = None,
) -> list[IterDataPipe[T_co]]:
    """A list of streams of the same elements, also if it is only one.

    Args:
        num_instances: The number of streams.
        buffer_size: How many elements one stream may be ahead of another. A negative number: no limit.
        copy: Whether each stream is given copies of its own: ``"shallow"`` or ``"deep"`` ones. ``None``: all are given
            the same objects.

    >>> from datapipes.iter import IterableWrapper
    >>> a, b = IterableWrapper(range(3)).fork(2)
    >>> list(a.zip(b.map(str)))
    [(0, '0'), (1, '1'), (2, '2')]
    """
    hub = _Fork(datapipe, num_instances, buffer_size, copy, buffer_bytes=buffer_bytes, spill_dir=spill_dir)
    return [_ForkChild(hub, i) for i in range(num_instances)]


@composed
def UnZipper(
    source_datapipe: IterDataPipe[Any],
    sequence_length: int,
    buffer_size: int = 1000,
    columns_to_skip: Sequence[int] | None = None,
    *,
    buffer_bytes: int | None = None,
    spill_dir: Folder | None = None,
) -> list[IterDataPipe[Any]]:
    """A list of streams, one for each column of the elements.

    Args:
        sequence_length: The number of columns; an element may have more, which no stream gives.
        buffer_size: How many elements one stream may be ahead of another; they wait as a whole. A negative number: no
            limit.
        columns_to_skip: The columns that are left out, by position; not all of them. ``None``: none is.

    >>> from datapipes.iter import IterableWrapper
    >>> letters, numbers = IterableWrapper([("a", 1), ("b", 2)]).unzip(2)
    >>> list(letters), list(numbers)
    (['a', 'b'], [1, 2])
    """
    columns = [i for i in range(sequence_length) if i not in (columns_to_skip or ())]
    if not columns:
        raise GraphError(
            f"All instances are being filtered out in UnZipper: sequence_length={sequence_length}, "
            f"columns_to_skip={columns_to_skip}; keep at least one column"
        )
    children = Forker(source_datapipe, len(columns), buffer_size, buffer_bytes=buffer_bytes, spill_dir=spill_dir)
    return [child.map(itemgetter(column)) for child, column in zip(children, columns, strict=True)]


@operator
class _Fork(Hub):
    _fluent: ClassVar[str | None] = "fork"

    copy: str | None = None

    def __post_init__(self) -> None:
        needs(self.copy in _COPIES, self, f"copy must be None, 'shallow' or 'deep', got {self.copy!r}")
        super().__post_init__()


@operator
class _ForkChild(Child[T_co]):
    def _elements(self, queues: Queues, mine: Queue) -> Iterator[T_co]:
        main = cast("_Fork", self.main_datapipe)
        limit, copied = main.limit, _COPIES[main.copy]
        source, lock, others = queues.source, queues.lock, queues.others(mine)
        while True:
            while mine:
                element = mine.popleft()
                if type(element) is Lost:
                    try:
                        raise element.error
                    finally:
                        del element  # a frame that names its own error would keep the iterator alive
                yield element
            with lock:
                if mine:
                    continue  # a sibling in another thread was quicker
                for queue in others:
                    if len(queue) >= limit:
                        queues.need_room(queue)
                try:
                    element = next(source, SPENT)
                    if element is SPENT:
                        return
                    if copied is not None:
                        element, *copies = [copied(element) for _ in range(1 + len(others))]
                except BaseException as error:
                    queues.lose(error, others)
                    raise
                if copied is None:
                    for queue in others:
                        queue.append(element)
                else:
                    for queue, own in zip(others, copies, strict=True):
                        queue.append(own)
            yield element

    def __len__(self) -> int:
        return source_length(self, self.main_datapipe.datapipe)
