"""The picture of a modelled run: its rectangles add up to the run, and its files are what their endings say."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.errors import BadArgument
from reading_services.ipu.simulator.cost import CostModel, Mode, Work
from reading_services.ipu.simulator.report import CallMeter
from reading_services.ipu.simulator.timeline import LEFT, RIGHT, Timeline

WORKS = st.builds(
    Work,
    device_iterations=st.integers(1, 5),
    micro_batch=st.integers(1, 20),
    stages=st.integers(1, 3),
    synthetic=st.booleans(),
    bytes_in=st.integers(0, 10**8),
    bytes_out=st.integers(0, 10**8),
)
MODEL = CostModel(seconds_per_item=0.001, call=0.001)


def run(works: list[Work], load: float | None, mode: Mode = "async", overlap: bool = False) -> Timeline:
    model = CostModel(seconds_per_item=0.001, call=0.001, overlap=overlap)
    return Timeline([model.step(work, load or 0.0, mode) for work in works], load, mode)


@given(st.lists(WORKS, max_size=5), st.floats(0, 0.1), st.sampled_from(["async", "sync"]), st.booleans())
@settings(deadline=None)
def test_rectangles_add_up(works: list[Work], load: float, mode: Mode, overlap: bool) -> None:
    timeline = run(works, load, mode, overlap)
    lanes = defaultdict(list)
    for span in timeline.spans:
        assert 0 <= span.start < span.end <= timeline.seconds * (1 + 1e-9)
        lanes[span.lane].append(span)
    device = sorted(lanes["chips"] + lanes["stalls"], key=lambda span: span.start)
    assert sum(span.seconds for span in device) == pytest.approx(timeline.seconds)
    for lane in (device, lanes["loader"], lanes["infeed queue"], lanes["host link"]):
        for before, after in pairwise(sorted(lane, key=lambda span: span.start)):
            assert after.start >= before.end - 1e-9, "one thing at a time in a lane"
    costs = [CostModel(seconds_per_item=0.001, call=0.001, overlap=overlap).step(w, load, mode) for w in works]
    for kind, part in (("compute", "compute"), ("waits for the loader", "wait"), ("synchronises", "sync")):
        drawn = sum(span.seconds for span in timeline.spans if span.kind == kind)
        assert drawn == pytest.approx(sum(getattr(cost, part) for cost in costs))
    carried = sum(span.seconds for span in lanes["host link"])
    assert carried == pytest.approx(sum(cost.transfer for cost in costs))


def test_the_svg_is_xml_and_its_rectangles_are_the_spans() -> None:
    timeline = run([Work(micro_batch=10, bytes_in=3_600_000, bytes_out=360_000)] * 3, load=0.02)
    root = ElementTree.fromstring(timeline.svg())
    rectangles = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if len(each)]
    assert len(rectangles) == len(timeline.spans)
    widths: dict[str, float] = defaultdict(float)
    for each in rectangles:
        widths[each.attrib["class"]] += float(each.attrib["width"])
        assert float(each.attrib["x"]) >= LEFT - 0.001
        assert float(each.attrib["x"]) + float(each.attrib["width"]) <= RIGHT + 0.001
        assert "(modelled)" in (each[0].text or "")
    assert widths["chips"] + widths["stalls"] == pytest.approx(RIGHT - LEFT, abs=0.01)
    assert widths["chips"] == pytest.approx((RIGHT - LEFT) / 2, abs=0.01), "10 ms of 20"
    assert widths["loader"] == pytest.approx(RIGHT - LEFT, abs=0.01), "the loader never rests"
    texts = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("Modelled, not measured: 60.0 ms, with 20.00 ms of loading") for text in texts)


def test_a_picture_is_a_file(tmp_path: Path) -> None:
    meter = CallMeter()
    for number in range(100):
        meter.add(Work(micro_batch=10, bytes_in=3_600_000), number, number + 0.5)
    timeline = meter.report(MODEL, load=0.02).timeline(most=7)
    assert {span.step for span in timeline.spans if span.kind == "compute"} == set(range(1, 8))
    assert timeline.save(tmp_path / "run.SVG").read_text("utf-8") == timeline.svg()
    with pytest.raises(BadArgument, match=r"\.svg, not with '\.gif'"):
        timeline.save(tmp_path / "run.gif")


def test_no_steps_are_a_picture_too() -> None:
    ElementTree.fromstring(run([], None).svg())
