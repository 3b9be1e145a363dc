"""Rows of CSV files through the graph, against a bare `csv.reader` loop that maps and batches."""

import csv
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice, repeat, takewhile
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks import ours
from benchmarks.harness import OURS, Claim, contender, contest
from benchmarks.peers.child import OldTorchdata
from benchmarks.table import Table
from benchmarks.workload import CSV, CSV_BATCH_SIZE, features

FILES = 2
ROWS_PER_FILE = 100_000
HAND = "hand"


def tables(rounds: int) -> Iterator[Table]:
    with TemporaryDirectory() as folder, OldTorchdata() as old:
        paths = [_written(Path(folder) / f"rows{number}.csv", seed=number) for number in range(FILES)]
        loop = contender("by hand: csv.reader loop", HAND, lambda: reader_loop(paths))
        yield contest(
            f"open_files -> parse_csv -> sharding_filter -> map -> batch({CSV_BATCH_SIZE}), "
            f"{FILES} files of {ROWS_PER_FILE:,} rows with 5 columns",
            [
                contender("DataLoader2", OURS, lambda: ours.csv(paths)),
                loop,
                contender("by hand: C iterators", HAND, lambda: reader_iterators(paths)),
                old.contender(CSV, *paths),
            ],
            [Claim(OURS, HAND, at_least=0.75)],
            elements=FILES * ROWS_PER_FILE,
            rounds=rounds,
            reference=loop,
            notes=old.notes,
        )


def reader_loop(paths: list[str]) -> Iterator[list[tuple[float, float, int]]]:
    batch = []
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.reader(file):
                batch.append(features(row))
                if len(batch) == CSV_BATCH_SIZE:
                    yield batch
                    batch = []
    if batch:
        yield batch


def reader_iterators(paths: list[str]) -> Iterator[list[tuple[float, float, int]]]:
    with ExitStack() as files:
        readers = (csv.reader(files.enter_context(open(path, newline=""))) for path in paths)
        rows = map(features, chain.from_iterable(readers))
        yield from takewhile(bool, map(list, map(islice, repeat(rows), repeat(CSV_BATCH_SIZE))))


def _written(path: Path, seed: int) -> str:
    random = Random(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        for number in range(ROWS_PER_FILE):
            label = random.randrange(10)
            writer.writerow([number, round(random.random(), 6), round(random.gauss(0, 1), 6), f"name {number}", label])
    return str(path)
