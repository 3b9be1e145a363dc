"""Ranks as threads that take turns: an exchange without sockets and clocks, whose order of events is drawn.

One rank runs at a time. Where it waits, another one goes on, which is drawn from those that have what they wait for.
When none has, nothing can happen any more, and the time of one that waits is up.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from random import Random
from threading import Condition, Semaphore
from typing import Any, TypeVar

from datapipes.ranks.exchange import Exchange
from datapipes.ranks.topics import News

T = TypeVar("T")


class Turns:
    """Who waits for what; the order is drawn from a seed."""

    def __init__(self, world: int, seed: int) -> None:
        self._random = Random(seed)
        self._waits: dict[int, Callable[[], object]] = dict.fromkeys(range(world), lambda: True)
        self._turn = [Semaphore(0) for _ in range(world)]

    def wait_for(self, rank: int, ready: Callable[[], object]) -> bool:
        """Let others run until ``ready``; False if it never will be."""
        self._waits[rank] = ready
        self.end()
        self.begin(rank)
        return bool(ready())

    def begin(self, rank: int) -> None:
        """Wait for the first turn."""
        self._turn[rank].acquire()

    def end(self) -> None:
        """Let another one run, if there is one left."""
        if self._waits:
            able = [rank for rank, ready in self._waits.items() if ready()]
            rank = self._random.choice(able or list(self._waits))
            del self._waits[rank]
            self._turn[rank].release()


class _Changed(Condition):
    """A condition without a lock and without notifications: waiting ranks are polled."""

    def __init__(self, rank: int, turns: Turns) -> None:
        super().__init__()
        self._rank, self._turns = rank, turns

    def wait_for(self, predicate: Callable[[], object], timeout: float | None = None) -> Any:
        return self._turns.wait_for(self._rank, predicate)

    def notify_all(self) -> None:
        pass


class InTurns(Exchange):
    """The part of one of these ranks."""

    def __init__(self, rank: int, turns: Turns, ranks: list[InTurns]) -> None:
        super().__init__(rank)
        self._changed = _Changed(rank, turns)
        self._ranks = ranks
        self._turns = turns
        self._closed = False

    def others_run(self, until: Callable[[], object] = lambda: True) -> bool:
        """Let others run, at least until something has come about; False if it never will."""
        return self._turns.wait_for(self.rank, until)

    def die(self) -> None:
        """End without a word of one's own."""
        self._closed = True
        self._spread({"news": "died", "key": None, "rank": self.rank, "how": "it was told to"})

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._spread({"news": "gone", "key": None, "rank": self.rank})

    def _pass_on(self) -> None:
        if self._topic is not None and self._key is not None and not self._silent():
            whole = self._topic.merged([as_data(rank._own) for rank in self._ranks])
            for rank in self._ranks:
                rank._decided(self._key, as_data(self._topic.verdict(whole)))

    def _spread(self, news: News) -> None:
        for rank in self._ranks:
            rank._note(as_data(news))

    def _late(self) -> list[int]:
        topic = self._topic
        assert topic is not None
        return self._silent() or topic.behind({rank.rank: rank._own for rank in self._ranks})

    def _silent(self) -> list[int]:
        return [rank.rank for rank in self._ranks if rank._key != self._key]


def as_data(said: Any) -> Any:
    """What arrives somewhere else."""
    return json.loads(json.dumps(said))


def in_turns(world: int, run: Callable[[InTurns], T], seed: int = 0) -> list[T]:
    """Results of a function on each rank, by rank."""
    turns = Turns(world, seed)
    ranks: list[InTurns] = []
    ranks.extend(InTurns(rank, turns, ranks) for rank in range(world))

    def be(exchange: InTurns) -> T:
        turns.begin(exchange.rank)
        try:
            with closing(exchange):
                return run(exchange)
        finally:
            turns.end()

    with ThreadPoolExecutor(world) as pool:
        futures = [pool.submit(be, exchange) for exchange in ranks]
        turns.end()
        return [future.result() for future in futures]
