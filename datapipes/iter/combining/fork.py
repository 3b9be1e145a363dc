"""fork, unzip, demux, round_robin_demux: one stream read by several children, or distributed to them.

One opening of a graph reads the source once. Elements that a child of a fork has not read yet wait for it, up to
``buffer_size``. A child of a demux also takes elements from the source that are another child's; these wait, up to
``buffer_size`` in all. See ``datapipes.iter.combining.hub``. Children that are iterated separately are separate
openings: each reads the source from its start.
"""

from __future__ import annotations

import copy as copying
from collections.abc import Callable, Iterator, Sequence
from operator import index, itemgetter
from typing import Any, ClassVar, TypeVar, cast

from datapipes.description.pipe import IterDataPipe, composed, operator
from datapipes.description.printing import stage
from datapipes.errors import GraphError
from datapipes.iter.combining.hub import SPENT, Child, Folder, Hub, HubCell, Queue
from datapipes.messages.warnings import warn
from datapipes.operator_support.checks import needs, needs_callable, source_length
from datapipes.position.cells import count, fields
from datapipes.position.position_history import Lost

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
    """A list of streams of the same elements, even if there is only one.

    Args:
        num_instances: The number of streams.
        buffer_size: Number of elements that one stream may be ahead of another. A negative number: no limit.
        copy: Whether each stream gets its own copies: ``"shallow"`` or ``"deep"`` ones. ``None``: all streams give the
            same objects.

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
        sequence_length: The number of columns; further columns of an element are ignored.
        buffer_size: Number of whole elements that one stream may be ahead of another. A negative number: no limit.
        columns_to_skip: Positions of columns to leave out; not all of them. ``None``: none.

    >>> from datapipes.iter import IterableWrapper
    >>> letters, numbers = IterableWrapper([("a", 1), ("b", 2)]).unzip(2)
    >>> list(letters), list(numbers)
    (['a', 'b'], [1, 2])
    """
    from datapipes.iter import Mapper

    columns = [i for i in range(sequence_length) if i not in (columns_to_skip or ())]
    if not columns:
        raise GraphError(
            f"All instances are being filtered out in UnZipper: sequence_length={sequence_length}, "
            f"columns_to_skip={columns_to_skip}; keep at least one column"
        )
    children = Forker(source_datapipe, len(columns), buffer_size, buffer_bytes=buffer_bytes, spill_dir=spill_dir)
    return [Mapper(child, itemgetter(column)) for child, column in zip(children, columns, strict=True)]


@operator
class _Fork(Hub):
    _fluent: ClassVar[str | None] = "fork"

    copy: str | None = None

    def __post_init__(self) -> None:
        needs(self.copy in _COPIES, self, f"copy must be None, 'shallow' or 'deep', got {self.copy!r}")
        super().__post_init__()


@operator
class _ForkChild(Child[T_co]):
    def _elements(self, queues: HubCell, mine: Queue) -> Iterator[T_co]:
        main = cast("_Fork", self.main_datapipe)
        limit, copied = main.limit, _COPIES[main.copy]
        source, lock, others = queues.source, queues.lock, queues.others(mine)
        waiting = queues.popped(mine)
        while True:
            while mine:
                for element in waiting:  # noqa: B007  # a signal may arrive after a call, but not here
                    break
                try:
                    is_lost = type(element) is Lost
                except BaseException:  # a signal after the call
                    mine.appendleft(element)
                    raise
                if is_lost:
                    try:
                        raise element.error
                    finally:
                        del element  # a frame that names its own error would keep the iterator alive
                yield element
            element, copies, done = SPENT, None, 0
            try:
                with lock:
                    if mine:
                        continue  # a sibling in another thread was quicker
                    for queue in others:
                        if len(queue) >= limit:
                            queues.need_room(queue)
                        done = 0  # an `if` at the end of a loop has a jump that Python 3.12 to 3.14 do not guard
                    try:
                        for element in source:  # noqa: B007  # used below: a signal may arrive right after next() returns
                            break
                        else:
                            break
                        if copied is not None:
                            copies = [copied(element) for _ in range(1 + len(others))]
                    except BaseException:
                        queues.fail(others)
                        raise
                    for queue in others:
                        done += 1  # before the call: a signal may arrive after it
                        queue.append(element if copies is None else copies[done])
            except (Exception, GeneratorExit):
                raise
            except BaseException:  # an interruption loses no element: all readers get it
                if element is not SPENT and copied is not None and copies is None:
                    queues.put_back(element)
                elif element is not SPENT:
                    for i, queue in enumerate([mine, *others]):
                        if i == 0 or i > done:
                            queue.append(element if copies is None else copies[i])
                raise
            yield element if copies is None else copies[0]
        queues.must_have_ended()

    def __len__(self) -> int:
        return source_length(self, self.main_datapipe.datapipe)


@composed
def Demultiplexer(
    datapipe: IterDataPipe[T_co],
    num_instances: int,
    classifier_fn: Callable[[Any], int | None],
    drop_none: bool = False,
    buffer_size: int = 1000,
    *,
    buffer_bytes: int | None = None,
    spill_dir: Folder | None = None,
) -> list[IterDataPipe[T_co]]:
    """A list of streams that share the elements: a function of each element chooses its stream.

    Args:
        num_instances: The number of streams.
        classifier_fn: A function that returns the number of an element's stream, counted from 0. Any other result is a
            ``ValueError``.
        drop_none: Whether elements for which ``classifier_fn`` returns None are left out, instead of that error.
        buffer_size: Number of elements that may wait for streams that lag, in all. A negative number: no limit.
        buffer_bytes: Bytes of elements that may wait in all, beside ``buffer_size``; the last element may exceed
            it. ``None``: no limit in bytes.

    >>> from datapipes.iter import IterableWrapper
    >>> even, odd = IterableWrapper(range(5)).demux(2, lambda x: x % 2)
    >>> list(even), list(odd)
    ([0, 2, 4], [1, 3])
    """
    hub = _Demux(
        datapipe, num_instances, classifier_fn, drop_none, buffer_size, buffer_bytes=buffer_bytes, spill_dir=spill_dir
    )
    return [_DemuxChild(hub, i) for i in range(num_instances)]


@composed
def RoundRobinDemultiplexer(
    datapipe: IterDataPipe[T_co],
    num_instances: int,
    buffer_size: int = 1000,
    *,
    buffer_bytes: int | None = None,
    spill_dir: Folder | None = None,
) -> list[IterDataPipe[T_co]]:
    """A list of streams that get the elements in turn.

    Args:
        num_instances: The number of streams. With 1, the list holds the source itself, and a warning is given.
        buffer_size: Number of elements that may wait for streams that lag, in all. A negative number: no limit.
        buffer_bytes: Bytes of elements that may wait in all, beside ``buffer_size``; the last element may exceed
            it. ``None``: no limit in bytes.

    >>> from datapipes.iter import IterableWrapper
    >>> a, b = IterableWrapper(range(5)).round_robin_demux(2)
    >>> list(a), list(b)
    ([0, 2, 4], [1, 3])
    """
    hub = _RoundRobin(datapipe, num_instances, buffer_size, buffer_bytes=buffer_bytes, spill_dir=spill_dir)
    if num_instances == 1:
        warn("round_robin_demux(1) distributes nothing: the list holds the stream itself")
        return [datapipe]
    return [_RoundRobinChild(hub, i) for i in range(num_instances)]


@operator
class _Dealer(Hub):
    """Hub that gives each element to one child."""

    _shares_room: ClassVar[bool] = True

    def dealing(self, queues: HubCell) -> Callable[[Any], int | None]:
        """Return the function that returns the number of an element's child, or None for no child."""
        raise NotImplementedError(f"{type(self).__name__} has no dealing")


@operator
class _Demux(_Dealer):
    _fluent: ClassVar[str | None] = "demux"

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
        *,
        buffer_bytes: int | None = None,
        spill_dir: Folder | None = None,
    ) -> None:
        needs_callable("demux", classifier_fn)
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none
        super().__init__(datapipe, num_instances, buffer_size, buffer_bytes=buffer_bytes, spill_dir=spill_dir)

    def dealing(self, queues: HubCell) -> Callable[[Any], int | None]:
        return self._child_of

    def _child_of(self, element: Any) -> int | None:
        answer = self.classifier_fn(element)
        if answer is None and self.drop_none:
            return None
        try:
            child = index(answer)  # type: ignore[arg-type]  # other types are refused below
        except TypeError:
            child = -1
        if 0 <= child < self.num_instances:
            return child
        raise ValueError(
            f"Output of the classification fn should be between 0 and {self.num_instances - 1}, got {answer!r:.80}"
            + ("; drop_none=True drops elements for which it returns None" if answer is None else "")
        )


@operator
class _RoutedChild(Child[T_co]):
    """Child that gets its own share of the elements."""

    def _elements(self, queues: HubCell, mine: Queue) -> Iterator[T_co]:
        main = cast("_Dealer", self.main_datapipe)
        limit, child_of, me = main.limit, main.dealing(queues), self.instance_id
        source, lock, readers, marks = queues.source, queues.lock, queues.readers, queues.marks
        others = [[queue for queue in of_child if queue is not mine] for of_child in readers]
        waiting = queues.popped(mine)
        while True:
            while mine:
                marks.pop()
                for element in waiting:  # a signal may arrive after a call, but not here
                    yield element
                    break
            element, child, done = SPENT, None, -1
            try:
                with lock:
                    if mine:
                        continue  # a sibling in another thread was quicker
                    if len(marks) > limit:
                        queues.need_room(mine)
                    try:
                        for element in source:  # noqa: B007  # used below: a signal may arrive right after next() returns
                            break
                        else:
                            break
                        child = child_of(element)
                    except BaseException:
                        queues.fail()
                        raise
                    queues.turn += 1
                    done = 0
                    if child is None:
                        continue
                    queues.dealt_to = readers[child]
                    for queue in others[child]:  # without an `if`, whose jump back Python 3.12 to 3.14 do not guard
                        marks.append(None)
                        done += 1  # before the call: a signal may arrive after it
                        queue.append(element)
                    if child != me:
                        continue
            except (Exception, GeneratorExit):
                raise
            except BaseException:  # an interruption loses no element: all readers get it
                if done < 0 and element is not SPENT:
                    queues.put_back(element)
                elif done >= 0 and child is not None:
                    for queue in others[child][done:]:
                        queue.append(element)
                    if child == me:
                        mine.append(element)
                raise
            yield element
        queues.must_have_ended()


@operator
class _DemuxChild(_RoutedChild[T_co]):
    def __len__(self) -> int:
        raise TypeError(
            f"{stage(self.main_datapipe)}{stage(self)} doesn't have valid length: it depends on classifier_fn"
        )


@operator
class _RoundRobin(_Dealer):
    _fluent: ClassVar[str | None] = "round_robin_demux"

    def dealing(self, queues: HubCell) -> Callable[[Any], int | None]:
        return cast("_RoundRobinHubCell", queues).next_child

    def _queues(self) -> HubCell:
        return _RoundRobinHubCell(self)


@operator
class _RoundRobinChild(_RoutedChild[T_co]):
    def __len__(self) -> int:
        main = self.main_datapipe
        return len(range(self.instance_id, source_length(self, main.datapipe), main.num_instances))


class _RoundRobinHubCell(HubCell):
    """Queues of waiting elements, and the next child in the round."""

    def __init__(self, hub: _RoundRobin) -> None:
        super().__init__(hub)
        self._of = hub.num_instances

    def next_child(self, element: Any) -> int:
        """Return the child whose turn it is."""
        return self.turn % self._of

    def save(self) -> dict[str, Any]:
        return {"turn": self.turn % self._of, "waiting": super().save()}

    def load(self, saved: Any) -> None:
        turn, waiting = fields(saved, "turn", "waiting")
        self.turn = count(turn, "turn", most=self._of - 1)
        super().load(waiting)
