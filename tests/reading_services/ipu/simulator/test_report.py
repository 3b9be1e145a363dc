"""A report keeps what is modelled apart from what was measured, and adds up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.errors import BadArgument
from reading_services.ipu.simulator.cost import CostModel, Work
from reading_services.ipu.simulator.report import CallMeter

WORK = Work(micro_batch=10, bytes_in=3_600_000)
MODEL = CostModel(seconds_per_item=0.001, call=0.001)  # 10 ms of compute, 1 ms each of transfer and sync


def metered(*works: Work, seconds: float = 0.5) -> CallMeter:
    meter = CallMeter()
    for number, work in enumerate(works):
        meter.add(work, float(number), number + seconds)
    return meter


@given(st.lists(st.integers(1, 3), max_size=20), st.floats(0, 0.1), st.sampled_from(["async", "sync"]))
@settings(deadline=None)
def test_sums_are_those_of_the_steps(batches: list[int], load: float, mode: str) -> None:
    works = [Work(micro_batch=batch, bytes_in=batch * 10**6) for batch in batches]
    report = metered(*works).report(MODEL, load, mode)  # type: ignore[arg-type]  # one of the two
    costs = [MODEL.step(work, load, mode) for work in works]  # type: ignore[arg-type]  # one of the two
    assert report.count == len(works)
    assert report.total("items") == sum(batches)
    for part in ("compute", "transfer", "sync", "wait", "wall"):
        assert report.total(part) == pytest.approx(sum(getattr(cost, part) for cost in costs))
    assert report.utilisation + report.stall == 1
    assert report.items_per_second <= report.synthetic_items_per_second * (1 + 1e-9)
    assert report.measured["inside"] == pytest.approx(0.5 * len(works))
    assert report.measured["between"] == pytest.approx(0.5 * max(0, len(works) - 1))
    spread = [(each["first"] + k) for each in report.as_dict()["modelled"]["steps"] for k in range(each["count"])]
    assert spread == list(range(1, len(works) + 1))


def test_a_measured_second_changes_nothing_modelled() -> None:
    quick, slow = (metered(WORK, WORK, seconds=seconds).report(MODEL).as_dict() for seconds in (0.1, 0.9))
    assert quick["modelled"] == slow["modelled"]
    assert quick["measured"] != slow["measured"]
    assert json.loads(json.dumps(quick)) == quick


def test_the_text_says_which_is_which() -> None:
    lines = str(metered(WORK, WORK, Work(micro_batch=5)).report(MODEL, load=0.02)).splitlines()
    assert lines[0].startswith("Modelled, not measured: 3 steps, 25 items")
    assert lines[1].split() == ["step", "items", "compute", "transfer", "sync", "waiting", "wall", "utilisation"]
    assert lines[2].split() == ["1-2", "10", "10.00", "1.00", "1.00", "8.00", "20.00", "0.50"]
    assert lines[3].split() == ["3", "5", "5.00", "0.00", "1.00", "14.00", "20.00", "0.25"]
    assert "417 items/s, on synthetic data 1,000; utilisation 0.42, stall 0.58" in lines[4]
    assert "20.00 ms" in lines[5]
    assert lines[6] == "Measured here: the simulation took 1.50 s in 3 calls, and 1.00 s between."
    assert "load=" in str(metered(WORK).report(MODEL)), "that the wait is not known is said"


def test_no_steps_are_a_report_too() -> None:
    report = CallMeter().report()
    assert (report.count, report.items_per_second, report.synthetic_items_per_second) == (0, 0.0, 0.0)
    assert "0 steps" in str(report)


def test_a_report_is_of_its_moment() -> None:
    meter = metered(WORK)
    report = meter.report(MODEL)
    meter.add(WORK, 5, 6)
    assert report.count == 1
    assert meter.report(MODEL).count == 2


def test_a_million_equal_calls_are_kept_as_one() -> None:
    assert len(metered(*[WORK] * 1000).calls) == 1


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(BadArgument, match="load=-1"):
        CallMeter().report(load=-1)
    with pytest.raises(BadArgument, match="mode='Async'"):
        CallMeter().report(mode="Async")  # type: ignore[arg-type]  # that is what is tested
