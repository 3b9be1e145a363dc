"""size_of counts the data of an element, wherever in it that is, and each object once."""

from __future__ import annotations

from collections import deque, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from datapipes.elements.sizes import size_of

KB = 1000
Row = namedtuple("Row", "image label")


@dataclass
class Sample:
    image: Any
    label: int = 0


@dataclass(slots=True)
class Slotted:
    image: Any
    label: int = 0


DATA = [
    bytes(100 * KB),
    bytearray(100 * KB),
    "x" * 100 * KB,
    torch.zeros(25 * KB),
    torch.zeros(100, KB, dtype=torch.uint8).t(),
    torch.zeros(10_000_000, dtype=torch.uint8)[: 100 * KB],
    np.zeros(100 * KB, np.uint8),
    np.zeros(10_000_000, np.uint8)[: 100 * KB],
    np.array([bytes(50 * KB), bytes(50 * KB)], dtype=object),
    memoryview(bytes(100 * KB)),
    pa.array(np.zeros(100 * KB, np.uint8)),
    [bytes(10 * KB) + bytes([i]) for i in range(10)],
]
HOLDERS = [
    lambda x: x,
    lambda x: (x, 1),
    lambda x: [[x]],
    lambda x: {"image": x},
    lambda x: {"a": {"b": (x,)}},
    lambda x: deque([x]),
    lambda x: Row(x, 1),
    lambda x: Sample(x),
    lambda x: Slotted(x),
    lambda x: [x, x, x],
]


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("data", DATA, ids=lambda data: type(data).__name__)
def test_the_data_counts_and_little_else(data: Any, holder: Any) -> None:
    assert 100 * KB <= size_of(holder(data)) < 102 * KB


def test_sets_and_keys_count() -> None:
    assert size_of({bytes(100 * KB)}) > 100 * KB
    assert size_of(frozenset([bytes(100 * KB)])) > 100 * KB
    assert size_of({bytes(100 * KB): None}) > 100 * KB


def test_sparse_tensors_count_by_what_they_store() -> None:
    sparse = torch.sparse_coo_tensor(torch.arange(KB)[None], torch.ones(KB), (10_000_000,), check_invariants=True)
    assert 12 * KB <= size_of(sparse) < 13 * KB


def test_what_holds_itself_ends() -> None:
    ring: list[Any] = [bytes(KB)]
    ring.append(ring)
    assert KB < size_of(ring) < 2 * KB


def test_depth_is_no_matter() -> None:
    nested: list[Any] = [bytes(KB)]
    for _ in range(100_000):
        nested = [nested]
    assert size_of(nested) > 100_000


def test_small_things_are_small() -> None:
    small: list[Any] = [None, 1, 1.5, "x", b"", (), [], {}, len, int, torch, np.float32(1)]
    assert all(0 <= size_of(x) < 200 for x in small)
