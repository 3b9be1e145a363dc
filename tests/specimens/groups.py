"""Specimens of the operators that collect elements in groups."""

from __future__ import annotations

from typing import Any

import torch

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from tests.specimens.elements import ELEMENTS, is_even
from tests.specimens.specimen import Specimen, Tap, numbers, paths, shuffled, unseekable

LENGTHS = (1, 2, 1, 4, 3, 1, 2, 2, 3, 9, 0)


def third(x: int) -> int:
    return x % 3


def pair(x: int) -> int:
    return x // 2


def none_or_text(x: object) -> object:
    return None if x is None else str(x)


def length(x: int) -> int:
    return LENGTHS[x]


def itself(x: Any) -> Any:
    return x


def length_of(x: int) -> int:
    return x % 4 + 1


def suffix(file: tuple[str, Any]) -> str:
    return file[0].rpartition(".")[2]


def first_letter(file: tuple[str, Any]) -> str:
    return file[0].rpartition("/")[2][0] if "inner" not in file[0] else "a"


def contents(group: list[tuple[str, Any]]) -> list[str]:
    return [stream.read() for _, stream in group]


def sentence(x: int) -> list[int]:
    return [10 * x + i for i in range(LENGTHS[x])]


def labelled(x: int) -> dict[str, Any]:
    tokens = torch.tensor(sentence(x), dtype=torch.int32)
    return {"tokens": tokens, "labels": (tokens + 1).float().numpy()}


def packed_tensors(tap: Tap) -> Pipe:
    return tap(unseekable(11)).map(labelled).pack(5, fit="best", open_blocks=2, padding={"tokens": 0, "labels": -100})


def words(x: int) -> dict[str, Any]:
    return {"ids": sentence(x), "words": list(map(str, sentence(x)))}


def columns(x: int) -> dict[str, Any]:
    return {"x": [10 * x + i for i in range(LENGTHS[x])], "even": torch.arange(LENGTHS[x]) % 2 == 0}


def arrays(x: int) -> Any:
    return torch.tensor(sentence(x), dtype=torch.int32).reshape(-1, 1).numpy()


def record_batch(x: int) -> Any:
    import pyarrow

    return pyarrow.record_batch({"x": pyarrow.array(sentence(x), pyarrow.int64()), "y": [str(x)] * LENGTHS[x]})


def rows_of_tensors(tap: Tap) -> Pipe:
    batches = tap(numbers(11)).map(record_batch).map(lambda batch: batch.select(["x"]))
    return batches.rebatch(4, shuffle_rows=6, tensors=True)


def forked_groups(tap: Tap) -> Pipe:
    a, b = tap(numbers(8)).fork(2)
    return a.groupby(third, group_size=2).mux(b)


def groups_forked(tap: Tap) -> Pipe:
    a, b = tap(numbers(8)).groupby(third, group_size=2).fork(2)
    return a.concat(b.map(len))


def forked_buckets(tap: Tap) -> Pipe:
    a, b = tap(numbers(8)).fork(2)
    return a.max_token_bucketize(5, length_of, buffer_size=3).mux(b.batch(2))


def pinned(tap: Tap) -> Pipe:
    return tap(numbers(9)).batch(4).in_batch_shuffle().set_seed(5)


def switched_off(tap: Tap) -> Pipe:
    return tap(numbers(7)).batch(3).in_batch_shuffle().set_shuffle(False)


def forked_batches(tap: Tap) -> Pipe:
    a, b = tap(numbers(12)).batch(4).fork(2)
    return a.in_batch_shuffle().mux(b)


GROUPED = [
    Specimen("iter.rebatch", "lists and tensors", lambda tap: tap(unseekable(11)).map(columns).rebatch(4)),
    Specimen("iter.rebatch", "an array", lambda tap: tap(numbers(11)).map(tap.function(arrays)).rebatch(3, True)),
    Specimen("iter.rebatch", "of pyarrow", lambda tap: tap(unseekable(11)).map(record_batch).rebatch(5)),
    shuffled("iter.rebatch", "shuffled, as tensors", rows_of_tensors, by="cloudpickle"),
    shuffled(
        "iter.rebatch",
        "shuffled among all",
        lambda tap: tap(unseekable(11)).map(columns).rebatch(5, shuffle_rows=99).prefetch(2),
    ),
    Specimen("iter.pack", "greedy", lambda tap: tap(numbers(11)).map(sentence).pack(5)),
    Specimen("iter.pack", "best", lambda tap: tap(numbers(11)).map(tap.function(sentence)).pack(4, "best", 3)),
    Specimen("iter.pack", "cut", lambda tap: tap(unseekable(11)).map(sentence).pack(4, "cut", drop_last=True)),
    Specimen("iter.pack", "tensors and arrays", packed_tensors),
    Specimen(
        "iter.pack",
        "words, and numbers of a type",
        lambda tap: tap(numbers(11)).map(words).pack(5, "cut", dtype={"ids": torch.int16}),
    ),
    Specimen(
        "iter.pack",
        "shuffled sequences",
        lambda tap: tap(unseekable(11)).shuffle().set_seed(5).map(sentence).pack(2).prefetch(2),
        random="pinned",
    ),
    Specimen("iter.groupby", "at the end", lambda tap: tap(numbers(8)).groupby(tap.function(third))),
    Specimen("iter.groupby", "of a size", lambda tap: tap(numbers(11)).groupby(tap.function(third), group_size=2)),
    Specimen("iter.groupby", "with keys", lambda tap: tap(unseekable(9)).groupby(third, keep_key=True, group_size=2)),
    Specimen(
        "iter.groupby", "that make room", lambda tap: tap(numbers(14)).groupby(third, keep_key=True, buffer_size=5)
    ),
    Specimen("iter.groupby", "all alike in size", lambda tap: tap(numbers(9)).groupby(itself, buffer_size=3)),
    Specimen(
        "iter.groupby",
        "of a guaranteed size",
        lambda tap: tap(numbers(12)).groupby(pair, buffer_size=5, group_size=3, guaranteed_group_size=2),
        after_fault="otherwise",  # a group that lost an element may be too small
    ),
    Specimen(
        "iter.groupby",
        "some dropped",
        lambda tap: tap(numbers(12)).groupby(third, buffer_size=5, group_size=3, drop_remaining=True),
    ),
    Specimen("iter.groupby", "None and its like", lambda tap: tap(IterableWrapper(ELEMENTS)).groupby(none_or_text)),
    Specimen("iter.groupby", "of prefetched elements", lambda tap: tap(numbers(9)).prefetch(2).groupby(third)),
    Specimen(
        "iter.groupby", "prefetched", lambda tap: tap(numbers(11)).groupby(third, group_size=2).prefetch(2).batch(2)
    ),
    Specimen("iter.groupby", "nothing", lambda tap: tap(numbers(0)).groupby(third)),
    Specimen("iter.groupby", "below a fork", forked_groups),
    Specimen("iter.groupby", "above a fork", groups_forked),
    Specimen("iter.groupby", "again and again", lambda tap: tap(numbers(5)).groupby(third, group_size=2).cycle(2)),
    shuffled(
        "iter.groupby",
        "of shuffled elements, shuffled",
        lambda tap: tap(numbers(12)).shuffle(buffer_size=5).groupby(third, group_size=3).shuffle(buffer_size=2),
    ),
    # Without a tap: a group that an exception cuts short holds open files, which no state can hold.
    Specimen(
        "iter.groupby",
        "open files",
        lambda tap: (
            paths("a.csv", "latin.txt", "b.csv", "inner/d.txt", "c.csv", "inner/e.csv")
            .open_files("rb")
            .groupby(suffix, group_size=2, keep_key=True)
        ),
    ),
    Specimen(
        "iter.groupby",
        "open files that make room",
        lambda tap: (
            paths("a.csv", "b.csv", "latin.txt", "c.csv", "inner/d.txt")
            .open_files("rb")
            .groupby(first_letter, buffer_size=3, keep_key=True)
        ),
    ),
    Specimen(
        "iter.groupby",
        "open files, prefetched and read",
        lambda tap: (
            paths("a.csv", "inner/d.txt", "b.csv", "c.csv")
            .open_files()
            .prefetch(2)
            .groupby(suffix, group_size=2)
            .map(contents)
            .prefetch(2)
        ),
    ),
    shuffled("iter.in_batch_shuffle", "lists", lambda tap: tap(numbers(14)).batch(5).in_batch_shuffle()),
    shuffled(
        "iter.in_batch_shuffle",
        "strings and ranges",
        lambda tap: tap(IterableWrapper(["abcdef", range(6), "", "g"])).in_batch_shuffle(),
    ),
    shuffled(
        "iter.in_batch_shuffle",
        "what cannot be sought, unbatched",
        lambda tap: tap(unseekable(14)).filter(is_even).batch(4).in_batch_shuffle().unbatch(),
    ),
    shuffled(
        "iter.in_batch_shuffle",
        "shuffled batches, prefetched",
        lambda tap: tap(numbers(14)).batch(4).shuffle(buffer_size=2).in_batch_shuffle().prefetch(2),
    ),
    shuffled(
        "iter.in_batch_shuffle", "shuffled below", lambda tap: tap(numbers(14)).batch(4).in_batch_shuffle().shuffle()
    ),
    shuffled("iter.in_batch_shuffle", "one of two children", forked_batches),
    Specimen("iter.in_batch_shuffle", "a pinned seed", pinned, random="pinned"),
    Specimen("iter.in_batch_shuffle", "switched off", switched_off),
    Specimen("iter.in_batch_shuffle", "nothing", lambda tap: tap(numbers(0)).batch(3).in_batch_shuffle()),
    shuffled("iter.bucketbatch", "unsorted", lambda tap: tap(numbers(17)).bucketbatch(3, batch_num=2)),
    shuffled(
        "iter.bucketbatch",
        "sorted, two buckets",
        lambda tap: tap(unseekable(17)).bucketbatch(2, batch_num=2, bucket_num=2, sort_key=sorted),
    ),
    shuffled(
        "iter.bucketbatch",
        "sorted, with buffers",
        lambda tap: tap(numbers(17)).bucketbatch(2, True, 2, 2, sorted, use_in_batch_shuffle=False),
    ),
    shuffled(
        "iter.bucketbatch",
        "not sorted, with a buffer",
        lambda tap: tap(numbers(13)).bucketbatch(3, batch_num=2, use_in_batch_shuffle=False),
    ),
    Specimen(
        "iter.bucketbatch",
        "sorted, one bucket",
        lambda tap: tap(numbers(9)).bucketbatch(2, batch_num=2, sort_key=sorted),
    ),
    Specimen(
        "iter.max_token_bucketize",
        "a large buffer",
        lambda tap: tap(numbers(11)).max_token_bucketize(5, tap.function(length)),
    ),
    Specimen(
        "iter.max_token_bucketize",
        "a small buffer",
        lambda tap: tap(unseekable(11)).max_token_bucketize(4, length, min_len=1, buffer_size=4),
    ),
    Specimen(
        "iter.max_token_bucketize",
        "padded, of prefetched elements",
        lambda tap: tap(numbers(11)).prefetch(2).max_token_bucketize(6, length, max_len=4, include_padding=True),
    ),
    Specimen(
        "iter.max_token_bucketize",
        "what cannot be compared",
        lambda tap: tap(IterableWrapper([{"a": 1}, {}, {"b": 2}, {"c": 3, "d": 4}, {}])).max_token_bucketize(
            2, buffer_size=2
        ),
    ),
    Specimen(
        "iter.max_token_bucketize",
        "a buffer of one",
        lambda tap: tap(numbers(9)).max_token_bucketize(5, length_of, buffer_size=1),
    ),
    Specimen(
        "iter.max_token_bucketize",
        "prefetched",
        lambda tap: tap(numbers(9)).max_token_bucketize(5, length_of, buffer_size=3).prefetch(2),
    ),
    Specimen("iter.max_token_bucketize", "nothing", lambda tap: tap(numbers(0)).max_token_bucketize(5, length_of)),
    Specimen("iter.max_token_bucketize", "below a fork", forked_buckets),
    shuffled(
        "iter.max_token_bucketize",
        "of shuffled elements, shuffled",
        # Pinned, because how many batches there are depends on the order.
        lambda tap: (
            tap(numbers(14))
            .shuffle()
            .set_seed(2)
            .max_token_bucketize(5, length_of, buffer_size=6)
            .shuffle(buffer_size=2)
        ),
    ),
]
