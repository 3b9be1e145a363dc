"""`python -m benchmarks` runs all of them, `python -m benchmarks graph csv` some.

A missed requirement is printed; the exit code tells of it only with `--check`, because figures taken on a busy machine
are still worth reading.
"""

import argparse
import sys
from collections.abc import Callable, Iterator

from benchmarks import (
    csv_files,
    file_formats,
    full_sync,
    graph,
    ipu,
    machine,
    packing,
    pushdown,
    remote,
    resuming,
    scale,
    scaling,
    startup,
    workers,
)
from benchmarks.table import Table

BENCHMARKS: dict[str, tuple[str, Callable[[int], Iterator[Table]]]] = {
    "graph": ("three graphs in process, against hand-written code and peers", graph.tables),
    "csv": ("rows of CSV files, against a bare csv.reader loop", csv_files.tables),
    "files": ("each kind of file, against the plain loop over its library", file_formats.tables),
    "pack": ("lists of tokens to blocks, against a loop that fills arrays of numpy", packing.tables),
    "remote": ("files of 64 KiB over http and from s3, against urllib and without the extra", remote.tables),
    "scaling": ("cost per element and stage, for 1 to 64 stages", scaling.tables),
    "resuming": ("going on in a random order, against reading up to there", resuming.tables),
    "pushdown": ("one shard of eight, where elements are dear", pushdown.tables),
    "workers": ("two worker processes, against torch's DataLoader and one process", workers.tables),
    "fullsync": ("two ranks in step, against two that are not", full_sync.tables),
    "scale": ("8 to 65,536 ranks: what they say, ask and read, by arithmetic that counting bears out", scale.tables),
    "ipu": ("the IPU side: combined batches, against torch's DataLoader and one gather", ipu.tables),
    "startup": ("first element of a graph of 1,000 stages, and imports", startup.tables),
}
ROUNDS = 15


def main(arguments: list[str]) -> int:
    options = _parsed(arguments)
    if options.list:
        print(_listed())
        return 0
    print(f"{machine.header()}\nContenders took turns; a figure is a contender's best round.\n")
    missed = 0
    for name in options.names or BENCHMARKS:
        _, tables = BENCHMARKS[name]
        for table in tables(options.rounds):
            print(table.render(), flush=True)
            missed += table.missed
    print(f"{missed} missed" if missed else "none missed")
    return 1 if missed and options.check else 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure this library against limits and peers in one run.",
        epilog=f"what there is:\n{_listed()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="name", help="which to run; all if none is named")
    parser.add_argument("--list", action="store_true", help="say what there is and leave")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds per contender, {ROUNDS} by default")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a requirement is missed")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least one round is needed")
    return options


def _listed() -> str:
    return "\n".join(f"  {name:<10}{sentence}" for name, (sentence, _) in BENCHMARKS.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
