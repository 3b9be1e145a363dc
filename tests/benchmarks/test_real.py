"""Real work, small: every contender delivers the same elements, and the tables show it, or say who could not be had."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.peers.child import PeerError
from benchmarks.real import child, crops, data, race
from benchmarks.real.chart import CHART, RESULTS, Results, drawn, recorded
from benchmarks.real.digest import digest
from benchmarks.real.kind import NODES, OURS, TORCH, Kind, Way, same
from benchmarks.real.kinds import KINDS
from benchmarks.table import Table

ELEMENTS = {"text": 20_000, "parquet": 5_000, "csv": 2_000, "memory-map": 600, "small-images": 300}
PICTURES = 40
WAYS = [(name, way) for name, kind in KINDS.items() for way in kind.ways]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    within = tmp_path_factory.mktemp("real")
    return {name: data.made(kind, ELEMENTS.get(name, PICTURES), within) for name, kind in KINDS.items()}


@pytest.fixture(scope="module")
def digests(folders: dict[str, Path]) -> dict[tuple[str, str, int], str]:
    """What each contender delivers that can be had, by kind, contender and workers: ours with 2 workers, too."""
    found: dict[tuple[str, str, int], str] = {}
    present = [(name, way) for name, way in WAYS if not race.absent(way)]
    for interpreter in {way.interpreter for _, way in present}:
        those = [(name, way) for name, way in present if way.interpreter == interpreter]
        asked = [
            (name, way.name, workers) for name, way in those for workers in ((0, 2) if way.library == OURS else (0,))
        ]
        ways = [[name, way, str(folders[name]), workers] for name, way, workers in asked]
        told, _ = race.asked({"do": "digests", "ways": ways}, interpreter)
        found |= dict(zip(asked, told, strict=True))
    return found


@pytest.mark.parametrize(("name", "way"), WAYS, ids=[f"{name}-{way.name}" for name, way in WAYS])
def test_the_same_elements(name: str, way: Way, digests: dict[tuple[str, str, int], str]) -> None:
    if missing := race.absent(way):
        pytest.skip(f"{way.library} is not there, so it was not compared; {missing}")
    expected = digests[name, KINDS[name].reference.name, 0]
    found = {workers: told for (*of, workers), told in digests.items() if of == [name, way.name]}
    assert found == dict.fromkeys(found, expected)
    assert expected.split()[0] == str(ELEMENTS.get(name, PICTURES))


def rendered(tables: Iterable[Table]) -> str:
    return "\n".join(table.render() for table in tables)


def test_the_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rows with figures, a state that goes on exactly, and a contender that is refused."""
    csv = KINDS["csv"]
    ways = tuple(way for way in csv.ways if way.library in (OURS, TORCH, NODES))
    monkeypatch.setitem(KINDS, "csv", replace(csv, ways=ways))
    monkeypatch.setattr(race, "WORKERS", (0,))
    monkeypatch.setattr(race.Runs, "check", only_in_part(race.Runs.check))
    results: Results = {}
    text = rendered(race.tables(["csv"], 1, 2_000 / csv.elements, tmp_path, results))
    assert [*results[csv.title]["no workers"]] == [OURS, TORCH]
    title, _, columns, *rows, sureness, _, _, _, _, state = text.rstrip().splitlines()
    assert title == "Rows of CSV files: 2,000 rows, no workers"
    assert columns.split()[:2] == ["contender", "warm/s"]
    assert [row.split()[0] for row in rows] == ["loader2", "torch", "torchdata.nodes"]
    assert rows[2].endswith("not measured: its output is not that of the others")
    assert sureness.startswith("  medians of 1 round;")
    assert state.endswith("exact  reached")


def test_the_chart_is_that_of_the_results() -> None:
    results = json.loads(RESULTS.read_text())
    assert {*results} == {kind.title for kind in KINDS.values()}
    picture = CHART.read_text()
    assert picture == drawn(results)
    ET.fromstring(picture)


def test_a_run_replaces_the_results_of_its_kinds(tmp_path: Path) -> None:
    to, chart = tmp_path / "results.json", tmp_path / "chart.svg"
    recorded({"A": {"2 workers": {OURS: 1.0}}, "B": {"2 workers": {OURS: 1.0, TORCH: 0.5}}}, to, chart)
    recorded({"B": {"2 workers": {OURS: 3.0, TORCH: 1.0, NODES: 4.0}}}, to, chart)
    assert json.loads(to.read_text())["A"] == {"2 workers": {OURS: 1.0}}
    assert ">0.75 x</tspan> torchdata.nodes" in chart.read_text()


def only_in_part(check: Any) -> Any:
    def checked(runs: race.Runs) -> str:
        return f"{check(runs)} but" if runs.way.library == NODES else str(check(runs))

    return checked


def test_a_contender_that_fails_is_told(tmp_path: Path) -> None:
    runs = race.Runs("csv", KINDS["csv"], KINDS["csv"].reference, 0, tmp_path, 10)
    with pytest.raises(PeerError, match="StopIteration"):
        runs.seconds()


def test_too_few_elements_are_refused(folders: dict[str, Path]) -> None:
    runs = race.Runs("csv", KINDS["csv"], KINDS["csv"].reference, 0, folders["csv"], 2_001)
    with pytest.raises(PeerError, match=r"it gave \[2000, 2000\] of 2001 elements"):
        runs.seconds()


def batches_of(rows: Any, size: int) -> list[Any]:
    return [{"b": rows[at : at + size], "a": rows[at : at + size, :1]} for at in range(0, len(rows), size)]


def test_a_digest_is_of_the_elements_whatever_holds_them() -> None:
    rows = np.arange(60, dtype=np.float64).reshape(20, 3)
    expected = digest(batches_of(rows, 7), same)
    assert digest(batches_of(rows[::-1].copy(), 4), same) == expected
    assert digest([(torch.tensor(rows[:, :1]), torch.tensor(rows))], same) == expected


@pytest.mark.parametrize("change", ["one value", "one row twice", "one row less", "two columns changed about"])
def test_a_digest_tells_other_elements(change: str) -> None:
    rows = np.arange(60, dtype=np.float32).reshape(20, 3)
    other = rows.copy()
    if change == "one value":
        other[3, 1] += 1
    elif change == "one row twice":
        other[4] = other[5]
    elif change == "one row less":
        other = other[1:]
    else:
        other = other[:, [1, 0, 2]]
    assert digest([other], same) != digest([rows], same)


def test_pictures_that_are_cut_elsewhere_are_told(folders: dict[str, Path]) -> None:
    folder = folders["images-crop"]
    plain, found = KINDS["images-crop"].comparable(folder), crops.Crops(folder)
    pictures, labels = (np.array(column) for column in zip(*(found[number] for number in range(8)), strict=True))
    numbers, _, near = plain((pictures, labels))
    assert numbers == [*range(8)]
    assert near.all()
    assert plain((torch.tensor(pictures).permute(0, 3, 1, 2), labels))[2].all()
    assert not plain((np.roll(pictures, 1, axis=2), labels))[2].any()
    pictures[3, 5, 5, 0] ^= 4
    assert plain((pictures, labels))[2].tolist() == [number != 3 for number in range(8)]


def test_every_kind_has_ours_and_a_reference() -> None:
    for kind in KINDS.values():
        assert isinstance(kind, Kind)
        assert kind.ways[0].library == OURS
        assert kind.reference.library == TORCH
        names = [way.name for way in kind.ways]
        assert len(set(names)) == len(names)


def test_own_forms_are_made_once(tmp_path: Path) -> None:
    made: list[Path] = []

    def prepare(folder: Path, target: Path) -> None:
        made.append(target)
        target.mkdir()

    way = Way(TORCH, lambda folder, workers: [], prepare=prepare)
    child.made_ready(way, tmp_path)
    child.made_ready(way, tmp_path)
    assert len(made) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["torch"]
