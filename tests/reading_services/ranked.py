"""One rank of many, played in this process, without a group: its shard and its seeds, without a wait for others."""

from __future__ import annotations

from typing import Any, ClassVar

from datapipes.description import structure
from datapipes.graph import SHARDING_PRIORITIES, Pipe
from datapipes.position import user_classes
from datapipes.sharding import group
from datapipes.sharding.group import RankInfo
from reading_services import ReadingServiceInterface
from reading_services.interface.service import Level, ResetFn


class Ranked(ReadingServiceInterface):
    """A service that gives a rank its part of a graph, up to where ranks would be kept in step."""

    level: ClassVar[Level | None] = "ranks"

    def __init__(self, world: int, rank: int) -> None:
        self.world, self.rank = world, rank

    def planned(self, datapipe: Pipe) -> Pipe:
        return self.initialize(structure.unfold(datapipe))

    def initialize(self, datapipe: Pipe) -> Pipe:
        for stage in structure.walk(datapipe):
            if user_classes.is_sharding(stage):
                user_classes.shard(stage, self.world, self.rank, SHARDING_PRIORITIES.DISTRIBUTED)
        return datapipe

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: ResetFn | None = None) -> ResetFn | None:
        seed_generator.spawn(self.rank, inplace=True)
        group._received = RankInfo(self.rank)
        return iter_reset_fn

    def finalize(self) -> None:
        group._received = RankInfo()
