"""Ctrl-C costs no element: in functions and sources of every operator, in the library's own code, and for real."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from random import Random

import pytest

from datapipes.iter import IterableWrapper
from datapipes.position import session_cells
from datapipes.position.iterator import iterate
from datapipes.position.session import Session
from tests.interruptions import GRAPHS, Sender, interrupt, whole_of
from tests.laws.interruptions import interrupt_at_moments, interrupted
from tests.specimens.catalogue import SPECIMENS
from tests.specimens.specimen import Specimen

MOMENTS = 4
SIGNALS = 1  # for each graph
TRIES = 3

# A KeyboardInterrupt in a thread or a coroutine is no Ctrl-C: asyncio ends its loop, and the other thread is told.
IN_THREADS = {
    "iter.async_map_batches: a function that raises, one element at a time",
    "iter.fork: both prefetched",
}
# What an interruption of the library's own code still costs something in, and why.
STREAMS = "a stream that is read in the stage is not read again from its start"
NOT_KEPT = {
    "iter.async_map_batches": "the coroutines of its loop end with it",
    "iter.check_hash": STREAMS,
    "iter.decompress": STREAMS,
    "iter.extract": STREAMS,
    "iter.load_from_bz2": STREAMS,
    "iter.load_from_rar": STREAMS,
    "iter.load_from_tar": STREAMS,
    "iter.load_from_xz": STREAMS,
    "iter.load_from_zip": STREAMS,
    "iter.open_files": STREAMS,
    "iter.routed_decode": STREAMS,
    "iter.webdataset": STREAMS,
    "iter.NodeWrapper": "a node's state is taken behind the element",
    "iter.prefetch": "its thread may not be told if it is being started or stopped",
    "iter.timeout": "its thread may not be told if it is being started or stopped",
    "iter.save_by_iopath": "its lock is let go with the traceback of the interruption",
    "iter.memory_cell": "it remembers an element in a call, before the element is handed on",
    "users.iterator": "the user's iterator is ended by it",
}


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


def test_the_table_names_operators() -> None:
    assert set(NOT_KEPT) <= set(together())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operator", [operator for operator in together() if operator not in NOT_KEPT])
def test_an_interruption_of_the_library_costs_nothing(operator: str) -> None:
    for specimen in together()[operator]:
        interrupt_at_moments(specimen, MOMENTS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("operator", "title", "function"),
    [
        ("iter.sharding_filter", "below rows", "_RangeCell.following"),
        ("iter.shuffled_flatmap", "lists", "FlattenCell.inputs"),
        ("iter.shuffled_flatmap", "lists", "FlattenCell.finish"),
        ("iter.SampleMultiplexer", "three of different length", "_MixCell.leave"),
        ("iter.mix", "forked", "_RepeatingMixCell"),
        ("iter.list_files", "one folder, a mask", "_Listing"),
        ("iter.parse_json_files", "binary", "StreamWrapper.close"),
        ("iter.lines_to_paragraphs", "two files", "ParagraphAggregator"),
        ("users.stateful", "on a child of a fork", "_elements"),
        ("iter.demux", "in turn", "_RoutedChild._elements"),
        ("iter.fork", "in step", "_ForkChild._elements"),
    ],
)
def test_an_interruption_anywhere_in_a_function_of_the_library_costs_nothing(
    operator: str, title: str, function: str
) -> None:
    (specimen,) = [specimen for specimen in together()[operator] if str(specimen) == f"{operator}: {title}"]
    interrupt_at_moments(specimen, 200, function)


# A signal may come in a finalizer, where Python cannot raise it.
@pytest.mark.filterwarnings("ignore")
def test_real_signals_cost_nothing() -> None:
    random, came = Random(1), Counter[str]()
    known = {name: whole_of(name) for name in GRAPHS if not {"prefetch", "timeout"} & {*name.split()}}  # see NOT_KEPT
    with Sender() as sender:
        for _ in range(TRIES):
            for name in [name for name in known if came[name] < SIGNALS]:
                whole, seconds = known[name]
                came[name] += interrupt(sender, name, whole, random.uniform(0, seconds), bool(random.getrandbits(1)))
    assert came.total() > 0


def test_a_traceback_at_the_address_of_an_earlier_one_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_cells, "id", lambda traceback: 1, raising=False)
    bad = {2, 5}

    def once(x: int) -> int:
        if x in bad:
            bad.remove(x)
            raise KeyboardInterrupt
        return x

    iterator = iter(IterableWrapper(range(8)).map(once))
    found: list[int] = []
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            found.extend(iterator)
    assert [*found, *iterator] == list(range(8))


@pytest.mark.parametrize("resumed", [False, True])
def test_a_second_ctrl_c_before_the_first_is_noted_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    """It may come where the session is about to note the first one."""
    fail, calls = Session.fail, [0]

    def interrupted_at_first(self: Session, error: BaseException) -> None:
        calls[0] += 1
        if calls[0] == 1:
            raise KeyboardInterrupt
        fail(self, error)

    def once(x: int) -> int:
        if x == 7 and not calls[0]:
            raise KeyboardInterrupt
        return x

    monkeypatch.setattr(Session, "fail", interrupted_at_first)
    iterator = iterate(IterableWrapper(range(20)).map(once).batch(3))
    found: list[list[int]] = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(iterator)
    if resumed:
        state = iterator.state_dict()
        iterator = iterate(IterableWrapper(range(20)).map(once).batch(3))
        iterator.load_state_dict(state)
    assert list(chain(*found, *iterator)) == list(range(20))
    assert calls == [2]
