"""The stages that random graphs are made of: how each is built of the library's, and what it means for whole lists.

``known`` says what is left to know behind a stage: a shuffle makes the interpreter forget the order first, and behind
stages that depend on the order, all but the length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, SampleMultiplexer
from datapipes.iter.grouping.shuffle import DefaultSize
from tests.datapipes.position.written_for_torchdata import Generator, ItsOwnIterator, OnlyNext, SeveralSources
from tests.naive_functions import (
    backwards,
    batched,
    bucketized,
    careful,
    careful_all,
    careful_later,
    careful_twins,
    columns_meant,
    grouped,
    in_columns_meant,
    in_turn,
    is_kept,
    keeps,
    raising,
    raising_late,
    some,
    tagged,
    tagged_later,
    third,
    twins,
    weight,
    windows,
    without_end,
)


class Known(IntEnum):
    """The interpreter's knowledge of a stream."""

    NOTHING = 0
    LENGTH = 1
    ELEMENTS = 2
    ORDER = 3


Elements: TypeAlias = list[Any]


@dataclass(frozen=True)
class Operator:
    """How a stage is built, what it means for whole lists, and what is known behind it."""

    build: Callable[..., Pipe]
    means: Callable[..., Elements]
    knows: Callable[[Known], Known]


def each(known: Known) -> Known:
    """Behind a stage that works on each element by itself."""
    return Known.NOTHING if known is Known.LENGTH else known


def by_order(known: Known) -> Known:
    """Behind a stage whose elements depend on the order, but whose number of elements does not."""
    return min(known, Known.LENGTH) if known is not Known.ORDER else known


def shuffled(known: Known) -> Known:
    """Behind a shuffle."""
    return min(known, Known.ELEMENTS)


def counted_alike(known: Known) -> Known:
    """Behind a stage whose number of elements depends on what the elements are, and on nothing else."""
    return {Known.ORDER: Known.ORDER, Known.ELEMENTS: Known.LENGTH}.get(known, Known.NOTHING)


def only_in_order(known: Known) -> Known:
    """Behind a stage that depends on the order in every way."""
    return known if known is Known.ORDER else Known.NOTHING


def regrouped(source: Pipe, size: int) -> Pipe:
    return source.batch(size).shuffle(buffer_size=2).unbatch()


def tolerant(source: Pipe, how: int) -> Pipe:
    """One of the stages that leave out what they cannot make."""
    if how == 1:
        return source.map(careful, on_error="skip")
    if how == 2:
        return source.threadpool_map(careful, max_workers=2, on_error="skip")
    return source.async_map_batches(careful_later, 2, on_error="skip")


def split_at_random(source: Pipe, weights: int) -> Pipe:
    first, *others = source.random_split({i: i + 1 for i in range(weights)}, seed=weights, total_length=10_000)
    return first.concat(*others)


def dealt_in_turn(source: Pipe, children: int) -> Pipe:
    first, *others = source.round_robin_demux(children)
    return first.mux_longest(*others)


def columns_changed(source: Pipe, n: int) -> Pipe:
    return source.map(lambda x: (n, (x, [x]), "end")).flatten([1]).slice([1, 2, 3]).drop(n % 3)


def in_columns(source: Pipe, size: int) -> Pipe:
    return source.enumerate().batch(size).rows2columnar(["number", "x"]).map(dict)


def numbered_by_key(source: Pipe, n: int) -> Pipe:
    numbers = IterableWrapper(range(10_000)).shuffle(buffer_size=n)
    return source.enumerate().zip_with_iter(numbers, itemgetter(0), itself, merge_fn=merged)


def itself(number: int) -> int:
    return number


def merged(numbered: Any, number: int) -> Any:
    return number, numbered


def sharded(source: Pipe, of: int) -> Pipe:
    shard = source.sharding_filter()
    shard.apply_sharding(of, 1 % of)
    return shard


def pushed_down(source: Pipe, of: int) -> Pipe:
    """A shard of much that can be done for its own elements alone."""
    return sharded(source.map(tagged).enumerate().map(tagged), of).map(tagged)


PLAIN = [Generator, ItsOwnIterator, OnlyNext]


def plain_between(source: Pipe, which: int) -> Pipe:
    """Two users' classes, with stages of the library between and around them."""
    inner = PLAIN[which - 1](source.map(tagged))
    return PLAIN[which % 3](inner.map(tagged).batch(2).unbatch())


class OneByOne(SeveralSources):
    """Reads its sources one behind the other."""

    def __iter__(self) -> Iterator[Any]:
        for source in self.sources:
            yield from source


UNARY: dict[str, Operator] = {
    "map": Operator(lambda s, n: s.map(tagged), lambda s, n: [tagged(x) for x in s], each),
    "filter": Operator(lambda s, n: s.filter(keeps), lambda s, n: [x for x in s if keeps(x)], each),
    "flatmap": Operator(lambda s, n: s.flatmap(twins), lambda s, n: [y for x in s for y in twins(x)], each),
    "generate": Operator(lambda s, n: s.flatmap(some), lambda s, n: [y for x in s for y in some(x)], each),
    "mixture": Operator(
        lambda s, n: s.shuffled_flatmap(some, buffer_size=n),
        lambda s, n: [y for x in s for y in some(x)],
        lambda known: shuffled(each(known)),
    ),
    "threads": Operator(
        lambda s, n: s.threadpool_map(tagged, scheduled_tasks=n, max_workers=2),
        lambda s, n: [tagged(x) for x in s],
        each,
    ),
    "coroutines": Operator(
        lambda s, n: s.async_map_batches(tagged_later, n), lambda s, n: [tagged(x) for x in s], each
    ),
    "backwards": Operator(
        lambda s, n: s.map_batches(backwards, n),
        lambda s, n: [x for batch in batched(s, n) for x in backwards(batch)],
        lambda known: known,
    ),
    "repeat": Operator(lambda s, n: s.repeat(n + 1), lambda s, n: [x for x in s for _ in range(n + 1)], each),
    "retry": Operator(lambda s, n: s.retry(n), lambda s, n: s, lambda known: known),
    "timeout": Operator(lambda s, n: s.timeout(60 * n), lambda s, n: s, lambda known: known),
    "prefetch": Operator(lambda s, n: s.prefetch(n), lambda s, n: s, lambda known: known),
    "shuffle": Operator(lambda s, n: s.shuffle(buffer_size=2 * n), lambda s, n: s, shuffled),
    "shuffle all": Operator(lambda s, n: s.shuffle(buffer_size=DefaultSize(n)), lambda s, n: s, shuffled),
    "regroup": Operator(regrouped, lambda s, n: s, shuffled),
    "batch": Operator(lambda s, n: s.batch(n), batched, by_order),
    "windows": Operator(
        lambda s, n: s.sliding_window(n, 4 - n, n > 1), lambda s, n: windows(s, n, 4 - n, n > 1), by_order
    ),
    "enumerate": Operator(lambda s, n: s.enumerate(), lambda s, n: list(enumerate(s)), by_order),
    "header": Operator(lambda s, n: s.header(2 * n), lambda s, n: s[: 2 * n], by_order),
    "skip": Operator(lambda s, n: s.skip(2 * n), lambda s, n: s[2 * n :], by_order),
    "skip costly": Operator(
        lambda s, n: s.map(tagged).enumerate().map(tagged).skip(n),
        lambda s, n: [tagged((i, tagged(x))) for i, x in enumerate(s)][n:],
        by_order,
    ),
    "sharding": Operator(lambda s, n: sharded(s, n + 1), lambda s, n: s[1 :: n + 1], by_order),
    "pushdown": Operator(
        lambda s, n: pushed_down(s, n + 1),
        lambda s, n: [tagged(tagged((i, tagged(x)))) for i, x in enumerate(s)][1 :: n + 1],
        by_order,
    ),
    "shuffled shard": Operator(
        lambda s, n: sharded(s.map(tagged).shuffle(buffer_size=n + 1).map(tagged), n),
        lambda s, n: [tagged(tagged(x)) for x in s][1 % n :: n],
        lambda known: by_order(shuffled(known)),
    ),
    "groups": Operator(lambda s, n: s.groupby(third), lambda s, n: grouped(s, None), counted_alike),
    "sized groups": Operator(
        lambda s, n: s.groupby(third, group_size=n + 1, keep_key=True).map(itemgetter(1)),
        lambda s, n: grouped(s, n + 1),
        counted_alike,
    ),
    "full groups": Operator(
        lambda s, n: s.groupby(third, buffer_size=2 * n), lambda s, n: grouped(s, None, 2 * n), only_in_order
    ),
    "buckets": Operator(
        lambda s, n: s.max_token_bucketize(4, weight, buffer_size=2 * n, include_padding=n == 3),
        lambda s, n: bucketized(s, 2 * n, padded=n == 3),
        only_in_order,
    ),
    "batches mixed": Operator(lambda s, n: s.batch(n + 1).in_batch_shuffle().unbatch(), lambda s, n: s, shuffled),
    "bucketbatch": Operator(
        lambda s, n: s.bucketbatch(n, batch_num=2, bucket_num=n, use_in_batch_shuffle=n > 1).unbatch(),
        lambda s, n: s,
        shuffled,
    ),
    "in turn": Operator(lambda s, n: dealt_in_turn(s, n + 1), lambda s, n: s, lambda known: known),
    "random split": Operator(
        split_at_random, lambda s, n: s, lambda known: shuffled(known) if known is Known.ORDER else by_order(known)
    ),
    "by key": Operator(numbered_by_key, lambda s, n: [(i, (i, x)) for i, x in enumerate(s)], by_order),
    "cache": Operator(lambda s, n: s.in_memory_cache(), lambda s, n: s, lambda known: known),
    "in columns": Operator(in_columns, in_columns_meant, by_order),
    "columns changed": Operator(columns_changed, lambda s, n: [columns_meant(x, n) for x in s], each),
    "tolerant": Operator(tolerant, lambda s, n: [tagged(x) for x in s if keeps(x)], each),
    "tolerant twins": Operator(
        lambda s, n: s.flatmap(careful_twins, on_error="skip"),
        lambda s, n: [y for x in s if keeps(x) for y in twins(tagged(x))],
        each,
    ),
    "tolerant batches": Operator(
        lambda s, n: s.map_batches(careful_all, n, on_error="skip"),
        lambda s, n: [tagged(x) for batch in batched(s, n) if all(map(keeps, batch)) for x in batch],
        lambda known: each(known) if known is Known.ORDER else Known.NOTHING,
    ),
    "passed on": Operator(
        lambda s, n: s.set_length(n).memory_cell(n).sharding_round_robin_dispatch(), lambda s, n: s, lambda known: known
    ),
    "plain": Operator(lambda s, n: PLAIN[n - 1](s), lambda s, n: s, lambda known: known),
    "plain and more": Operator(plain_between, lambda s, n: [tagged(tagged(x)) for x in s], each),
    "with itself": Operator(lambda s, n: s.zip(s), lambda s, n: list(zip(s, s, strict=True)), by_order),
    "cycle": Operator(lambda s, n: s.cycle(n), lambda s, n: s * n, each),
    "no end": Operator(lambda s, n: s.cycle().header(4 * n), lambda s, n: without_end(s, 4 * n), by_order),
}

JOINS: dict[str, Operator] = {
    "zip": Operator(lambda a, b: a.zip(b), lambda a, b: list(zip(a, b, strict=False)), by_order),
    "mux": Operator(lambda a, b: a.mux(b), lambda a, b: list(chain.from_iterable(zip(a, b, strict=False))), by_order),
    "mux_longest": Operator(lambda a, b: a.mux_longest(b), in_turn, by_order),
    "drawn": Operator(
        lambda a, b: SampleMultiplexer({a: 1, b: 2}), lambda a, b: a + b, lambda known: shuffled(each(known))
    ),
    "mixed": Operator(lambda a, b: a.mix({b: {0: 1, 5: 3}}), lambda a, b: a + b, lambda known: shuffled(each(known))),
    "concat": Operator(lambda a, b: a.concat(b), lambda a, b: a + b, each),
    "plain": Operator(
        lambda a, b: SeveralSources(a, b), lambda a, b: list(chain.from_iterable(zip(a, b, strict=False))), by_order
    ),
    "plain, one by one": Operator(lambda a, b: OneByOne(a, b), lambda a, b: a + b, each),
}

# Stages that raise on some elements; the rest of a stream after an error is not interpreted.
RAISING: dict[str, Operator] = {
    name: Operator(build, lambda s, n: s, lambda known: Known.NOTHING)
    for name, build in {
        "raising": lambda s, n: s.map(raising),
        "raising filter": lambda s, n: s.filter(is_kept),
        "raising late": lambda s, n: s.flatmap(raising_late),
        "raising threads": lambda s, n: s.threadpool_map(raising, scheduled_tasks=n, max_workers=2),
    }.items()
}
STAGES = UNARY | RAISING
