"""What a user reads of a graph has the user's words: no name of a class that is not public, under any service."""

from __future__ import annotations

import os
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

import datapipes.iter
import datapipes.map
import loader2
import reading_services
import reading_services.ipu
from datapipes.graph import Pipe, to_mermaid, to_text
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import (
    DistributedReadingService,
    InProcessReadingService,
    MultiProcessingReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
    ThreadingReadingService,
)
from tests.test_house import PACKAGES, ROOT

PUBLIC = (
    *(datapipes, datapipes.errors, datapipes.graph, datapipes.iter, datapipes.map),
    *(loader2, loader2.random, reading_services, reading_services.ipu),
)
DEFINED = re.compile(r"^ *class (\w+)", re.MULTILINE)
ALLOWED = {name for module in PUBLIC for name in dir(module)}
INTERNAL = {
    name
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    for name in DEFINED.findall(path.read_text("utf-8"))
} - ALLOWED

SERVICES: dict[str, Callable[[], ReadingServiceInterface | None]] = {
    "none": lambda: None,
    "in process": InProcessReadingService,
    "threads": partial(ThreadingReadingService, 2),
    "processes": partial(MultiProcessingReadingService, 2),
    "restarted": partial(MultiProcessingReadingService, 2, restart=1),
    "in turn": lambda: SequentialReadingService(DistributedReadingService(), MultiProcessingReadingService(2)),
}
WITH_PROCESSES = ("processes", "restarted", "in turn")


def fail_on_5(x: Any) -> Any:
    if x == 5:
        raise ValueError("five")
    return x


def die_on_5(x: int) -> int:
    return os._exit(3) if x == 5 else x


def is_odd(x: int) -> int:
    return x % 2


class Mine(IterDataPipe[int]):
    """A class of a user's, which says what it reads."""

    def __init__(self, source: IterDataPipe[int]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[int]:
        for x in self.source:
            if x == 5:
                raise ValueError(f"in {self.source}")
            yield x


def numbers() -> IterableWrapper[int]:
    return IterableWrapper(list(range(12)))


def sharded() -> Pipe:
    return numbers().shuffle().sharding_filter().map(fail_on_5).batch(2)


def forked() -> Pipe:
    a, b = numbers().map(fail_on_5).sharding_filter().fork(2)
    return a.zip(b.prefetch(2))


def split() -> Pipe:
    a, b = numbers().demux(2, is_odd)
    return a.concat(b.map(fail_on_5)).sharding_filter()


def drawn() -> Pipe:
    train, _ = numbers().random_split({"train": 11, "valid": 1}, seed=0)
    return train.sharding_filter().map(fail_on_5)


def of_a_user() -> Pipe:
    return Mine(numbers().sharding_filter().fork(1)[0])


def dispatched() -> Pipe:
    return numbers().map(fail_on_5).sharding_round_robin_dispatch().batch(2)


def below_dispatched() -> Pipe:
    return numbers().sharding_round_robin_dispatch().map(fail_on_5)


def synchronized() -> Pipe:
    return numbers().sharding_filter().map(fail_on_5).fullsync()


def died() -> Pipe:
    return numbers().sharding_filter().map(die_on_5).batch(2)


def died_dispatched() -> Pipe:
    return numbers().map(die_on_5).sharding_round_robin_dispatch()


GRAPHS = (sharded, forked, split, drawn, of_a_user, dispatched, below_dispatched, synchronized)
DYING = (died, died_dispatched)


def texts_of(make: Callable[[], DataLoader2[Any]]) -> list[str]:
    """Return what a user may read of a loader from its start to its failure; the failure's text is the first."""
    texts: list[str] = []
    failure: Exception | None = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            with closing(_Shown(make(), texts)) as shown:
                shown.iterate()
        except Exception as error:
            failure = error
    assert failure is not None, "it was to fail"
    return ["".join(traceback.format_exception_only(failure)), *texts, *(str(each.message) for each in warned)]


class _Shown:
    """A loader, shown at each step."""

    def __init__(self, loader: DataLoader2[Any], texts: list[str]) -> None:
        self.loader, self.texts = loader, texts
        self.show()

    def show(self) -> None:
        graph = self.loader.datapipe
        self.texts += [repr(self.loader), str(graph), to_text(graph), to_mermaid(graph), graph.draw()]

    def iterate(self) -> None:
        elements = iter(self.loader)
        self.show()
        next(elements)
        self.show()
        list(elements)

    def close(self) -> None:
        self.loader.shutdown()


def internal_names(texts: list[str]) -> dict[str, str]:
    return {name: text for text in texts for name in re.findall(r"\b[A-Z_]\w+\b", text) if name in INTERNAL}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("graph", [*GRAPHS, *DYING], ids=lambda graph: graph.__name__)
def test_no_text_has_the_name_of_an_internal_class(graph: Callable[[], Pipe], service: str) -> None:
    if graph in DYING and service not in WITH_PROCESSES:
        pytest.skip("it would end this process")
    texts = texts_of(lambda: DataLoader2(graph(), reading_service=SERVICES[service]()))
    assert "raised in stage" in texts[0]
    assert not internal_names(texts)


def test_a_loader_prints_the_graph_that_its_user_wrote() -> None:
    with DataLoader2(forked(), reading_service=ThreadingReadingService(2)) as loader:
        before, drawing = repr(loader), to_text(loader.datapipe)
        next(iter(loader))
        assert repr(loader) == before
        assert to_text(loader.datapipe) == drawing


class Homebound:
    """An object that no worker can be sent."""

    def __reduce__(self) -> Any:
        raise TypeError("it stays here")

    def __call__(self, x: Any) -> Any:
        return x


def no_graph(*_: object) -> Any:
    return 3


STARTS: dict[str, Callable[[], DataLoader2[Any]]] = {
    "cannot be sent": lambda: DataLoader2(
        numbers().sharding_filter().map(Homebound()), reading_service=MultiProcessingReadingService(1, "spawn")
    ),
    "no graph": lambda: DataLoader2(
        forked(), reading_service=MultiProcessingReadingService(1, worker_init_fn=no_graph)
    ),
    "dies at once": lambda: DataLoader2(
        dispatched(), reading_service=MultiProcessingReadingService(1, worker_init_fn=lambda *_: os._exit(3))
    ),
    "two ends": lambda: DataLoader2(
        numbers().fullsync().zip(*numbers().sharding_filter().fork(2)), reading_service=ThreadingReadingService(2)
    ),
    "another graph's state": lambda: DataLoader2.from_state(state_of(forked()), datapipe=dispatched()),
    "another graph's, without a fork": lambda: DataLoader2.from_state(state_of(split()), datapipe=sharded()),
}


def state_of(graph: Pipe) -> dict[str, Any]:
    loader = DataLoader2(graph)
    next(iter(loader))
    return loader.state_dict()


@pytest.mark.parametrize("case", STARTS)
def test_no_text_about_a_start_has_the_name_of_an_internal_class(case: str) -> None:
    assert not internal_names(texts_of(STARTS[case]))


def test_a_state_of_another_graph_names_the_stages_by_their_methods() -> None:
    texts = texts_of(STARTS["another graph's state"])
    assert "-3 .fork(), -4 .fork()[...], " in texts[0]
    assert "+2 .sharding_round_robin_dispatch(), " in texts[0]
