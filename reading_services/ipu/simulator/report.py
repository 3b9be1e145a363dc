"""Report of modelled and measured times: a ``CallMeter``, which an executor feeds, and the ``Report`` made of it.

Modelled and measured seconds are never combined. Modelled ones follow from the work and a ``CostModel``, and are those
of the device. Measured ones are the time of the simulation on this computer. The only exception is ``load``, the
loader's time, which the caller passes in; the report says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from datapipes.errors import BadArgument
from reading_services.ipu.simulator.cost import CostModel, Mode, StepCost, Work

if TYPE_CHECKING:
    from reading_services.ipu.simulator.timeline import Timeline

PARTS = ("compute", "bubble", "reduction", "transfer", "hidden", "sync", "wait", "wall")
ALWAYS = {"compute", "transfer", "sync", "wait", "wall"}
SHOWN = {"wait": "waiting"}
LINES = 12


@dataclass
class Calls:
    """Consecutive calls with the same work: their number, and their measured seconds."""

    work: Work
    count: int = 0
    inside: float = 0.0
    between: float = 0.0


class CallMeter:
    """Counter of the calls of one executor. Consecutive equal calls take the memory of one."""

    def __init__(self) -> None:
        self.calls: list[Calls] = []
        self._ended: float | None = None

    def add(self, work: Work, began: float, ended: float) -> None:
        """Add one call, with the values of ``time.perf_counter`` at its start and end."""
        if not self.calls or self.calls[-1].work != work:
            self.calls.append(Calls(work))
        last = self.calls[-1]
        last.count += 1
        last.inside += ended - began
        last.between += began - self._ended if self._ended is not None else 0.0
        self._ended = ended

    def report(self, cost: CostModel | None = None, load: float | None = None, mode: Mode = "async") -> Report:
        """Return a report of the calls so far. ``load``: the loader's seconds per step, if known."""
        return Report(cost or CostModel(), [Calls(**each.__dict__) for each in self.calls], load, mode)


class Report:
    """Modelled time of a device, part by part, and separately the measured time of its simulation.

    >>> meter = CallMeter()
    >>> for second in range(3):
    ...     meter.add(Work(micro_batch=8, bytes_in=36_000_000), second, second + 0.5)
    >>> report = meter.report(CostModel(seconds_per_item=0.01, call=0.0))
    >>> report.utilisation, report.items_per_second
    (0.888..., 88.8...)
    >>> report.measured["inside"]
    1.5
    """

    def __init__(self, cost: CostModel, calls: list[Calls], load: float | None = None, mode: Mode = "async") -> None:
        if mode not in ("async", "sync"):
            raise BadArgument(f"a report's mode={mode!r}: it must be 'async' or 'sync'")
        if load is not None and not load >= 0:
            raise BadArgument(f"a report's load={load}: the loader's seconds for a step must not be negative")
        self.cost, self.load, self.mode = cost, load, mode
        self.steps: list[tuple[int, int, StepCost]] = []
        """Consecutive steps with the same cost: the number of the first, their number, and the cost of one."""
        self.synthetic_seconds, first = 0.0, 1
        for each in calls:
            one = cost.step(each.work, load or 0.0, mode)
            self.steps.append((first, each.count, one))
            first += each.count
            self.synthetic_seconds += each.count * (one.compute + one.bubble)
        inside, between = (sum(getattr(each, name) for each in calls) for name in ("inside", "between"))
        self.measured = {"calls": self.count, "inside": inside, "between": between}

    @property
    def count(self) -> int:
        """Number of steps."""
        return sum(count for _, count, _ in self.steps)

    def total(self, part: str) -> float:
        """Return the modelled seconds, or the items, of all steps together."""
        return float(sum(count * getattr(cost, part) for _, count, cost in self.steps))

    @property
    def items_per_second(self) -> float:
        return _rate(self.total("items"), self.total("wall"))

    @property
    def synthetic_items_per_second(self) -> float:
        """Items a second without transfers and waits."""
        return _rate(self.total("items"), self.synthetic_seconds)

    @property
    def utilisation(self) -> float:
        """Proportion of the modelled time in which a chip computes."""
        return self.total("compute") / self.total("wall") if self.total("wall") else 1.0

    @property
    def stall(self) -> float:
        return 1.0 - self.utilisation

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, with modelled and measured values under two keys."""
        modelled = {
            "items_per_second": self.items_per_second,
            "synthetic_items_per_second": self.synthetic_items_per_second,
            "utilisation": self.utilisation,
            "stall": self.stall,
            "load": self.load,
            "mode": self.mode,
            "seconds": {part: self.total(part) for part in PARTS},
            "steps": [
                {"first": first, "count": count, **{part: getattr(cost, part) for part in ("items", *PARTS)}}
                for first, count, cost in self.steps
            ],
        }
        return {"modelled": modelled, "measured": dict(self.measured)}

    def timeline(self, most: int = 12) -> Timeline:
        """Return a picture of the first steps: ``report.timeline().save("run.svg")``."""
        from reading_services.ipu.simulator.timeline import Timeline

        costs = [cost for _, count, cost in self.steps for _ in range(min(count, most))]
        return Timeline(costs[:most], self.load, self.mode)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        yield f"Modelled, not measured: {self.count:,} steps, {self.total('items'):,.0f} items; milliseconds of a step"
        parts = [part for part in PARTS if part in ALWAYS or self.total(part)]
        rows = [("step", "items", *(SHOWN.get(part, part) for part in parts), "utilisation")]
        for first, count, cost in self.steps[:LINES]:
            numbers = f"{first}-{first + count - 1}" if count > 1 else f"{first}"
            times = (f"{getattr(cost, part) * 1e3:.2f}" for part in parts)
            rows.append((numbers, f"{cost.items:,}", *times, f"{cost.utilisation:.2f}"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        yield from ("  " + "  ".join(map(str.rjust, row, widths)) for row in rows)
        if len(self.steps) > LINES:
            yield f"  and {len(self.steps) - LINES} more kinds of steps; the sums are those of all"
        yield (
            f"  {self.items_per_second:,.0f} items/s, on synthetic data {self.synthetic_items_per_second:,.0f}; "
            f"utilisation {self.utilisation:.2f}, stall {self.stall:.2f}"
        )
        if self.load is None:
            yield "  The loader is assumed to be fast enough: pass its seconds for a step as load= to see the waits."
        else:
            yield f"  The loader needs {self.load * 1e3:.2f} ms for a step, as passed in load= ({self.mode})."
        inside, between = self.measured["inside"], self.measured["between"]
        yield f"Measured here: the simulation took {inside:.2f} s in {self.count:,} calls, and {between:.2f} s between."


def _rate(items: float, seconds: float) -> float:
    return items / seconds if seconds else 0.0
