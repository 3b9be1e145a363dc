"""The size of an element counts all that it holds, once."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from datapipes.weighing import bytes_of

LARGE = 100_000


@dataclass
class Plain:
    data: Any


@dataclass(slots=True)
class Slotted:
    data: Any


@pytest.mark.parametrize(
    "element",
    [
        bytes(LARGE),
        bytearray(LARGE),
        memoryview(bytes(LARGE)),
        "x" * LARGE,
        [bytes(LARGE)],
        ({"a": {"b": deque([bytes(LARGE)])}},),
        {bytes(LARGE): 1},
        Plain(bytes(LARGE)),
        Slotted([bytes(LARGE)]),
        np.zeros(LARGE, np.uint8),
        np.zeros((10, LARGE // 10), np.uint8)[:1],
        np.array([bytes(LARGE), None], object),
        torch.zeros(LARGE, dtype=torch.uint8),
        torch.zeros(LARGE, dtype=torch.uint8)[:1],
        pd.DataFrame({"a": np.zeros(LARGE, np.uint8)}),
        pd.Series(np.zeros(LARGE, np.uint8)),
    ],
)
def test_contents_count(element: Any) -> None:
    assert LARGE <= bytes_of(element) < LARGE + 2000


def test_what_is_held_twice_counts_once() -> None:
    one = bytes(LARGE)
    tensor = torch.zeros(LARGE, dtype=torch.uint8)
    array = np.zeros(LARGE, np.uint8)
    ring: list[Any] = [one, one, tensor[:5], tensor[5:], array[:5], array[5:]]
    ring.append(ring)
    assert 3 * LARGE <= bytes_of(ring) < 3 * LARGE + 2000


def test_what_belongs_to_the_program_does_not_count() -> None:
    assert bytes_of([Plain, sys, print, None, True]) == sys.getsizeof([0] * 5)
