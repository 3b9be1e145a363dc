"""Ctrl-C costs no element: in functions and sources of every operator, in the library's own code, and for real."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.interruptions import GRAPHS, Sender, interrupt, whole_of
from tests.laws.interruptions import interrupt_at_moments, interrupted
from tests.specimens.catalogue import SPECIMENS, specimens_of
from tests.specimens.specimen import Specimen

MOMENTS = 4
SIGNALS = 1  # for each graph
TRIES = 3

# A KeyboardInterrupt in a thread or a coroutine is no Ctrl-C: asyncio ends its loop, and the other thread is told.
IN_THREADS = {
    "iter.async_map_batches: a function that raises, one element at a time",
    "iter.fork: both prefetched",
}
IN_STEPS = ["iter.map", "iter.filter", "iter.batch", "iter.zip", "iter.mux", "iter.concat", "iter.sliding_window"]
IN_STEPS += ["users.stateful"]


def together() -> dict[str, list[Specimen]]:
    """The specimens of each operator, but those that start workers or are tried at few positions only."""
    tried: dict[str, list[Specimen]] = {}
    for specimen in SPECIMENS:
        if specimen.service is None and not specimen.raises and str(specimen) not in IN_THREADS:
            tried.setdefault(specimen.operator, []).append(specimen)
    return tried


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("specimens", together().values(), ids=together())
def test_an_interruption_costs_nothing(specimens: list[Specimen]) -> None:
    for specimen in specimens:
        interrupted(specimen)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operator", IN_STEPS)
def test_an_interruption_of_the_library_costs_nothing(operator: str) -> None:
    for specimen in specimens_of(operator):
        interrupt_at_moments(specimen, MOMENTS)


def test_real_signals_cost_nothing() -> None:
    random, came = Random(1), Counter[str]()
    known = {name: whole_of(name) for name in GRAPHS}
    with Sender() as sender:
        for _ in range(TRIES):
            for name in [name for name in GRAPHS if came[name] < SIGNALS]:
                whole, seconds = known[name]
                came[name] += interrupt(sender, name, whole, random.uniform(0, seconds), bool(random.getrandbits(1)))
    assert came.total() > 0
