"""The limit: the three graphs as a good programmer would write them by hand, in several styles.

Each style calls the shared functions as functions and yields what the graph yields, batches as plain lists. The
shuffles draw with `int(random() * n)`. The one that is fused with the rest leaves the sharding out, since one process
has nothing to shard: that makes the limit harder, so that no style can be called slow on purpose.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat, takewhile
from random import Random

from benchmarks.workload import BATCH_SIZE, BUFFER_SIZE, ELEMENTS, MAPS, add_one, is_even

Style = Callable[[], Iterator[object]]


def source() -> Iterator[int]:
    return iter(range(ELEMENTS))


def shuffle(elements: Iterator[int]) -> Iterator[int]:
    random = Random(0).random
    buffer = list(islice(elements, BUFFER_SIZE))
    size = len(buffer)
    for element in elements:
        slot = int(random() * size)
        yield buffer[slot]
        buffer[slot] = element
    while size:
        slot = int(random() * size)
        size -= 1
        last = buffer[slot]
        buffer[slot] = buffer[size]
        yield last


def shard(elements: Iterable[int], instances: int = 1, instance: int = 0) -> Iterator[int]:
    return islice(elements, instance, None, instances)


# Style: a chain of generators, one a stage.


def mapped(function: Callable[[int], int], elements: Iterable[int]) -> Iterator[int]:
    for element in elements:
        yield function(element)


def filtered(predicate: Callable[[int], bool], elements: Iterable[int]) -> Iterator[int]:
    for element in elements:
        if predicate(element):
            yield element


def batches(elements: Iterable[int]) -> Iterator[list[int]]:
    batch = []
    for element in elements:
        batch.append(element)
        if len(batch) == BATCH_SIZE:
            yield batch
            batch = []
    if batch:
        yield batch


def chained_maps() -> Iterator[int]:
    elements = source()
    for _ in range(MAPS):
        elements = mapped(add_one, elements)
    return elements


# Style: one generator that does everything.


def fused_shuffle_map_filter_batch() -> Iterator[list[int]]:
    random = Random(0).random
    elements = source()
    buffer = list(islice(elements, BUFFER_SIZE))
    size = len(buffer)
    batch = []
    for element in elements:
        slot = int(random() * size)
        value = add_one(buffer[slot])
        buffer[slot] = element
        if is_even(value):
            batch.append(value)
            if len(batch) == BATCH_SIZE:
                yield batch
                batch = []
    while size:
        slot = int(random() * size)
        size -= 1
        value = add_one(buffer[slot])
        buffer[slot] = buffer[size]
        if is_even(value):
            batch.append(value)
            if len(batch) == BATCH_SIZE:
                yield batch
                batch = []
    if batch:
        yield batch


def fused_map_filter_batch(elements: Iterable[int]) -> Iterator[list[int]]:
    batch = []
    for element in elements:
        value = add_one(element)
        if is_even(value):
            batch.append(value)
            if len(batch) == BATCH_SIZE:
                yield batch
                batch = []
    if batch:
        yield batch


def fused_maps() -> Iterator[int]:
    f = add_one
    for element in source():
        yield f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(element))))))))))))))))


# Style: one generator expression.


def expression_map_filter(elements: Iterable[int]) -> Iterator[int]:
    return (value for element in elements if is_even(value := add_one(element)))


def expression_maps() -> Iterator[int]:
    f = add_one
    return (f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(element)))))))))))))))) for element in source())


# Style: C iterators all the way; only the shared functions, and the shuffle, are Python.


def c_batches(elements: Iterator[int]) -> Iterator[list[int]]:
    parts = map(islice, repeat(elements), repeat(BATCH_SIZE))
    return takewhile(bool, map(list, parts))


def c_map_filter(elements: Iterable[int]) -> Iterator[int]:
    return filter(is_even, map(add_one, elements))


def c_maps() -> Iterator[int]:
    elements = source()
    for _ in range(MAPS):
        elements = map(add_one, elements)
    return elements


SHUFFLED_STYLES: dict[str, Style] = {
    "generator chain": lambda: batches(filtered(is_even, mapped(add_one, shard(shuffle(source()))))),
    "one generator": fused_shuffle_map_filter_batch,
    "shuffle + one generator": lambda: fused_map_filter_batch(shard(shuffle(source()))),
    "generator expression": lambda: c_batches(expression_map_filter(shard(shuffle(source())))),
    "C iterators": lambda: c_batches(c_map_filter(shard(shuffle(source())))),
}

BATCHED_STYLES: dict[str, Style] = {
    "generator chain": lambda: batches(filtered(is_even, mapped(add_one, source()))),
    "one generator": lambda: fused_map_filter_batch(source()),
    "generator expression": lambda: c_batches(expression_map_filter(source())),
    "C iterators": lambda: c_batches(c_map_filter(source())),
}

MAPPED_STYLES: dict[str, Style] = {
    "generator chain": chained_maps,
    "one generator": fused_maps,
    "generator expression": expression_maps,
    "C iterators": c_maps,
}
