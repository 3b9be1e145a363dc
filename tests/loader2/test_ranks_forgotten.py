"""A loader on the ranks of a process group says so, once, if no reading service gives each rank its part."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from datapipes.graph import apply_sharding
from datapipes.iter import IterableWrapper
from datapipes.sharding.sharding import SHARDING_PRIORITIES
from loader2 import DataLoader2
from reading_services import (
    DistributedReadingService,
    InProcessReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
    ThreadingReadingService,
)
from tests.many_ranks import on_ranks


class OfAUser(ReadingServiceInterface):
    """A service that may shard by rank itself."""

    def initialize(self, datapipe: Any) -> Any:
        return datapipe


FORGOTTEN: dict[str, tuple[Callable[[], Any], str]] = {
    "no service": (lambda: None, "Pass reading_service=DistributedReadingService()"),
    "in process": (
        InProcessReadingService,
        "Pass SequentialReadingService(DistributedReadingService(), InProcessReadingService(...))",
    ),
    "workers": (
        lambda: ThreadingReadingService(2),
        "Pass SequentialReadingService(DistributedReadingService(), ThreadingReadingService(...))",
    ),
    "a chain": (lambda: SequentialReadingService(ThreadingReadingService(2), InProcessReadingService()), "Pass Seq"),
}
SEEN_TO: dict[str, Callable[[], Any]] = {
    "ranks": DistributedReadingService,
    "ranks in a chain": lambda: SequentialReadingService(DistributedReadingService(), ThreadingReadingService(2)),
    "a user's": OfAUser,
}


def said(service: Any, sharded_as: tuple[int, int] | None = None) -> list[str]:
    """The warnings of two epochs."""
    graph = IterableWrapper(range(4)).sharding_filter()
    if sharded_as is not None:
        apply_sharding(graph, *sharded_as, SHARDING_PRIORITIES.DISTRIBUTED)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with DataLoader2(graph, reading_service=service) as loader:
            for _ in range(2):
                assert len(list(loader)) in (2, 4)
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(("service", "remedy"), FORGOTTEN.values(), ids=FORGOTTEN.keys())
def test_it_is_said_once_with_the_remedy(service: Callable[[], Any], remedy: str) -> None:
    for rank, texts in enumerate(on_ranks(2, lambda _: said(service()))):
        assert len(texts) == 1
        assert texts[0].startswith(f"this is rank {rank} of 2, and no reading service of this DataLoader2 is for ranks")
        assert remedy in texts[0]
    assert said(service()) == [], "there is one rank"


@pytest.mark.parametrize("service", SEEN_TO.values(), ids=SEEN_TO.keys())
def test_it_is_not_said_where_somebody_may_see_to_it(service: Callable[[], Any]) -> None:
    assert on_ranks(2, lambda _: said(service())) == [[], []]


def test_it_is_not_said_of_a_graph_that_was_sharded() -> None:
    assert on_ranks(2, lambda rank: said(None, (2, rank))) == [[], []]
