"""Workload of every contender: the elements, the functions, and how outputs are compared.

Contenders share these functions, so a difference in speed is never a difference in the work. This file imports only the
standard library, because the interpreters of the peers read it too.
"""

from collections.abc import Iterable
from hashlib import sha256

ELEMENTS = 200_000
BUFFER_SIZE = 10_000
BATCH_SIZE = 8
MAPS = 16
CSV_BATCH_SIZE = 32

SHUFFLED = "shuffled"
BATCHED = "batched"
MAPPED = "mapped"
CSV = "csv"


def add_one(value: int) -> int:
    return value + 1


def is_even(value: int) -> bool:
    return value % 2 == 0


def features(row: list[str]) -> tuple[float, float, int]:
    return float(row[1]), float(row[2]), int(row[4])


def fingerprint(outputs: Iterable[object], in_order: bool) -> str:
    """A digest that two contenders share exactly when they did the same work.

    Batches count by their contents, whatever list type holds them. With `in_order=False` the outputs are batches of
    shuffled elements: what counts then is the batches' sizes, which elements there were, and that they were mixed.
    """
    plain = [list(output) if isinstance(output, list) else output for output in outputs]
    if in_order:
        return _digest(plain)
    batches = [output for output in plain if isinstance(output, list)]
    elements = [element for batch in batches for element in batch]
    was_shuffled = elements != sorted(elements)
    return _digest([was_shuffled, len(plain), [len(batch) for batch in batches], sorted(elements)])


def _digest(outputs: list[object]) -> str:
    return sha256(repr(outputs).encode()).hexdigest()
