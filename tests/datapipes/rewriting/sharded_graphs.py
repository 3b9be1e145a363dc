"""Sharded graphs: how they are opened, how they are defined, and a source that notes what it is asked for."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from datapipes.graph import Pipe
from datapipes.iter import IterDataPipe
from datapipes.map import MapDataPipe
from datapipes.position.iterator import PipeIterator
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from datapipes.rewriting import pushdown


class Costly(MapDataPipe[int]):
    """Numbers that note who asked for them."""

    def __init__(self, length: int, *bad: int) -> None:
        self.length = length
        self.bad = bad
        self.asked: list[int] = []

    def __getitem__(self, key: int) -> int:
        self.asked.append(key)
        if key in self.bad:
            raise ValueError(f"{key} is bad")
        return key

    def __len__(self) -> int:
        return self.length


def opened(pipe: Pipe, run: Run) -> PipeIterator[Any]:
    return PipeIterator.over(Session.of(pipe, run))


def shards(pipe: Pipe, of: int, seed: int = 7) -> list[list[Any]]:
    return [list(opened(pipe, Run(seed, shard=(of, index)))) for index in range(of)]


def plainly(pipe: Pipe, of: int, seed: int = 7) -> list[list[Any]]:
    """The shards as they are defined."""
    with patch.object(pushdown, "pushed", lambda shard: shard):
        return shards(pipe, of, seed)


class Own(IterDataPipe[Any]):
    """A class of a user's."""

    def __init__(self, source: Pipe) -> None:
        self.source = source

    def __iter__(self) -> Any:
        yield from self.source


class Remembering(IterDataPipe[Any]):
    """A class of a user's that says what it remembers."""

    def __init__(self, source: Pipe) -> None:
        self.source = source
        self.number = 0

    def __iter__(self) -> Any:
        for element in self.source:
            self.number += 1
            yield self.number, element

    def state_dict(self) -> dict[str, int]:
        return {"number": self.number}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.number = state["number"]
