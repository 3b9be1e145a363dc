"""Every operator keeps every law of ``loader2.testing``, one case each."""

from __future__ import annotations

import pytest

from datapipes.messages.switches import FAST
from datapipes.position.position_history import SnapshotBudget
from loader2.testing import LAWS, PLACED, Specimen
from tests.laws.table import broken
from tests.specimens.catalogue import SPECIMENS, operators, specimens_of
from tests.specimens.services import SERVICES


def tried_together() -> dict[str, list[Specimen]]:
    """The specimens of an operator are one case, but for those that open processes or connections: each is one alone.

    So no case takes long on a machine that is at rest, and a limit of time finds nothing but what hangs.
    """
    together: dict[str, list[Specimen]] = {}
    for specimen in SPECIMENS:
        is_slow = specimen.service is not None or specimen.stops is not None
        together.setdefault(str(specimen) if is_slow else specimen.operator, []).append(specimen)
    return together


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("specimens", tried_together().values(), ids=tried_together())
def test_law(specimens: list[Specimen], law: str) -> None:
    if wrong := broken(specimens, law):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("law", [law for law in PLACED if law not in LAWS])
@pytest.mark.parametrize("specimen", SERVICES, ids=map(str, SERVICES))
def test_law_of_services(specimen: Specimen, law: str) -> None:
    if wrong := broken([specimen], law):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("looks", ["always", "never"])
@pytest.mark.parametrize("law", ["resume", "errors"])
@pytest.mark.parametrize("operator", ["iter.prefetch", "iter.retry", "iter.threadpool_map", "iter.timeout"])
def test_law_whether_or_not_positions_are_looked_at(
    operator: str, law: str, looks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SnapshotBudget, "is_cheap", lambda self: looks == "always")
    if wrong := broken(specimens_of(operator), law):
        pytest.fail("\n".join(wrong), pytrace=False)


QUICKER = [
    "iter.decode_images",
    "iter.decompress",
    "iter.extract",
    "iter.list_files_by_s3",
    "iter.load_files_by_s3",
    "iter.load_from_tar",
    "iter.load_from_zip",
    "iter.open_files_by_fsspec",
    "iter.parse_jsonl",
    "iter.webdataset",
    "map.decode_images",
]
"""The operators that use a library of the extra ``fast``."""


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("operator", QUICKER)
def test_law_without_the_quicker_libraries(operator: str, law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAST, "0")
    if wrong := broken(specimens_of(operator), law):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("operator", operators())
def test_operator_has_specimens(operator: str) -> None:
    quiet = [specimen for specimen in specimens_of(operator) if not specimen.raises]
    assert len(quiet) > 1 or operator.startswith("map."), f"give {operator} specimens in tests/specimens/"
    assert quiet, f"give {operator} a specimen in tests/specimens/"


def test_specimens_are_told_apart_and_belong_to_an_operator() -> None:
    names = [str(specimen) for specimen in SPECIMENS]
    assert sorted(set(names)) == sorted(names)
    assert {specimen.operator for specimen in SPECIMENS} == set(operators())
