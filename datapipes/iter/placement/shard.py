"""sharding_filter, sharding_round_robin_dispatch: every n-th element of a stream, and distribution to workers.

An element belongs to a shard by its number in the source. An element that could not be made keeps its number: a failure
in one shard does not shift the elements of others. This file has the definition; a session moves the filter up to where
it saves work (``datapipes.rewriting.pushdown``).

``sharding_round_robin_dispatch`` marks where a graph runs once for all workers. The part above the mark is read in one
place, and the workers get its elements in turn, instead of each reading all of it. A reading service with worker
processes finds the mark by its class: ``find_dps(traverse_dps(graph), ShardingRoundRobinDispatcher)``. In one process
the elements pass through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import length_hint
from typing import Any, ClassVar, TypeVar

from datapipes.description import structure
from datapipes.description.indexed import range_of
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.errors import StateError, consumes_element
from datapipes.iter.placement.shared_source import SharedCell
from datapipes.operator_support.checks import same_length
from datapipes.position.cells import Cell, CountCell, count
from datapipes.position.opening import Opening
from datapipes.position.seeds import Run
from datapipes.position.user_classes import sharded_inputs
from datapipes.rewriting import pushdown
from datapipes.sharding.sharding import SHARDING_PRIORITIES, ShardGroups, combined, with_group

T_co = TypeVar("T_co", covariant=True)


@operator
class ShardingFilter(pushdown.Selecting[T_co]):
    """The elements of this shard: all of them, unless the graph is sharded.

    Args:
        sharding_group_filter: The group of shards that applies: ``SHARDING_PRIORITIES.DISTRIBUTED`` for ranks,
            ``SHARDING_PRIORITIES.MULTIPROCESSING`` for workers. ``None``: all groups.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper(range(7)).sharding_filter()
    >>> dp.apply_sharding(3, 1)
    >>> list(dp)
    [1, 4]
    """

    _fluent: ClassVar[str | None] = "sharding_filter"

    source_datapipe: IterDataPipe[T_co]
    sharding_group_filter: SHARDING_PRIORITIES | None = None

    def __post_init__(self) -> None:
        self.groups: ShardGroups = {}
        self._is_shared = False  # whether lanes share the source of this, the copy of a session
        self._opened_as: tuple[int, int] | None = None  # the shard of an opening, set only in the opening's copy

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        """Make this the shard ``instance_id`` of ``num_of_instances``, within one group."""
        self.groups = with_group(self.groups, num_of_instances, instance_id, sharding_group)

    @property
    def num_of_instances(self) -> int:
        """The number of shards over all groups."""
        return combined(self.groups, self.sharding_group_filter)[0]

    @property
    def instance_id(self) -> int:
        """The index of this shard over all groups."""
        return combined(self.groups, self.sharding_group_filter)[1]

    def _shard(self, run: Run) -> tuple[int, int]:
        groups = self.groups
        if run.shard is not None and not groups:
            return run.shard
        if run.worker is not None and set(groups) == {SHARDING_PRIORITIES.DISTRIBUTED}:  # only the rank was set
            groups = with_group(groups, *run.worker, SHARDING_PRIORITIES.MULTIPROCESSING)
        return combined(groups, self.sharding_group_filter)

    def _rewritten_for_run(self, run: Run) -> IterDataPipe[Any]:
        self._opened_as = self._shard(run)  # here, because a filter that is read by position is not opened
        may_share = run.shared is not None and type(self) is ShardingFilter and self._opened_as[0] > 1
        self._is_shared = may_share and not structure.has_hubs(structure.walk(self))
        return self if self._opened_as[0] == 1 else pushdown.pushed(self)

    def _reads(self) -> Iterable[Any]:
        return () if self._is_shared else super()._reads()

    def _slice(self) -> slice:
        of, index = self._opened_as or (self.num_of_instances, self.instance_id)
        return slice(index, None, of)

    def _in_blocks(self, size: int) -> IterDataPipe[Any] | None:
        if type(self) is not ShardingFilter or self._opened_as != (1, 0):
            return None
        source = self.source_datapipe._in_blocks(size)
        return None if source is None else structure.with_parents(self, lambda _: source)

    def _open(self, at: Opening) -> Iterator[Any]:
        of, index = self._opened_as = self._shard(at.run)
        numbers = range_of(self.source_datapipe) if self._of_range else None
        if numbers is not None:
            behind = at.cell(_RangeCell)
            behind.origin = self.source_datapipe._origin
            return behind.following(numbers, of, index)
        if self._is_shared:
            return at.cell(SharedCell).elements(at, self.source_datapipe, of, index)
        source = at.source(self.source_datapipe)
        return source if of == 1 else at.cell(_ShardCell).every(of, index, source)


def as_opened(graph: structure.Pipe, run: Run) -> structure.Pipe:
    """Return a copy of a graph in which sharding filters, and lanes, have the lengths of a run's shard.

    Filters above a ``cycle``, for example, are opened in a session of their own.
    """
    graph = structure.unfold(graph)
    for pipe in structure.walk(graph, inputs=sharded_inputs):
        if isinstance(pipe, ShardingFilter):
            pipe._opened_as = pipe._shard(run)
        elif structure.is_native(pipe) and pipe._shards_above:
            pipe._opened_in = run
    return graph


class _ShardCell(CountCell):
    """Number of elements taken from the source, including those of other shards and those that could not be made."""

    def every(self, of: int, index: int, source: Iterator[Any]) -> Iterator[Any]:
        """Yield the elements of a shard."""
        try:
            # `yield from` would also catch an exception that the consumer throws in.
            for element in islice(self.counting(source), (index - self.given()) % of, None, of):  # noqa: UP028
                yield element
        except GeneratorExit:
            raise
        except BaseException as error:
            self.go_to(self.given() + consumes_element(error))
            raise


class _RangeCell(Cell):
    """Number of a range's numbers before the shard's position: the index of the last one taken plus one."""

    def __init__(self) -> None:
        self._behind = 0
        self._own = range(0)
        self._left: Iterator[int] = iter(())

    def following(self, numbers: range, of: int, index: int) -> Iterator[int]:
        """Return the numbers of a shard from its position on."""
        behind = self.save()
        if behind > len(numbers):
            raise StateError(f"{self.label}: {behind} elements were taken, but there are only {len(numbers)}")
        first = behind + (index - behind) % of
        own, left = range(first, len(numbers), of), iter(numbers[first::of])
        self._behind, self._own, self._left = behind, own, left  # nothing is called in between
        return left

    def save(self) -> int:
        taken = len(self._own) - length_hint(self._left)
        return self._own[taken - 1] + 1 if taken else self._behind

    done = save

    def load(self, saved: Any) -> None:
        self._behind = count(saved)


@operator
class ShardingRoundRobinDispatcher(IterDataPipe[T_co]):
    """The same elements, which worker processes take in turn: the part above runs once for all of them.

    Args:
        sharding_group_filter: The group that gets the elements. Only workers, the default, are possible.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(3)).sharding_round_robin_dispatch())
    [0, 1, 2]
    """

    _fluent: ClassVar[str | None] = "sharding_round_robin_dispatch"
    _commutes: ClassVar[bool] = True
    _passes_through: ClassVar[bool] = True

    source_datapipe: IterDataPipe[T_co]
    sharding_group_filter: SHARDING_PRIORITIES | None = SHARDING_PRIORITIES.MULTIPROCESSING

    def __post_init__(self) -> None:
        if self.sharding_group_filter is not SHARDING_PRIORITIES.MULTIPROCESSING:
            raise NotImplementedError(
                "`sharding_round_robin_dispatch` currently only supports `SHARDING_PRIORITIES.MULTIPROCESSING`, "
                f"got {self.sharding_group_filter!r}, in {stage(self)}"
            )

    def _open(self, at: Opening) -> Iterator[T_co]:
        return at.source(self.source_datapipe)

    __len__ = same_length
