"""Real SIGINTs at random moments: what came before and what comes after are the whole, at once and resumed.

``python -m tests.interruptions 1000`` sends a thousand of them, prints for each graph how many came in its loop, and
ends with the total. A second number is the seed of the moments.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from time import perf_counter
from typing import Any

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, ReadingServiceInterface, ThreadingReadingService

SEED = 5
LENGTH = 10_000


class Passed(IterDataPipe[Any]):
    """A plain class, which is replayed."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        yield from self.source_datapipe


class Summed(Passed):
    """A class with a state."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.total = 0

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            self.total += element
            yield self.total

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total = state["total"]


class Added(Summed):
    """A class with a state and two inputs."""

    def __init__(self, source_datapipe: Pipe, other: Pipe) -> None:
        super().__init__(source_datapipe)
        self.other = other

    def __iter__(self) -> Iterator[Any]:
        for left, right in zip(self.source_datapipe, self.other, strict=False):
            self.total += left - right
            yield left, right, self.total


def numbers() -> Pipe:
    return IterableWrapper(range(LENGTH)).map(worked)


def worked(x: Any) -> Any:
    return sum([x, 1, -1]) if type(x) is int else x


def is_kept(x: int) -> bool:
    return x % 3 != 1


def third(x: int) -> int:
    return x % 3


def twice(x: Any) -> list[Any]:
    return [x, x]


def forked(zipped: bool) -> Pipe:
    first, second = numbers().fork(2)
    return first.zip(second.map(worked)) if zipped else first.mux(second)


def dealt() -> Pipe:
    first, second, third_ = numbers().demux(3, third)
    return first.zip(second, third_)


GRAPHS: dict[str, Callable[[], Pipe]] = {
    "map": numbers,
    "map, filter, map": lambda: numbers().filter(is_kept).map(worked),
    "a one-shot iterator": lambda: IterableWrapper(iter(range(LENGTH)), deepcopy=False).map(worked),
    "copied elements": lambda: IterableWrapper([[x] for x in range(300)]).map(worked),
    "batch": lambda: numbers().batch(8),
    "unbatch": lambda: numbers().batch(8).unbatch(),
    "map_batches": lambda: numbers().map_batches(list, 7),
    "flatmap": lambda: numbers().flatmap(twice),
    "shuffle": lambda: numbers().shuffle(buffer_size=50),
    "in_batch_shuffle": lambda: numbers().batch(20).in_batch_shuffle(),
    "groupby": lambda: numbers().groupby(third, group_size=5, buffer_size=16),
    "max_token_bucketize": lambda: numbers().max_token_bucketize(2 * LENGTH, worked, buffer_size=20),
    "sliding_window": lambda: numbers().sliding_window(4, step=3),
    "zip": lambda: numbers().zip(numbers(), numbers()),
    "zip_longest": lambda: numbers().zip_longest(numbers().filter(is_kept)),
    "concat": lambda: numbers().concat(numbers()),
    "mux": lambda: numbers().mux(numbers()),
    "mix": lambda: numbers().mix({numbers(): 2}),
    "enumerate, repeat": lambda: numbers().enumerate().repeat(2),
    "cycle": lambda: IterableWrapper(range(200)).map(worked).cycle(5),
    "sharding_filter": lambda: numbers().sharding_filter().map(worked),
    "fork, zip": lambda: forked(zipped=True),
    "fork, mux": lambda: forked(zipped=False),
    "demux": dealt,
    "prefetch": lambda: numbers().prefetch(4),
    "threadpool_map": lambda: IterableWrapper(range(300)).threadpool_map(worked, max_workers=2),
    "retry": lambda: numbers().retry(2),
    "timeout": lambda: IterableWrapper(range(300)).map(worked).timeout(60),
    "a plain class": lambda: Passed(numbers()).batch(3),
    "a class with a state": lambda: Summed(numbers()).batch(3),
    "a class with a state and two inputs": lambda: Added(numbers(), numbers().filter(is_kept)).batch(3),
}

SERVICES: dict[str, Callable[[], ReadingServiceInterface]] = {
    "processes": lambda: MultiProcessingReadingService(2),
    "dispatched": lambda: MultiProcessingReadingService(2),
    "processes as they come": lambda: MultiProcessingReadingService(1, in_order=False),
    "threads": lambda: ThreadingReadingService(2),
}
"""The services of graphs that run in workers. The other graphs run without one."""

GRAPHS["processes"] = GRAPHS["processes as they come"] = GRAPHS["threads"] = GRAPHS["sharding_filter"]
GRAPHS["dispatched"] = lambda: numbers().sharding_round_robin_dispatch().map(worked).batch(3)


def loader(name: str, seed: int | None = SEED) -> DataLoader2[Any]:
    service = SERVICES[name]() if name in SERVICES else None
    made: DataLoader2[Any] = DataLoader2(GRAPHS[name](), reading_service=service)
    if seed is not None:
        made.seed(seed)
    return made


def whole_of(name: str) -> tuple[list[Any], float]:
    """The elements of a graph, and the seconds that they take."""
    with loader(name) as once:
        iterator = iter(once)
        started = perf_counter()
        whole = list(iterator)
    return whole, perf_counter() - started


class Sender:
    """Another process, which sends this one a SIGINT: a thread would have to wait for the interpreter's lock."""

    def __init__(self) -> None:
        program = (
            "import os, signal, sys, time\n"
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "for line in sys.stdin:\n"
            "    time.sleep(float(line))\n"
            "    os.kill(os.getppid(), signal.SIGINT)\n"
            "    print('sent', flush=True)\n"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, after: float) -> None:
        """Have it send one after some seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{after}\n")
        self._process.stdin.flush()

    def wait(self) -> None:
        """Wait until it was sent."""
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def ignored(*_: object) -> None:
    """Do nothing about a signal that comes outside of the loop."""


def interrupt(sender: Sender, name: str, whole: list[Any], after: float, resumed: bool) -> bool:
    """Send a SIGINT after some seconds; return whether it came in the loop. AssertionError if that cost anything."""
    interrupted = loader(name)
    found: list[Any] = []
    iterator = iter(interrupted)
    came, before = False, signal.signal(signal.SIGINT, ignored)
    sender.send(after)
    try:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            found.extend(iterator)
        finally:
            signal.signal(signal.SIGINT, ignored)
    except KeyboardInterrupt:
        came = True
    sender.wait()
    signal.signal(signal.SIGINT, before)
    if resumed and len(found) < len(whole):
        state = pickle.dumps(interrupted.state_dict())
        interrupted.shutdown()
        interrupted = loader(name, None)
        interrupted.load_state_dict(pickle.loads(state))
        iterator = iter(interrupted)
    rest = list(iterator)
    interrupted.shutdown()
    at = next((i for i, (a, b) in enumerate(zip(found + rest, whole, strict=False)) if a != b), None)
    assert found + rest == whole, (
        f"{name}, {'resumed' if resumed else 'the same iterator'}: after {len(found)} of {len(whole)} elements came "
        f"{len(rest)}; the first that differs is {at}: {(found + rest)[at:][:3] if at is not None else ''}"
    )
    return came


def main(number: int = 1000, seed: int = 0) -> int:
    random, met, wrong = Random(seed), Counter[str](), 0
    known = {name: whole_of(name) for name in GRAPHS}
    with Sender() as sender:
        for i in range(20 * number):
            if sum(met.values()) + wrong >= number:
                break
            name = list(GRAPHS)[i % len(GRAPHS)]
            whole, seconds = known[name]
            after, resumed = random.uniform(0, seconds), bool(random.getrandbits(1))
            try:
                met[name] += interrupt(sender, name, whole, after, resumed)
            except Exception as error:
                wrong += 1
                sys.stdout.write(f"{type(error).__name__}: {error}"[:300] + "\n")
    with suppress(BrokenPipeError):
        for name in GRAPHS:
            sys.stdout.write(f"{name:24} {met[name]:4} interrupted\n")
        came, missing = sum(met.values()), [name for name in GRAPHS if not met[name]]
        clean = wrong == 0 and came >= number
        sys.stdout.write(f"never interrupted: {', '.join(missing)}\n" if missing else "")
        sys.stdout.write(
            f"total: {came + wrong} interruptions of {len(GRAPHS)} graphs; {wrong} cost an element or an error: "
            f"{'clean' if clean else 'NOT CLEAN'}\n"
        )
        sys.stdout.flush()
    return int(not clean)


if __name__ == "__main__":
    os._exit(main(*map(int, sys.argv[1:])))
