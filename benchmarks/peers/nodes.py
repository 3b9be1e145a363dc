"""The three graphs in `torchdata.nodes`, as its users write them.

What it lacks, filter and shuffle, is written as the shortest node that still saves its state rightly. Sharding is done
where its users do it, by slicing the source.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from random import Random
from typing import Any

from torchdata.nodes import BaseNode, Batcher, IterableWrapper, Loader, Mapper

from benchmarks.workload import BATCH_SIZE, BATCHED, BUFFER_SIZE, ELEMENTS, MAPPED, MAPS, SHUFFLED, add_one, is_even


class Filter(BaseNode):  # type: ignore[misc]  # torchdata comes without types
    def __init__(self, source: Any, predicate: Callable[[Any], bool]) -> None:
        super().__init__()
        self.source = source
        self.predicate = predicate

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        self.source.reset(initial_state and initial_state["source"])

    def next(self) -> Any:
        while True:
            element = next(self.source)
            if self.predicate(element):
                return element

    def get_state(self) -> dict[str, Any]:
        return {"source": self.source.state_dict()}


class Shuffle(BaseNode):  # type: ignore[misc]  # torchdata comes without types
    def __init__(self, source: Any, buffer_size: int, seed: int) -> None:
        super().__init__()
        self.source = source
        self.buffer_size = buffer_size
        self.random = Random()
        self.seed = seed

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        self.source.reset(initial_state and initial_state["source"])
        self.random.seed(self.seed)
        self.buffer: list[Any] = []
        if initial_state:
            self.random.setstate(initial_state["random"])
            self.buffer = list(initial_state["buffer"])

    def next(self) -> Any:
        if not self.buffer:
            self.buffer = list(islice(self.source, self.buffer_size))
        if not self.buffer:
            raise StopIteration
        slot = int(self.random.random() * len(self.buffer))
        element = self.buffer[slot]
        try:
            self.buffer[slot] = next(self.source)
        except StopIteration:
            self.buffer[slot] = self.buffer[-1]
            self.buffer.pop()
        return element

    def get_state(self) -> dict[str, Any]:
        return {"source": self.source.state_dict(), "random": self.random.getstate(), "buffer": list(self.buffer)}


def shuffled() -> Iterable[object]:
    shard = IterableWrapper(range(0, ELEMENTS, 1))
    elements = Mapper(Shuffle(shard, BUFFER_SIZE, seed=0), add_one)
    return _loaded(Batcher(Filter(elements, is_even), BATCH_SIZE, drop_last=False))


def batched() -> Iterable[object]:
    elements = Mapper(IterableWrapper(range(ELEMENTS)), add_one)
    return _loaded(Batcher(Filter(elements, is_even), BATCH_SIZE, drop_last=False))


def mapped() -> Iterable[object]:
    node: Any = IterableWrapper(range(ELEMENTS))
    for _ in range(MAPS):
        node = Mapper(node, add_one)
    return _loaded(node)


def _loaded(node: Any) -> Iterable[object]:
    loader: Iterable[object] = Loader(node)
    return loader


CASES: dict[str, Callable[[], Iterable[object]]] = {SHUFFLED: shuffled, BATCHED: batched, MAPPED: mapped}
