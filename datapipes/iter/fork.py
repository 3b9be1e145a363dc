"""fork, demux, unzip: one stream read by several children.

Within one opening of a graph the source is read once, and what the children are ahead of each other waits, up to
``buffer_size`` (see ``datapipes.iter.hub``). Children that are iterated by themselves are openings of their own: each
reads the source from its start.
"""

from __future__ import annotations

import copy as copying
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import index, itemgetter
from typing import Any, ClassVar, TypeVar, cast

from datapipes.checks import needs, needs_callable, source_length
from datapipes.describe import stage
from datapipes.errors import GraphError
from datapipes.iter.hub import SPENT, Child, Hub, Lost, Queues
from datapipes.pipe import IterDataPipe

T_co = TypeVar("T_co", covariant=True)

_COPIES: dict[str | None, Callable[[Any], Any] | None] = {None: None, "shallow": copying.copy, "deep": copying.deepcopy}


def Forker(
    datapipe: IterDataPipe[T_co], num_instances: int, buffer_size: int = 1000, copy: str | None = None
) -> list[IterDataPipe[T_co]]:
    """``num_instances`` streams of the same elements, always as a list.

    >>> from datapipes.iter import IterableWrapper
    >>> a, b = IterableWrapper(range(3)).fork(2)
    >>> list(a.zip(b.map(str)))
    [(0, '0'), (1, '1'), (2, '2')]
    """
    hub = _Fork(datapipe, num_instances, buffer_size, copy)
    return [_ForkChild(hub, i) for i in range(num_instances)]


def Demultiplexer(
    datapipe: IterDataPipe[T_co],
    num_instances: int,
    classifier_fn: Callable[[Any], int | None],
    drop_none: bool = False,
    buffer_size: int = 1000,
) -> list[IterDataPipe[T_co]]:
    """``num_instances`` streams; an element goes to the one whose number ``classifier_fn`` returns.

    >>> from datapipes.iter import IterableWrapper
    >>> even, odd = IterableWrapper(range(5)).demux(2, lambda x: x % 2)
    >>> list(even), list(odd)
    ([0, 2, 4], [1, 3])
    """
    hub = _Demux(datapipe, num_instances, classifier_fn, drop_none, buffer_size)
    return [_DemuxChild(hub, i) for i in range(num_instances)]


def UnZipper(
    source_datapipe: IterDataPipe[Any],
    sequence_length: int,
    buffer_size: int = 1000,
    columns_to_skip: Sequence[int] | None = None,
) -> list[IterDataPipe[Any]]:
    """A stream for each column of the elements, but for those skipped.

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
    children = Forker(source_datapipe, len(columns), buffer_size)
    return [child.map(itemgetter(column)) for child, column in zip(children, columns, strict=True)]


class _Fork(Hub):
    _fluent: ClassVar[str | None] = "fork"

    def __init__(
        self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int = 1000, copy: str | None = None
    ) -> None:
        self.datapipe = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        self.copy = copy
        needs(copy in _COPIES, self, f"copy must be None, 'shallow' or 'deep', got {copy!r}")
        self._check()


class _ForkChild(Child[T_co]):
    def _elements(self, queues: Queues, mine: deque[Any]) -> Iterator[T_co]:
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
                        raise queues.overflow(main)
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


class _Demux(Hub):
    _fluent: ClassVar[str | None] = "demux"

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> None:
        needs_callable("demux", classifier_fn)
        self.datapipe = datapipe
        self.num_instances = num_instances
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none
        self.buffer_size = buffer_size
        self._check()

    def child_of(self, element: Any) -> int | None:
        """Where an element goes; None for nowhere."""
        answer = self.classifier_fn(element)
        if answer is None and self.drop_none:
            return None
        try:
            child = index(answer)  # type: ignore[arg-type]  # what is no number is refused below
        except TypeError:
            child = -1
        if 0 <= child < self.num_instances:
            return child
        raise ValueError(
            f"Output of the classification fn should be between 0 and {self.num_instances - 1}, got {answer!r:.80}"
            + ("; drop_none=True drops elements that it returns None for" if answer is None else "")
        )


class _DemuxChild(Child[T_co]):
    def _elements(self, queues: Queues, mine: deque[Any]) -> Iterator[T_co]:
        main = cast("_Demux", self.main_datapipe)
        limit, child_of, me = main.limit, main.child_of, self.instance_id
        source, lock, others = queues.source, queues.lock, queues.others(mine)
        readers = [queues.others(mine, child) for child in range(main.num_instances)]
        while True:
            while mine:
                yield mine.popleft()
            with lock:
                if mine:
                    continue  # a sibling in another thread was quicker
                if sum(map(len, others)) > limit:
                    raise queues.overflow(main)
                element = next(source, SPENT)
                if element is SPENT:
                    return
                child = child_of(element)
                if child is None:
                    continue
                for queue in readers[child]:
                    queue.append(element)
                if child != me:
                    continue
            yield element

    def __len__(self) -> int:
        raise TypeError(
            f"{stage(self.main_datapipe)}{stage(self)} doesn't have valid length: it depends on classifier_fn"
        )
