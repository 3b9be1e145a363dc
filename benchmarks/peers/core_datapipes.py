"""The three graphs in `torch.utils.data.datapipes`, as its users write them."""

from collections.abc import Callable, Iterable
from typing import Any

from torch.utils.data.datapipes.iter import IterableWrapper

from benchmarks.workload import BATCH_SIZE, BATCHED, BUFFER_SIZE, ELEMENTS, MAPPED, MAPS, SHUFFLED, add_one, is_even


def shuffled() -> Iterable[object]:
    shuffler: Any = IterableWrapper(range(ELEMENTS)).shuffle(buffer_size=BUFFER_SIZE)
    pipe: Iterable[object] = shuffler.set_seed(0).sharding_filter().map(add_one).filter(is_even).batch(BATCH_SIZE)
    return pipe


def batched() -> Iterable[object]:
    return IterableWrapper(range(ELEMENTS)).map(add_one).filter(is_even).batch(BATCH_SIZE)


def mapped() -> Iterable[object]:
    pipe: Any = IterableWrapper(range(ELEMENTS))
    for _ in range(MAPS):
        pipe = pipe.map(add_one)
    stages: Iterable[object] = pipe
    return stages


CASES: dict[str, Callable[[], Iterable[object]]] = {SHUFFLED: shuffled, BATCHED: batched, MAPPED: mapped}
