"""What is no pipe, in place of one: said in the user's words when the graph is opened, whichever stage reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from datapipes.errors import GraphError
from datapipes.iter import Batcher, Cycler, FlatMapper, Forker, IterableWrapper, Mapper, Prefetcher, ShardingFilter
from loader2 import DataLoader2

STAGES: list[Callable[[Any], Any]] = [
    *(lambda given: Mapper(given, str), lambda given: Batcher(given, 2), lambda given: Cycler(given, 2)),
    *(FlatMapper, Prefetcher, ShardingFilter, lambda given: Forker(given, 2)[0]),
]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("given", [[1, 2], range(2)], ids=["list", "range"])
def test_it_is_named_with_the_remedy(stage: Callable[[Any], Any], given: Any) -> None:
    with pytest.raises(GraphError, match=rf"expects a pipe, got {type(given).__name__}.*IterableWrapper"):
        list(DataLoader2(stage(given)))
    assert len(list(stage(IterableWrapper([[1], [2]])))) >= 1
