"""Lists of tokens to batches of blocks, by `pack`, `batch` and `collate`, against a loop that fills arrays of numpy."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness import OURS, Claim, Contender, contender, contest
from benchmarks.table import Table
from benchmarks.workload import fingerprint

SIZE, BATCH = 1_024, 8
LENGTHS = (300, 500, 700, 900)
SEQUENCES = 2_000
HAND = "hand"

Array = npt.NDArray[np.int64]
Batch = dict[str, Any]


def tables(rounds: int) -> Iterator[Table]:
    sequences = [list(range(LENGTHS[number % len(LENGTHS)])) for number in range(SEQUENCES)]
    loop = _contender("by hand: numpy", HAND, lambda: numpy_loop(sequences))
    yield contest(
        f"pack({SIZE}, fit='cut') -> batch({BATCH}) -> collate, "
        f"{SEQUENCES:,} lists of {LENGTHS[0]} to {LENGTHS[-1]} tokens; an element is a token",
        [_contender("pipes", OURS, lambda: pipes(sequences)), loop],
        [Claim(OURS, HAND, at_least=0.35)],
        elements=sum(map(len, sequences)),
        rounds=rounds,
        reference=loop,
    )


def _contender(name: str, family: str, build: Callable[[], Iterator[Batch]]) -> Contender:
    """Return a contender whose batches are compared as lists: the repr of a tensor is shortened."""
    timed = contender(name, family, build)
    return replace(timed, check=lambda: fingerprint(map(_as_lists, build()), in_order=True))


def _as_lists(batch: Batch) -> dict[str, Any]:
    return {name: column.tolist() for name, column in batch.items()}


def pipes(sequences: list[list[int]]) -> Iterator[Batch]:
    from datapipes.iter import IterableWrapper

    return iter(IterableWrapper(sequences, deepcopy=False).pack(SIZE, fit="cut").batch(BATCH).collate())


def numpy_loop(sequences: list[list[int]]) -> Iterator[Batch]:
    """Fill the arrays of a batch one after the other."""
    counted = np.arange(SIZE)
    tokens, segments, positions = (np.zeros(BATCH * SIZE, dtype=np.int64) for _ in range(3))
    at, segment = 0, 0
    for sequence in sequences:
        left = np.array(sequence, dtype=np.int64)
        while len(left):
            segment = 1 if at % SIZE == 0 else segment + 1
            count = min(SIZE - at % SIZE, len(left))
            place = slice(at, at + count)
            tokens[place], segments[place], positions[place] = left[:count], segment, counted[:count]
            left, at = left[count:], at + count
            if at == BATCH * SIZE:
                yield _batch(tokens, segments, positions, BATCH)
                tokens, segments, positions = (np.zeros(BATCH * SIZE, dtype=np.int64) for _ in range(3))
                at = 0
    if at:
        yield _batch(tokens, segments, positions, -(-at // SIZE))


def _batch(tokens: Array, segments: Array, positions: Array, blocks: int) -> Batch:
    columns = {"tokens": tokens, "segments": segments, "positions": positions}
    return {name: column[: blocks * SIZE].reshape(blocks, SIZE) for name, column in columns.items()}
