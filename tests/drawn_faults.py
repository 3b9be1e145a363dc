"""Drawn graphs with a drawn fault: with it they give what they give without, in the same iterator and after a resume.

``python -m tests.drawn_faults 500 [SEED]`` draws so many and prints those that do not. The faults:

- an exception that is no ``Exception``, raised once by a function, or Ctrl-C that comes while the function runs;
- elements that are late;
- elements that kill their worker, which are left out, below replayed classes and classes with two inputs;
- workers that are ended by SIGTERM.

All of it runs in a program with signal handlers of its own, which no worker may run.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import Any, ClassVar

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from datapipes.errors import PullTimeout
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from datapipes.iter.placement.retry import Retrier
from loader2 import DataLoader2
from tests.datapipes.position.written_for_torchdata import SeveralSources
from tests.fuzzing.kit import hang_is_an_error
from tests.laws.test_late_elements import Late
from tests.naive_functions import as_text, tagged
from tests.naive_graphs import Graph, built_over
from tests.reading_services.workers.in_turn import processes
from tests.reading_services.workers.signal_handlers import program_handles
from tests.reading_services.workers.test_random_graphs_in_workers import SLOW, UNSHARDED
from tests.reading_services.workers.test_restarts import BELOW, kills, workers_of
from tests.test_random_graphs import GRAPH, SEEDS

PATIENCE = 240.0  # seconds for one case
MOST_RAISED = 100
RESTARTS = 100


class Stopped(BaseException):
    """An exception that is no ``Exception``."""


RAISED: dict[str, type[BaseException]] = {
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": SystemExit,
    "own": Stopped,
}
_OF_A_FAULT: tuple[type[BaseException], ...] = (*RAISED.values(), PullTimeout)
IN_PROCESS = [*RAISED, "Ctrl-C", "late"]
IN_WORKERS = [*IN_PROCESS, "deadly", "terminated"]


OF_TWO: dict[str, Callable[[Pipe, Pipe], Pipe]] = {"SeveralSources": SeveralSources}
SECOND = range(100, 112)


@dataclass(frozen=True)
class Case:
    """A graph, the fault, and where both run."""

    fault: str
    at: frozenset[int]
    """Which of each source's first elements it comes with."""
    graph: Graph
    below: tuple[str, ...]
    """What is below the graph, of ``BELOW`` and ``OF_TWO``."""
    seed: int
    saved: int
    """After how many elements a state is saved, beside those that are saved after each exception."""
    workers: int = 0
    sharded: str = ""
    """Where: at the "sources", at the "end", or "dispatched"."""

    def loader(self, faulty: bool = True, resumed: bool = False) -> DataLoader2[Any]:
        """A loader of the graph, with or without the fault."""
        graph = built_over(self.graph, partial(self._above, faulty))
        for name in self.below:
            if name in OF_TWO:
                graph = OF_TWO[name](graph, self._above(faulty, IterableWrapper(SECOND)))
            else:
                graph = BELOW[name](graph)
        if self.sharded == "dispatched":
            graph = graph.sharding_round_robin_dispatch().map(tagged)
        elif self.sharded == "end":
            graph = graph.sharding_filter().map(tagged)
        restarts: dict[str, Any] = {"restart": RESTARTS} if self.fault in ("deadly", "terminated") else {}
        restarts |= {"on_death": "skip"} if self.fault == "deadly" else {}
        service = processes(self.workers, **restarts) if self.workers else None
        loader: DataLoader2[Any] = DataLoader2(graph, reading_service=service)
        if not resumed:
            loader.seed(self.seed)
        return loader

    def _above(self, faulty: bool, source: Pipe) -> Pipe:
        """A source with the fault, or with the same stages without it."""
        if self.sharded == "sources":
            source = source.sharding_filter()
        at = self.at if faulty else frozenset[int]()
        if self.fault == "late":
            return Late(source, set(at))
        if self.fault == "deadly":
            bad = frozenset(first + x for x in self.at for first in (0, 100, 200))
            return source.map(partial(kills, bad, signal.SIGKILL)) if faulty else source.filter(lambda x: x not in bad)
        return source.map(_Once(self.fault, at))


class _Once:
    """A function that raises, or sends Ctrl-C, the first time that it is called with an element in a process."""

    _numbers: ClassVar = count()
    _came: ClassVar[set[tuple[int, int]]] = set()

    def __init__(self, fault: str, at: frozenset[int]) -> None:
        self.fault, self.at = fault, at
        self.number, self.main = next(self._numbers), os.getpid()

    def __call__(self, x: int) -> int:
        if x % 100 in self.at and (self.number, x) not in self._came:
            self._came.add((self.number, x))
            if self.fault in RAISED:
                raise RAISED[self.fault]
            if self.fault == "Ctrl-C" and _may_interrupt():
                os.kill(self.main, signal.SIGINT)
        return x


def cases(fault: str, in_workers: bool) -> st.SearchStrategy[Case]:
    """Cases with a fault."""
    at = st.frozensets(st.integers(0, 8), min_size=1, max_size=2)
    below = st.lists(st.sampled_from(sorted(BELOW | OF_TWO)), max_size=2).map(tuple)
    drawn = [st.just(fault), at, GRAPH, below, SEEDS, st.integers(0, 20)]
    if in_workers:
        # What is left out above the end of a shard would leave it open whose the next element is.
        where = ["sources", "dispatched", *["end"] * (fault != "deadly")]
        drawn[2] = UNSHARDED
        drawn += [st.integers(1, 3), st.sampled_from(where)]
    return st.builds(Case, *drawn)


def check(case: Case) -> bool:
    """Run a case and return whether the fault came; AssertionError if it changes anything."""
    with _program(), hang_is_an_error(PATIENCE):
        with case.loader(faulty=False) as loader:
            whole = list(map(as_text, loader))
        found: list[Any] = []
        states: list[tuple[int, bytes]] = []
        with case.loader() as loader:
            iterator = iter(loader)

            def save() -> None:
                states.append((len(found), pickle.dumps(loader.state_dict())))

            for part in (islice(iterator, case.saved), iterator):
                while len(states) < MOST_RAISED and _raises(found, part):
                    save()
                if part is not iterator:
                    save()
                    if case.fault == "terminated":
                        os.kill(workers_of(loader)[case.seed % case.workers], signal.SIGTERM)
            came = case.fault == "terminated" or len(states) > 1 or bool(loader.errors)
        texts = list(map(as_text, found))
        _must_equal(texts, whole, "the same iterator")
        for after, state in dict(states).items():
            with case.loader(case.fault == "deadly", resumed=True) as loader:
                loader.load_state_dict(pickle.loads(state))
                if after < len(whole):  # behind the end, another epoch may begin
                    _must_equal(texts[:after] + list(map(as_text, loader)), whole, f"resumed after {after}")
    return came


_INTERRUPTS = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
"""Whether Ctrl-C may come: several processes would send it, and it comes once at a time."""


def _may_interrupt() -> bool:
    try:
        return os.eventfd_read(_INTERRUPTS) > 0
    except BlockingIOError:
        return False


def _raises(found: list[Any], iterator: Iterator[Any]) -> bool:
    """Take elements; return whether an exception of the fault ended that."""
    try:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.eventfd_write(_INTERRUPTS, 1)
            found.extend(iterator)
        finally:
            signal.signal(signal.SIGINT, _ignored)
            _may_interrupt()
    except _OF_A_FAULT:
        return True
    return False


def _must_equal(found: list[str], whole: list[str], how: str) -> None:
    at = next((i for i, (a, b) in enumerate(zip(found, whole, strict=False)) if a != b), min(len(found), len(whole)))
    assert found == whole, f"{how}: {len(found)} of {len(whole)}, from {at}: {found[at:][:4]} not {whole[at:][:4]}"


@contextmanager
def _program() -> Iterator[None]:
    """A program that handles signals, and whose Ctrl-C is for the loop alone."""
    before = signal.signal(signal.SIGINT, _ignored)
    pause, Retrier._pause = Retrier._pause, lambda self, attempt: 0.0  # type: ignore[method-assign]  # put back below
    try:
        with program_handles(), warnings.catch_warnings(action="ignore"):
            yield
    finally:
        Retrier._pause = pause  # type: ignore[method-assign]  # its own again
        signal.signal(signal.SIGINT, before)


def _ignored(*_: object) -> None:
    """Ignore a Ctrl-C that comes outside of the loop."""


def main(number: int, start: int = 0) -> int:
    """Run so many drawn cases and print those that go wrong."""
    ran, met = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    wrong = 0

    def run(case: Case) -> None:
        nonlocal wrong
        ran[key := (case.fault, case.sharded or "in process")] += 1
        try:
            met[key] += check(case)
        except BaseException as error:
            wrong += 1
            sys.stdout.write(f"{type(error).__name__}: {error}"[:600] + f"\n    {case}\n")
            sys.stdout.flush()
            if isinstance(error, MemoryError):
                raise

    each = -(-number // (len(IN_PROCESS) + len(IN_WORKERS)))
    drawn = settings(
        max_examples=each, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=SLOW
    )
    for fault in IN_WORKERS:
        for in_workers in [False, True] if fault in IN_PROCESS else [True]:
            seed(start)(drawn(given(cases(fault, in_workers))(run)))()
    for key, times in sorted(ran.items()):
        sys.stdout.write(f"{key[0]:18} {key[1]:11} {times:5} drawn, {met[key]:5} came\n")
    sys.stdout.write(f"{wrong} of {ran.total()} wrong\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
