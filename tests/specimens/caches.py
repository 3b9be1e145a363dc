"""Specimens of the operators that save files, check them, and keep them on disk.

Each build has a folder of its own, so a cache is empty when its graph is built, and full when that graph is iterated
for the second time. The folders have random names: elements are compared by what is below them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from typing import Any

from datapipes.graph import Pipe
from tests.specimens.specimen import Specimen, Tap, folder, numbers, paths, scratch, shuffled, unseekable

CSV = ("a.csv", "empty.csv", "b.csv", "c.csv")


def fresh() -> str:
    return tempfile.mkdtemp(dir=scratch())


def below(root: str, name: object) -> str:
    return os.path.join(root, f"{name}.txt")


def copied_to(root: str, file: Any) -> str:
    """Path of a file's copy: of a path, or of a path and its stream."""
    return os.path.join(root, os.path.basename(file if isinstance(file, str) else file[0]))


def text_of(number: int) -> tuple[int, bytes]:
    return number, b"made of %d" % number


def three_of(root: str, number: int) -> Iterator[tuple[str, list[bytes]]]:
    for part in "xyz":
        yield os.path.join(root, f"{number}{part}"), [b"part ", part.encode()]


def upper(root: str, path: str) -> tuple[str, bytes]:
    with open(path, "rb") as file:
        return os.path.join(root, "upper-" + os.path.basename(path)), file.read().upper()


def contents(path: str) -> tuple[str, bytes]:
    with open(path, "rb") as file:
        return os.path.basename(path), file.read()


def as_bytes(file: tuple[str, Any]) -> tuple[str, bytes]:
    path, stream = file
    return path, stream.read()


def one_to_one(source: Pipe, tap: Tap | None = None) -> Pipe:
    """A file for each number."""
    held = source.on_disk_cache(partial(below, fresh()))
    made = held.map(text_of if tap is None else tap.function(text_of))
    return made.end_caching(same_filepath_fn=True, skip_read=True)


def one_to_many(source: Pipe, tap: Tap | None = None) -> Pipe:
    """Three files for each number."""
    root = fresh()
    held = source.on_disk_cache(partial(below, root))
    make = partial(three_of, root)
    return held.flatmap(make if tap is None else tap.function(make)).end_caching()


def copies(source: Pipe) -> Pipe:
    """A copy of each file, of which there is a path."""
    return source.on_disk_cache(partial(copied_to, fresh())).open_files("rb").end_caching(same_filepath_fn=True)


def one_after_the_other(tap: Tap) -> Pipe:
    root = fresh()
    first = one_to_one(tap(numbers(5)))
    return first.on_disk_cache(partial(copied_to, root)).map(partial(upper, root)).end_caching(skip_read=True)


def one_in_the_other(tap: Tap) -> Pipe:
    root = fresh()
    outer = tap(numbers(5)).on_disk_cache(partial(below, root))
    inner = one_to_one(outer)
    return inner.map(partial(upper, root)).end_caching(skip_read=True)


def with_streams_above(tap: Tap) -> Pipe:
    held = tap(paths(*CSV)).open_files("rb").on_disk_cache(partial(copied_to, fresh()))
    return held.end_caching(same_filepath_fn=True)


def forked_above(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).fork(2)
    return one_to_one(a, tap).map(contents).zip(b)


def forked_below(tap: Tap) -> Pipe:
    a, b = one_to_many(tap(numbers(4)), tap).map(contents).fork(2)
    return a.batch(2).mux(b)


def forked_within(tap: Tap) -> Pipe:
    held = tap(numbers(4)).on_disk_cache(partial(below, fresh()))
    a, b = held.fork(2)
    return a.zip(b.map(text_of).map(contents_alone)).end_caching(same_filepath_fn=True, skip_read=True)


def contents_alone(made: tuple[int, bytes]) -> bytes:
    return made[1]


def hashed(tap: Tap) -> Pipe:
    root = fresh()
    known = {below(root, i): hashlib.sha256(b"made of %d" % i).hexdigest() for i in range(5)}
    held = tap(numbers(5)).on_disk_cache(partial(below, root), hash_dict=known)
    return held.map(tap.function(text_of)).end_caching(same_filepath_fn=True, skip_read=True)


def all_hashes() -> dict[str, str]:
    return {str(path): hashlib.md5(path.read_bytes()).hexdigest() for path in folder().iterdir() if path.is_file()}


def saved(tap: Tap, source: Pipe) -> Pipe:
    return tap(source).map(tap.function(text_of)).save_to_disk("wb", partial(below, fresh())).map(contents)


CACHES = [
    Specimen("iter.on_disk_cache", "a file each", lambda tap: one_to_one(tap(numbers(7)), tap).map(contents)),
    Specimen(
        "iter.on_disk_cache",
        "of a source that cannot be sought",
        lambda tap: one_to_one(tap(unseekable(5)), tap).map(contents),
    ),
    Specimen("iter.on_disk_cache", "copies of files", lambda tap: copies(tap(paths(*CSV))).map(contents)),
    Specimen("iter.on_disk_cache", "of open files", lambda tap: with_streams_above(tap).map(contents)),
    Specimen("iter.on_disk_cache", "with hashes", lambda tap: hashed(tap).map(contents)),
    Specimen("iter.on_disk_cache", "no elements", lambda tap: one_to_one(numbers(0))),
    Specimen("iter.end_caching", "several files each", lambda tap: one_to_many(tap(numbers(4)), tap).map(contents)),
    Specimen("iter.end_caching", "one after the other", lambda tap: one_after_the_other(tap).map(contents)),
    Specimen("iter.end_caching", "one in the other", lambda tap: one_in_the_other(tap).map(contents)),
    shuffled(
        "iter.end_caching",
        "shuffled above and below",
        lambda tap: one_to_many(tap(numbers(5)).shuffle()).shuffle(buffer_size=4).map(contents),
    ),
    shuffled(
        "iter.end_caching",
        "in batches, above and below a prefetch",
        lambda tap: one_to_many(tap(numbers(6)).shuffle().prefetch(2)).map(contents).prefetch(3).batch(2),
    ),
    Specimen(
        "iter.end_caching",
        "read again",
        lambda tap: copies(tap(paths(*CSV))).open_files().parse_csv(),
    ),
    Specimen(
        "iter.end_caching", "again and again", lambda tap: one_to_one(tap(numbers(3)), tap).cycle(2).map(contents)
    ),
    Specimen("iter.end_caching", "forked above", forked_above, after_fault="otherwise"),
    Specimen("iter.end_caching", "forked below", forked_below),
    Specimen("iter.end_caching", "forked within", lambda tap: forked_within(tap).map(contents)),
    Specimen("iter.save_to_disk", "bytes", lambda tap: saved(tap, numbers(6))),
    shuffled("iter.save_to_disk", "shuffled, prefetched", lambda tap: saved(tap, numbers(6)).shuffle().prefetch(2)),
    Specimen(
        "iter.save_to_disk",
        "copies of files",
        lambda tap: tap(paths(*CSV)).open_files().save_to_disk(filepath_fn=partial(copied_to, fresh())).map(contents),
    ),
    Specimen(
        "iter.check_hash",
        "streams",
        lambda tap: tap(paths(*CSV)).open_files("rb").check_hash(all_hashes(), "md5"),
    ),
    Specimen(
        "iter.check_hash",
        "streams that are not rewound, prefetched",
        lambda tap: tap(paths(*CSV)).open_files("rb").check_hash(all_hashes(), "md5", rewind=False).prefetch(2),
    ),
    shuffled(
        "iter.check_hash",
        "bytes",
        lambda tap: tap(paths(*CSV)).open_files("rb").map(as_bytes).check_hash(all_hashes(), "md5").shuffle(),
    ),
]
