"""The formats of records and tables, for the fuzzing kit.

Text says nothing twice, so damage to it shows only where what is left is no text of its format; a file of lines that
was cut off behind a line, or within the last field of CSV, reads like a whole one, and so does a TFRecord file that was
cut off behind a record. Parquet and Arrow end with an index or a mark. Of Arrow's values, and of Parquet's without
checksums, a changed one cannot be told, but their number can.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datapipes.errors import Loader2Error
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from tests.fuzzing.format import Format
from tests.records import example, sequence_example, tfrecord

NAMES = ["one", "two", "three", "four", "five"]
TEXT_ERRORS = (Loader2Error, UnicodeError)


def rows() -> bytes:
    return b'x,name,note\n1,one,a\n2,"two\nlines",b\n3,"a ""quote""",c\n4,four,d\n'


def documents() -> bytes:
    return b"".join(json.dumps({"x": i, "name": name}).encode() + b"\n" for i, name in enumerate(NAMES))


def records() -> bytes:
    steps: list[Any] = [[1.5, 2.5], [3.5, 4.5]]
    return tfrecord(
        *(example(number=[i, -i], text=[name.encode()]) for i, name in enumerate(NAMES)),
        sequence_example({"number": [300] * 40}, {"steps": steps}),
    )


def table() -> Any:
    return pa.table({"x": list(range(5)), "name": NAMES})


def parquet(checksums: bool) -> bytes:
    file = io.BytesIO()
    pq.write_table(table(), file, row_group_size=2, write_page_checksum=checksums, compression="none")
    return file.getvalue()


def arrow(make: Callable[..., Any]) -> bytes:
    file = io.BytesIO()
    with make(file, table().schema) as writer:
        writer.write_table(table(), max_chunksize=2)
    return file.getvalue()


def opened(path: str) -> Any:
    return IterableWrapper([path]).open_files("rb")


def number_of_rows(batch: Any) -> int:
    return int(batch.num_rows)


def anything(expected: Sequence[str], found: Sequence[str]) -> bool:
    """Accept any records, where a change cannot be noticed."""
    return True


def the_first(expected: Sequence[str], found: Sequence[str]) -> bool:
    return list(found) == list(expected[: len(found)])


def the_first_and_a_part(expected: Sequence[str], found: Sequence[str]) -> bool:
    """The first rows, but the last field of the last one may be cut short."""
    *whole, last = found or [""]
    return the_first(expected, whole) and (not last or expected[len(whole)].startswith(last.rstrip("')]")))


def some(expected: Sequence[str], found: Sequence[str]) -> bool:
    """Records that are all sound; whole ones may have been taken out, doubled or moved."""
    return set(found) <= set(expected)


def same_number(expected: Sequence[str], found: Sequence[str]) -> bool:
    return len(expected) == len(found)


def text(
    name: str, make: Callable[[], bytes], read: Callable[[str], Pipe], cut: Any, *errors: type[Exception]
) -> Format:
    return Format(name, make, read, (*TEXT_ERRORS, *errors), same=anything, same_after_cut=cut)


RECORD_FORMATS = [
    text("rows.csv", rows, lambda path: opened(path).parse_csv(ragged="error"), the_first_and_a_part, csv.Error),
    text("dicts.csv", rows, lambda path: opened(path).parse_csv_as_dict(), the_first_and_a_part, csv.Error),
    text(
        "wide.csv",
        lambda: rows().decode().encode("utf-16"),
        lambda path: opened(path).parse_csv(encoding="utf-16", ragged="error"),
        the_first_and_a_part,
        csv.Error,
    ),
    text(
        "columns.csv", rows, lambda path: IterableWrapper([path]).read_csv_columns(block_size=9, as_="dict"), anything
    ),
    text("lines.txt", rows, lambda path: opened(path).readlines(decode=True, return_path=False), the_first_and_a_part),
    text(
        "documents.jsonl",
        documents,
        lambda path: opened(path).parse_jsonl(return_path=False),
        the_first,
        json.JSONDecodeError,
    ),
    text(
        "document.json",
        lambda: json.dumps(NAMES).encode(),
        lambda path: opened(path).parse_json_files().map(lambda pair: pair[1]),
        same_number,
        json.JSONDecodeError,
    ),
    Format(
        "some.tfrecord", records, lambda path: opened(path).load_from_tfrecord(), same=some, same_after_cut=the_first
    ),
    Format(
        "plain.parquet", lambda: parquet(False), lambda path: IterableWrapper([path]).read_parquet().map(number_of_rows)
    ),
    Format(
        "sums.parquet",
        lambda: parquet(True),
        lambda path: IterableWrapper([path]).read_parquet(batch_size=1, as_="dict"),
        same=same_number,
    ),
    Format("frames.parquet", lambda: parquet(True), lambda path: IterableWrapper([path]).load_parquet_as_df().map(len)),
    Format(
        "file.arrow",
        lambda: arrow(pa.ipc.new_file),
        lambda path: IterableWrapper([path]).read_arrow().map(number_of_rows),
    ),
    Format(
        "stream.arrows",
        lambda: arrow(pa.ipc.new_stream),
        lambda path: IterableWrapper([path]).read_arrow().map(number_of_rows),
        same=some,
    ),
]
