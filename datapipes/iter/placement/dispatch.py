"""sharding_round_robin_dispatch: a mark that says where a graph is run once for all workers.

What is above the mark is read in one place, and its elements are dealt out to the workers in turn, instead of every
worker reading all of it. A reading service with worker processes finds the mark by its class, ``find_dps(traverse_dps
(graph), ShardingRoundRobinDispatcher)``; in one process there is nobody to deal to, and the elements pass through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.operators.checks import same_length
from datapipes.parts.sharding import SHARDING_PRIORITIES
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@operator
class ShardingRoundRobinDispatcher(IterDataPipe[T_co]):
    """The same elements, which worker processes take in turn: what is above is run once for all of them.

    Args:
        sharding_group_filter: The group that elements are dealt to. That can only be the workers, as by default; it is
            taken because torchdata has it, whose own default was refused.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(3)).sharding_round_robin_dispatch())
    [0, 1, 2]
    """

    _fluent: ClassVar[str | None] = "sharding_round_robin_dispatch"
    _commutes: ClassVar[bool] = True
    _hands_on: ClassVar[bool] = True

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
