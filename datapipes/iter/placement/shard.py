"""sharding_filter: every n-th element, where n shards share a stream.

An element belongs to a shard by its number in the source, and one that could not be made keeps its number: so a failure
that only one shard meets does not shift what the others take. What is said here is the definition; a session moves the
filter up to where it spares work (``datapipes.rewriting.pushdown``).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar, TypeVar

from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.operators.checks import source_length
from datapipes.parts.sharding import SHARDING_PRIORITIES, ShardGroups, combined, shard_length, with_group
from datapipes.position.counting import Given
from datapipes.position.opening import Opening
from datapipes.position.seeds import Run

T_co = TypeVar("T_co", covariant=True)


@operator
class ShardingFilter(IterDataPipe[T_co]):
    """The elements of this shard: all of them, until somebody shards the graph.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper(range(7)).sharding_filter()
    >>> dp.apply_sharding(3, 1)
    >>> list(dp)
    [1, 4]
    """

    _fluent: ClassVar[str | None] = "sharding_filter"
    _hands_on: ClassVar[bool] = True

    source_datapipe: IterDataPipe[T_co]
    sharding_group_filter: SHARDING_PRIORITIES | None = None

    def __post_init__(self) -> None:
        self.groups: ShardGroups = {}
        self._opened_as: tuple[int, int] | None = None  # the shard that an opening works on, set in its own copy only

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
        if run.worker is not None and set(groups) == {SHARDING_PRIORITIES.DISTRIBUTED}:  # somebody has set the rank
            groups = with_group(groups, *run.worker, SHARDING_PRIORITIES.MULTIPROCESSING)
        return combined(groups, self.sharding_group_filter)

    def _open(self, at: Opening) -> Iterator[T_co]:
        of, index = self._opened_as = self._shard(at.run)
        source = at.source(self.source_datapipe)
        return source if of == 1 else at.cell(_Taken).every(of, index, source)

    def _indexed(self) -> Indexed | None:
        of, index = self._opened_as or (self.num_of_instances, self.instance_id)
        source = indexed(self.source_datapipe)
        if source is None:
            return None
        at = source.at
        return Indexed(shard_length(source.length, of, index), lambda i: at(i * of + index))

    def __len__(self) -> int:
        return shard_length(source_length(self, self.source_datapipe), self.num_of_instances, self.instance_id)


class _Taken(Given):
    """How many elements of the source were taken, those of other shards and those that could not be made included."""

    def every(self, of: int, index: int, source: Iterator[Any]) -> Iterator[Any]:
        """The elements that belong to a shard."""
        try:
            # `yield from` would take an exception of the consumer's for one of the source.
            for element in islice(self.counting(source), (index - self.save()) % of, None, of):  # noqa: UP028
                yield element
        except GeneratorExit:
            raise
        except BaseException:
            self._behind, self._counted = self.save() + 1, None
            raise
