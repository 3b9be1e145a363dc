"""An element that is late costs nothing: below every operator the same elements come as without, live and resumed.

The source raises PullTimeout in place of an element that it gives when it is asked again, as ``timeout`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import PullTimeout
from datapipes.graph import Pipe
from datapipes.iter.placement.retry import Retrier
from datapipes.position.cells import CountCell
from datapipes.position.opening import Opening
from loader2 import DataLoader2
from loader2.testing.comparing import SEED, taken
from tests.naive_graphs import Graph, built_over
from tests.specimens.catalogue import SPECIMENS
from tests.specimens.specimen import Specimen, Tap, shown
from tests.test_random_graphs import EXAMPLES, GRAPH, SEEDS

MOST_ERRORS = 12  # readers in several threads meet the same error


@operator
class Late(IterDataPipe[Any]):
    """The same elements; before some of them a PullTimeout is raised, once in the life of ``to_come``."""

    _fluent: ClassVar[str | None] = "late"

    source_datapipe: IterDataPipe[Any]
    to_come: set[int]

    def _open(self, at: Opening) -> Iterator[Any]:
        cell = at.cell(CountCell)
        return cell.counting(self._elements(at.source(self.source_datapipe), cell))

    def _elements(self, source: Iterator[Any], cell: CountCell) -> Iterator[Any]:
        while True:
            if cell.save() in self.to_come:
                self.to_come.remove(cell.save())
                raise PullTimeout("not yet")
            for element in source:
                yield element
                break
            else:
                return


class LateSource(Tap):
    """Some elements of the source are late, and those with the same numbers of the sources read in step with it."""

    def __init__(self, *late: int) -> None:
        super().__init__()
        self.late = late

    def __call__(self, source: Pipe) -> Pipe:
        return Late(source, set(self.late))

    def partner(self, source: Pipe) -> Pipe:
        return Late(source, set(self.late))


def specimens() -> dict[str, list[Specimen]]:
    """The specimens of each operator, but those that start workers or are tried at few positions only."""
    tried: dict[str, list[Specimen]] = {}
    for specimen in SPECIMENS:
        if specimen.service is None and specimen.stops is None and not specimen.raises:
            tried.setdefault(specimen.operator, []).append(specimen)
    return tried


@pytest.mark.filterwarnings("ignore:.* goes on after")
@pytest.mark.parametrize("together", specimens().values(), ids=specimens())
def test_a_late_element_costs_nothing(together: list[Specimen], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retrier, "_pause", lambda self, attempt: 0.0)
    for specimen in together:
        plain = Tap()
        specimen.build(plain)
        middle = min(plain.lengths, default=0) // 2
        for late in [(0,), (middle,), (middle, middle + 1)] if plain.lengths else []:
            must_cost_nothing(specimen, late)


@EXAMPLES
@given(GRAPH, SEEDS, st.sets(st.integers(0, 8), max_size=2))
@pytest.mark.filterwarnings("ignore:.* goes on after", "ignore:random_split deals elements out by their number")
def test_a_late_element_costs_nothing_in_any_graph(graph: Graph, seed: int, late: set[int]) -> None:
    def loaded(*late: int) -> DataLoader2[Any]:
        loader: DataLoader2[Any] = DataLoader2(built_over(graph, lambda source: Late(source, set(late))))
        loader.seed(seed)
        return loader

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Retrier, "_pause", lambda self, attempt: 0.0)
        must_be_the_same(loaded, tuple(late), f"{graph}")


def must_cost_nothing(specimen: Specimen, late: tuple[int, ...]) -> None:
    def opened(*late: int) -> DataLoader2[Any]:
        return specimen.loader(specimen.build(LateSource(*late)), SEED)

    must_be_the_same(opened, late, str(specimen))


def must_be_the_same(opened: Callable[..., DataLoader2[Any]], late: tuple[int, ...], what: str) -> None:
    with opened() as loader:
        whole = taken(iter(loader))
    found: list[str] = []
    saved: list[tuple[int, dict[str, Any]]] = []
    with opened(*late) as loader:
        iterator = iter(loader)
        while len(saved) < MOST_ERRORS:
            try:
                found.append(shown(next(iterator)))
            except PullTimeout:
                saved.append((len(found), loader.state_dict()))
            except StopIteration:
                break
    assert found == whole, f"{what}, with {late} late"
    for given_before, state in saved:
        with opened() as loader:
            loader.load_state_dict(state)
            rest = taken(iter(loader))
        assert found[:given_before] + rest == whole, f"{what}, with {late} late, resumed after {given_before}"
