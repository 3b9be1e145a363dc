"""Timeline of a modelled run as a picture: loader, infeed queue, link and chips at each moment.

Every moment of the run is in exactly one rectangle of the chips' lane or the stalls' lane: compute and stalls add up to
the run. The lanes of loader, queue and link are parallel to them and may overlap with both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datapipes.errors import BadArgument
from reading_services.ipu.simulator.cost import Mode, StepCost

LANES = ("loader", "infeed queue", "host link", "chips", "stalls")
COLOURS = {
    "loading": "#4477aa",
    "ready in the queue": "#bbccee",
    "transfer in": "#66ccee",
    "transfer out": "#aa3377",
    "compute": "#228833",
    "waits for the loader": "#ee6677",
    "waits for transfers": "#ddaa33",
    "waits for other chips": "#997700",
    "synchronises": "#777777",
}
WIDTH, LEFT, TOP, LANE, GAP = 1000, 110, 40, 26, 8
RIGHT = WIDTH - 40
LEGEND = TOP + len(LANES) * (LANE + GAP) + 36
HEIGHT = LEGEND + 46


@dataclass(frozen=True)
class Span:
    """One rectangle: the activity in a lane, its step, and its modelled seconds from ``start`` to ``end``."""

    lane: str
    kind: str
    step: int
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Timeline:
    """Modelled run as rectangles, available as SVG.

    In async mode the loader starts on the next step when this one is taken. The first step is there already.

    >>> timeline = Timeline([StepCost(compute=0.02, transfer_in=0.01, wait=0.005)] * 2, load=0.035)
    >>> [(span.lane, span.kind, span.step) for span in timeline.spans][:3]
    [('loader', 'loading', 2), ('stalls', 'waits for transfers', 1), ('chips', 'compute', 1)]
    >>> timeline.svg().startswith("<svg")
    True
    """

    def __init__(self, costs: Sequence[StepCost], load: float | None = None, mode: Mode = "async") -> None:
        self.load, self.mode = load, mode
        self.spans = [span for span in _spans(costs, load or 0.0, mode) if span.end > span.start]
        self.seconds = sum(cost.wall for cost in costs)

    def svg(self) -> str:
        """Return the picture as SVG. The tooltip of a rectangle is its kind, step and modelled milliseconds."""
        size = f'width="{WIDTH}" height="{HEIGHT}"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
            f'<rect class="paper" {size} fill="#ffffff"/>',
        ]
        for x, y, text, anchor in self._texts():
            parts.append(f'<text x="{x:.2f}" y="{y + 4}" text-anchor="{anchor}">{text}</text>')
        for x, y, colour in _legend():
            parts.append(f'<rect class="legend" x="{x}" y="{y - 6}" width="12" height="12" fill="{colour}"/>')
        for span, left, right, y in self._boxes():
            title = f"step {span.step}: {span.kind}, {span.seconds * 1e3:.3f} ms (modelled)"
            parts.append(
                f'<rect class="{span.lane}" x="{left:.4f}" y="{y}" width="{right - left:.4f}" height="{LANE}"'
                f' fill="{COLOURS[span.kind]}"><title>{title}</title></rect>'
            )
        return "\n".join([*parts, "</svg>\n"])

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file, whose name ends with .svg, and return the path."""
        path = Path(path)
        if path.suffix.lower() != ".svg":
            raise BadArgument(f"Timeline.save({str(path)!r}): it must end with .svg, not with {path.suffix!r}")
        path.write_text(self.svg(), encoding="utf-8")
        return path

    def _boxes(self) -> Iterator[tuple[Span, float, float, int]]:
        """Yield each span with its left and right edge and its top."""
        scale = (RIGHT - LEFT) / (self.seconds or 1.0)
        for span in self.spans:
            yield span, LEFT + span.start * scale, LEFT + span.end * scale, _top(span.lane)

    def _texts(self) -> Iterator[tuple[float, int, str, Any]]:
        """Yield each text with its x and y position and its anchor."""
        loader = "a loader that is fast enough" if self.load is None else f"{self.load * 1e3:.2f} ms of loading a step"
        yield LEFT, 18, f"Modelled, not measured: {self.seconds * 1e3:.1f} ms, with {loader} ({self.mode})", "start"
        for lane in LANES:
            yield LEFT - 8, _top(lane) + LANE // 2, lane, "end"
        for tick in range(5):
            x = LEFT + (RIGHT - LEFT) * tick / 4
            yield x, LEGEND - 26, f"{self.seconds * 1e3 * tick / 4:.1f} ms", "middle"
        for (x, y, _), kind in zip(_legend(), COLOURS, strict=True):
            yield x + 18, y, kind, "start"


def _spans(costs: Sequence[StepCost], load: float, mode: Mode) -> Iterator[Span]:
    now = 0.0
    for step, cost in enumerate(costs, 1):
        begun, arrives = now, now + cost.wait if mode == "sync" else now
        if mode == "sync":
            yield Span("loader", "loading", step, begun, arrives)
            yield Span("stalls", "waits for the loader", step, begun, arrives)
        else:  # the loader works on the next step
            loaded = min(begun + load, begun + cost.wall)
            yield Span("loader", "loading", step + 1, begun, loaded)
            yield Span("infeed queue", "ready in the queue", step + 1, loaded, begun + cost.wall)
        now = arrives
        for lane, kind, seconds in _parts(cost):
            yield Span(lane, kind, step, now, now + seconds)
            now += seconds
        yield from _on_the_link(cost, step, arrives)
        if mode == "async":
            yield Span("stalls", "waits for the loader", step, now, now + cost.wait)
            now += cost.wait


def _parts(cost: StepCost) -> Iterator[tuple[str, str, float]]:
    """Yield the spans of a chip in a step, one after the other. Hidden transfers are left out."""
    before = cost.transfer_in - min(cost.hidden, cost.transfer_in)
    yield "stalls", "waits for transfers", before
    yield "chips", "compute", cost.compute
    yield "stalls", "waits for other chips", cost.bubble + cost.reduction
    yield "stalls", "waits for transfers", cost.transfer - cost.hidden - before
    yield "stalls", "synchronises", cost.sync


def _on_the_link(cost: StepCost, step: int, start: float) -> Iterator[Span]:
    """Yield the transfers: before and after compute, or both from the start if they overlap with it."""
    end_of_in = start + cost.transfer_in
    leaves = end_of_in + (0.0 if cost.hidden else cost.compute + cost.bubble + cost.reduction)
    yield Span("host link", "transfer in", step, start, end_of_in)
    yield Span("host link", "transfer out", step, leaves, leaves + cost.transfer_out)


def _top(lane: str) -> int:
    return TOP + LANES.index(lane) * (LANE + GAP)


def _legend() -> Iterator[tuple[int, int, str]]:
    for number, colour in enumerate(COLOURS.values()):
        yield LEFT + number % 5 * 172, LEGEND + number // 5 * 22, colour
