"""Specimens of the operators on lines and names, and of the mark that passes everything on."""

from __future__ import annotations

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from tests.specimens.elements import add_ten, is_something, up_to
from tests.specimens.specimen import Countable, Specimen, Tap, numbers, paths, shuffled, unseekable

TEXT = ("one", "two", "", "", "three", "", "four", "five")


def line(x: int) -> tuple[str, str]:
    return "ab"[x > 5], TEXT[x % len(TEXT)]


def lines(source: Pipe) -> Pipe:
    return source.map(line)


def name(x: int) -> str:
    return ["a{1..3}", "b", "c{08..11}{0..1}", "{9..10}"][x]


def forked_lines(tap: Tap) -> Pipe:
    a, b = lines(tap(numbers(12))).fork(2)
    return a.lines_to_paragraphs().mux(b)


def forked_names(tap: Tap) -> Pipe:
    a, b = tap(numbers(4)).map(name).fork(2)
    return a.shard_expand().mux(b)


def dispatched_twice(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).sharding_round_robin_dispatch().fork(2)
    return a.batch(2).mux(b.sharding_round_robin_dispatch())


TEXTS = [
    Specimen("iter.lines_to_paragraphs", "two files", lambda tap: lines(tap(numbers(14))).lines_to_paragraphs()),
    Specimen(
        "iter.lines_to_paragraphs",
        "of files",
        lambda tap: (
            tap(paths("inner/d.txt", "a.csv", "empty.csv", "b.csv"))
            .open_files()
            .readlines()
            .lines_to_paragraphs(" ".join)
        ),
    ),
    Specimen(
        "iter.lines_to_paragraphs",
        "of prefetched lines, prefetched",
        lambda tap: lines(tap(unseekable(14)).prefetch(2)).lines_to_paragraphs(tuple).prefetch(2),
    ),
    Specimen("iter.lines_to_paragraphs", "none", lambda tap: tap(numbers(0)).lines_to_paragraphs()),
    Specimen("iter.lines_to_paragraphs", "below a fork", forked_lines),
    shuffled(
        "iter.lines_to_paragraphs",
        "of shuffled lines, shuffled",
        # Pinned, because how many paragraphs there are depends on the order.
        lambda tap: (
            lines(tap(numbers(14)).shuffle(buffer_size=4).set_seed(2)).lines_to_paragraphs().shuffle(buffer_size=2)
        ),
    ),
    Specimen("iter.shard_expand", "names", lambda tap: tap(numbers(4)).map(tap.function(name)).shard_expand()),
    Specimen(
        "iter.shard_expand",
        "of prefetched names, prefetched",
        lambda tap: tap(numbers(4)).map(name).prefetch(2).shard_expand().prefetch(3).batch(2),
    ),
    Specimen("iter.shard_expand", "below a fork", forked_names),
    shuffled(
        "iter.shard_expand",
        "of shuffled names, shuffled",
        lambda tap: tap(numbers(4)).map(name).shuffle().shard_expand().shuffle(buffer_size=3),
    ),
    Specimen(
        "iter.sharding_round_robin_dispatch",
        "numbers",
        lambda tap: tap(numbers(5)).map(tap.function(add_ten)).sharding_round_robin_dispatch().filter(is_something),
    ),
    Specimen(
        "iter.sharding_round_robin_dispatch",
        "prefetched elements",
        lambda tap: tap(IterableWrapper(Countable(None, 1, None))).prefetch(2).sharding_round_robin_dispatch(),
    ),
    Specimen(
        "iter.sharding_round_robin_dispatch",
        "a half-used generator",
        lambda tap: tap(numbers(5)).flatmap(tap.generator(up_to)).sharding_round_robin_dispatch().batch(2),
    ),
    Specimen("iter.sharding_round_robin_dispatch", "below and above a fork", dispatched_twice),
    shuffled(
        "iter.sharding_round_robin_dispatch",
        "below and above shuffles",
        lambda tap: tap(numbers(9)).shuffle(buffer_size=3).sharding_round_robin_dispatch().shuffle(buffer_size=3),
    ),
]
