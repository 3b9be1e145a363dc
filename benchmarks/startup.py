"""Startup time: the first element of a graph of 1,000 stages, and importing the library.

Imports are timed in fresh interpreters, each of which imports torch first and then the packages of this library: what
the second import takes is what the library adds, without the garbage collection that torch's objects leave due. Both
are timed from inside, one right after the other, because the start of an interpreter varies by more than the library is
allowed to take.
"""

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import CalledProcessError, run
from time import perf_counter

from benchmarks import ours
from benchmarks.table import Row, Table

STAGES = 1_000
MOST_MILLISECONDS = 50.0
FRESH_INTERPRETERS = 5
START = "from DataLoader2(...) to first element"
IMPORTS = "loader2, datapipes, reading_services, after torch"

ROOT = Path(__file__).resolve().parents[1]
TIMED_IMPORTS = """
from time import perf_counter
start = perf_counter()
import torch
torch_is_there = perf_counter()
import gc
gc.collect()
begin = perf_counter()
import loader2, datapipes, reading_services
all_are_there = perf_counter()
print([torch_is_there - start, all_are_there - begin])
"""


def tables(rounds: int) -> Iterator[Table]:
    yield Table(f"A graph of {STAGES:,} stages, best of {rounds}", ("step", "ms"), [*_rows_of_start(rounds)])
    yield Table(f"Imports, best of {FRESH_INTERPRETERS} fresh interpreters", ("import", "ms"), [*_rows_of_imports()])


def _rows_of_start(rounds: int) -> Iterator[Row]:
    try:
        steps = [_start() for _ in range(rounds)]
    except Exception as error:  # the row says what failed; the other tables still come
        yield _failed(START, error)
        return
    describing, loading, opening = (min(step) * 1e3 for step in zip(*steps, strict=True))
    yield Row(("describe the graph", f"{describing:.1f}"))
    yield Row(("DataLoader2(...)", f"{loading:.1f}"))
    yield Row(("iter() and first element", f"{opening:.1f}"))
    yield _limited(START, min(loading + opening for _, loading, opening in steps) * 1e3)


def _start() -> tuple[float, float, float]:
    gc.collect()
    begin = perf_counter()
    pipe = ours.chain_of_maps(STAGES, count=STAGES)
    described = perf_counter()
    loader = ours.loaded(pipe)
    loaded = perf_counter()
    stream = iter(loader)
    first = next(stream)
    opened = perf_counter()
    if first != STAGES:
        raise ValueError(f"{STAGES} stages that each add one made {first} of 0")
    return described - begin, loaded - described, opened - loaded


def _rows_of_imports() -> Iterator[Row]:
    # The first interpreter writes missing byte code; it is not counted.
    try:
        times = [_imports() for _ in range(FRESH_INTERPRETERS + 1)][1:]
    except CalledProcessError as error:
        yield _failed(IMPORTS, error.stderr.strip().splitlines()[-1])
        return
    torch, added = (min(column) * 1e3 for column in zip(*times, strict=True))
    yield Row(("torch", f"{torch:.1f}"))
    yield _limited(IMPORTS, added)


def _imports() -> tuple[float, float]:
    done = run([sys.executable, "-c", TIMED_IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True)
    torch, added = json.loads(done.stdout)
    return torch, added


def _limited(step: str, milliseconds: float) -> Row:
    return Row((step, f"{milliseconds:.1f}"), f"< {MOST_MILLISECONDS:g}", milliseconds < MOST_MILLISECONDS)


def _failed(step: str, reason: object) -> Row:
    return Row((step,), f"< {MOST_MILLISECONDS:g}", False, f"not measured: {reason}")
