"""An element that is late costs nothing: below every operator the same elements come as without, live and resumed.

The source raises PullTimeout in place of an element that it gives when it is asked again, as ``timeout`` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import PullTimeout
from datapipes.graph import Pipe
from datapipes.iter.placement.retry import Retrier
from datapipes.position.cells import Given
from datapipes.position.opening import Opening
from loader2 import DataLoader2
from loader2.testing.comparing import SEED, taken
from tests.specimens.catalogue import SPECIMENS
from tests.specimens.specimen import Specimen, Tap, shown

MOST_ERRORS = 12  # readers in several threads meet the same error


@operator
class Late(IterDataPipe[Any]):
    """The same elements; before some of them a PullTimeout is raised, once in the life of ``to_come``."""

    _fluent: ClassVar[str | None] = "late"
    _may_be_late: ClassVar[bool] = True

    source_datapipe: IterDataPipe[Any]
    to_come: set[int]

    def _open(self, at: Opening) -> Iterator[Any]:
        given = at.cell(Given)
        return given.counting(self._elements(at.source(self.source_datapipe), given))

    def _elements(self, source: Iterator[Any], given: Given) -> Iterator[Any]:
        while True:
            if given.save() in self.to_come:
                self.to_come.remove(given.save())
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


def must_cost_nothing(specimen: Specimen, late: tuple[int, ...]) -> None:
    with opened(specimen) as loader:
        whole = taken(iter(loader))
    found: list[str] = []
    saved: list[tuple[int, dict[str, Any]]] = []
    with opened(specimen, *late) as loader:
        iterator = iter(loader)
        while len(saved) < MOST_ERRORS:
            try:
                found.append(shown(next(iterator)))
            except PullTimeout:
                saved.append((len(found), loader.state_dict()))
            except StopIteration:
                break
    assert found == whole, f"{specimen}, with {late} late"
    for given, state in saved:
        with opened(specimen) as loader:
            loader.load_state_dict(state)
            assert found[:given] + taken(iter(loader)) == whole, f"{specimen}, with {late} late, resumed after {given}"


def opened(specimen: Specimen, *late: int) -> DataLoader2[Any]:
    return specimen.loader(specimen.build(LateSource(*late)), SEED)
