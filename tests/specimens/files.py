"""Specimens of the operators that list, open and read files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from datapipes.graph import Pipe
from datapipes.iter import FileLister, IterableWrapper
from datapipes.iter.grouping.shuffle import DefaultSize
from tests.specimens.elements import twice
from tests.specimens.specimen import Specimen, Tap, folder, paths, shuffled

CSV = ("a.csv", "empty.csv", "b.csv", "c.csv")


def rows(mode: str = "r", **options: Any) -> Pipe:
    return paths(*CSV).open_files(mode).parse_csv(**options)


def lines_of(file: tuple[str, Any]) -> Iterator[str]:
    """The lines of an open file, by a user's own generator."""
    _, stream = file
    for line in stream:
        yield line.rstrip("\n")


def first_line(file: tuple[str, Any]) -> tuple[str, Any]:
    return file[1].readline(), file[1]


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def missing(tap: Tap) -> Pipe:
    return paths("a.csv", "missing.csv", "b.csv").open_files().parse_csv()


def undecodable(tap: Tap) -> Pipe:
    return paths("b.csv", "latin.txt", "c.csv").open_files("rb").parse_csv()


def two_at_once(tap: Tap) -> Pipe:
    return tap(paths("a.csv", "b.csv")).open_files().parse_csv().zip(paths("c.csv").open_files("b").readlines())


def forked_rows(tap: Tap) -> Pipe:
    a, b = tap(paths(*CSV)).open_files().parse_csv().fork(2)
    return a.batch(3).mux(b)


def listed(tap: Tap) -> Pipe:
    return FileLister(str(folder()), "*.csv").map(name_of)


FILES = [
    Specimen("iter.list_files", "one folder, a mask", listed),
    Specimen(
        "iter.list_files", "folders in folders", lambda tap: FileLister([str(folder())], recursive=True).map(name_of)
    ),
    Specimen(
        "iter.list_files",
        "of listed folders",
        lambda tap: tap(paths("inner", "a.csv", "inner")).list_files(masks=["*.csv", "*.txt"]),
    ),
    shuffled(
        "iter.list_files",
        "shuffled and read",
        lambda tap: FileLister(str(folder()), "?.csv").shuffle().open_files().readlines().shuffle(buffer_size=3),
    ),
    shuffled(
        "iter.list_files",
        "all of them shuffled",
        lambda tap: FileLister(str(folder()), "?.csv").shuffle(buffer_size=DefaultSize(1)).map(name_of).batch(2),
    ),
    shuffled(
        "iter.list_files",
        "all of listed folders shuffled",
        lambda tap: (
            tap(paths("inner", "a.csv", "b.csv", "inner")).list_files().shuffle(buffer_size=DefaultSize(2)).map(name_of)
        ),
    ),
    Specimen("iter.open_files", "text", lambda tap: tap(paths(*CSV)).open_files()),
    Specimen("iter.open_files", "binary", lambda tap: tap(paths(*CSV)).open_files("rb")),
    Specimen(
        "iter.open_files", "an encoding", lambda tap: tap(paths("latin.txt", "a.csv")).open_files(encoding="latin-1")
    ),
    shuffled(
        "iter.open_files",
        "shuffled, prefetched",
        lambda tap: tap(paths(*CSV, "latin.txt")).shuffle().open_files("rb").prefetch(2),
    ),
    Specimen("iter.open_files", "in a batch", lambda tap: tap(paths(*CSV)).open_files().batch(3)),
    shuffled(
        "iter.open_files",
        "text that waits, begun",
        lambda tap: tap(paths(*CSV)).open_files().map(first_line).filter(bool).shuffle(buffer_size=2),
    ),
    Specimen(
        "iter.open_files",
        "flattened by a user's generator",
        lambda tap: tap(paths(*CSV)).open_files().flatmap(lines_of),
    ),
    Specimen("iter.open_files", "a file that is missing", missing, raises=True),
    Specimen(
        "iter.readlines", "text", lambda tap: tap(paths("a.csv", "empty.csv", "inner/d.txt")).open_files().readlines()
    ),
    Specimen(
        "iter.readlines",
        "binary, decoded",
        lambda tap: tap(paths("a.csv", "inner/d.txt")).open_files("b").readlines(decode=True, return_path=False),
    ),
    Specimen(
        "iter.readlines",
        "as they are",
        lambda tap: tap(paths("latin.txt")).open_files("rb").readlines(skip_lines=1, strip_newline=False),
    ),
    Specimen("iter.readlines", "below a prefetch", lambda tap: tap(paths(*CSV)).open_files().prefetch(2).readlines()),
    Specimen("iter.parse_csv", "text", lambda tap: tap(paths(*CSV)).open_files().parse_csv()),
    Specimen("iter.parse_csv", "binary, as tuples", lambda tap: rows("rb", as_tuple=True, skip_lines=1)),
    Specimen("iter.parse_csv", "with the path, in batches", lambda tap: rows(return_path=True).batch(2)),
    shuffled(
        "iter.parse_csv",
        "shuffled files, shuffled rows",
        lambda tap: tap(paths(*CSV)).shuffle().open_files().parse_csv(skip_lines=1).shuffle(buffer_size=3).batch(2),
    ),
    Specimen("iter.parse_csv", "below a prefetch", lambda tap: tap(paths(*CSV)).open_files().prefetch(2).parse_csv()),
    Specimen("iter.parse_csv", "below and above a prefetch", lambda tap: rows().map(tuple).prefetch(3).batch(2)),
    Specimen("iter.parse_csv", "two files at once", two_at_once, after_fault="otherwise"),
    Specimen("iter.parse_csv", "forked", forked_rows),
    Specimen(
        "iter.parse_csv",
        "again and again",
        lambda tap: tap(paths("b.csv", "c.csv")).open_files("rb").parse_csv().cycle(2),
    ),
    Specimen("iter.parse_csv", "each row twice", lambda tap: rows(delimiter="x").flatmap(twice)),
    Specimen("iter.parse_csv", "no files", lambda tap: IterableWrapper([]).open_files().parse_csv()),
    Specimen("iter.parse_csv", "bytes that are no text", undecodable, raises=True),
    Specimen("iter.parse_csv_as_dict", "text", lambda tap: tap(paths(*CSV)).open_files().parse_csv_as_dict()),
    Specimen(
        "iter.parse_csv_as_dict",
        "named columns, with the path",
        lambda tap: tap(paths(*CSV)).open_files("b").parse_csv_as_dict(fieldnames=["a", "b"], return_path=True),
    ),
    shuffled(
        "iter.parse_csv_as_dict",
        "shuffled",
        lambda tap: tap(paths(*CSV)).open_files().parse_csv_as_dict().shuffle(buffer_size=3),
    ),
]
