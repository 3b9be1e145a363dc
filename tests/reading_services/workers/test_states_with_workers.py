"""With workers, too, a state is taken at any element, asks no worker, and is followed by exactly the rest."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.map import SequenceWrapper
from loader2 import DataLoader2
from reading_services.workers.transport import inline, process
from tests.reading_services.workers.in_turn import SEED, Service, numbers, processes, texts, threads


class AtHome(IterDataPipe[Any]):
    """A class of a user's that cannot be copied to workers."""

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        self.source_datapipe = source_datapipe

    def is_replicable(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        yield from enumerate(self.source_datapipe)


def csv_files(folder: Path) -> Pipe:
    paths = []
    for name in range(5):
        paths.append(folder / f"{name}.csv")
        paths[-1].write_text("".join(f"{name},{row}\n" for row in range(3 + name)))
    files = IterableWrapper([str(path) for path in paths]).shuffle().sharding_filter().open_files()
    return files.parse_csv().shuffle(buffer_size=4).batch(2)


def zipped_forks() -> Pipe:
    a, b = numbers(20).shuffle().sharding_filter().fork(2)
    return a.map(str).zip(b.batch(1))


def demultiplexed() -> Pipe:
    a, b = numbers(20).sharding_filter().demux(2, lambda x: int(x % 5 > 2))
    return a.shuffle(buffer_size=3).concat(b)


def multiplexed() -> Pipe:
    return numbers(12).shuffle().sharding_filter().mux(numbers(9).map(str).sharding_filter())


def parity(x: int) -> int:
    return x % 2


def dispatched() -> Pipe:
    return numbers(24).shuffle(buffer_size=5).sharding_round_robin_dispatch().map(str).shuffle(buffer_size=3).batch(2)


KINDS: dict[str, Callable[[Path], Pipe]] = {
    "shuffled above the shard": lambda _: numbers(25).shuffle(buffer_size=7).sharding_filter(),
    "shuffled below it": lambda _: numbers(25).sharding_filter().shuffle(buffer_size=7),
    "files": csv_files,
    "batches": lambda _: numbers(40).shuffle().sharding_filter().batch(3).map(list),
    "fork and zip": lambda _: zipped_forks(),
    "demux": lambda _: demultiplexed(),
    "prefetch": lambda _: numbers(25).shuffle().sharding_filter().map(abs).prefetch(4).map(str),
    "groups": lambda _: numbers(24).shuffle().sharding_filter().groupby(parity, group_size=3, buffer_size=6),
    "cycles": lambda _: numbers(7).shuffle().sharding_filter().cycle(3),
    "mux": lambda _: multiplexed(),
    "dispatched": lambda _: dispatched(),
    "a tail at home": lambda _: AtHome(numbers(20).shuffle().sharding_filter().map(str)).map(repr).batch(2),
    "by key": lambda _: SequenceWrapper(range(30)).map(abs).to_iter_datapipe().shuffle().sharding_filter().batch(2),
}


def states_of(build: Callable[[], Pipe], service: Any) -> tuple[list[list[str]], list[bytes]]:
    """Two epochs, and the state at each element of the first one, before it and behind it, taken without asking."""
    with DataLoader2(build(), reading_service=service) as loader:
        loader.seed(SEED)
        iterator = iter(loader)
        states, first = [pickle.dumps(loader.state_dict())], []
        for element in iterator:
            first += texts([element])
            with pytest.MonkeyPatch.context() as patch:
                for end in (inline.ThreadConsumerEnd, process.PipeConsumerEnd):
                    patch.setattr(end, "send", asked)
                states.append(pickle.dumps(loader.state_dict()))
        return [first, texts(iter(loader))], states


def asked(*_: Any) -> None:
    raise AssertionError("it was called")


def check(service: Service, kind: str, workers: int, folder: Path, some: slice) -> None:
    build = partial(KINDS[kind], folder)
    (first, second), states = states_of(build, service(workers))
    assert first != second or kind == "demux"
    for number in range(len(states))[some]:
        with DataLoader2(build(), reading_service=service(workers)) as again:
            again.load_state_dict(pickle.loads(states[number]))
            assert texts(iter(again)) == first[number:], number
            if number % 5 == 0:
                assert texts(iter(again)) == second, number


@pytest.mark.parametrize("kind", KINDS)
def test_threads_are_resumed_at_every_element(kind: str, tmp_path: Path) -> None:
    for workers in (1, 2, 3):
        check(threads, kind, workers, tmp_path, slice(None))


# Random graphs are resumed in processes as well; of them these have what those do not: files, two ends, a tail at home.
@pytest.mark.parametrize("kind", ["files", "fork and zip", "dispatched", "a tail at home", "by key"])
def test_processes_are_resumed_at_some(kind: str, tmp_path: Path) -> None:
    for workers, some in ((1, slice(3, None, 14)), (2, slice(1, None, 11)), (3, slice(5, None, 17))):
        check(processes, kind, workers, tmp_path, some)
