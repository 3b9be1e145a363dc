"""Bottleneck of a run: whether the loader holds the device up, what else does, and what to change.

The loader is measured on this computer; the device is modelled. Of the measured values, the model only uses the
loader's time for a step, from which the device's wait follows. Each line of a verdict says which of the two it is.
Nothing here measures: a verdict follows from its figures (see ``judging``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reading_services.ipu.simulator.cost import Mode, StepCost, Work
from reading_services.ipu.simulator.timeline import Timeline
from reading_services.stage_times import StageTime

FREE = 0.02  # a wait of less than this proportion of the time does not count


@dataclass(frozen=True)
class Rate:
    """Measured rate of a loader: its steps and items in some seconds, and the longest time of one step."""

    steps: int
    items: int
    seconds: float
    longest: float

    @property
    def load(self) -> float:
        """Seconds for a step."""
        return self.seconds / self.steps

    @property
    def items_per_second(self) -> float:
        return self.items / self.seconds


@dataclass(frozen=True)
class Verdict:
    """Bottleneck of a device: ``bottleneck`` is "loader", "transfer" or "compute". ``print`` shows the figures.

    ``loader`` is measured; ``work``, ``real`` and ``synthetic`` are modelled.
    """

    loader: Rate
    workers: int
    mode: Mode
    work: Work
    real: StepCost
    synthetic: StepCost
    assumed: str = ""
    stages: tuple[StageTime, ...] = ()

    @property
    def slow(self) -> bool:
        """Whether the loader needs longer for a step than the device."""
        return self.loader.load - self.real.step > FREE * self.loader.load

    @property
    def waits(self) -> bool:
        """Whether the device waits for the loader, which may only be because the loader does not run ahead."""
        return self.real.wait > FREE * self.real.wall

    @property
    def bottleneck(self) -> str:
        if self.slow:
            return "loader"
        rest = self.real.step - self.real.compute - self.real.bubble
        return "transfer" if rest > self.real.compute + self.real.bubble else "compute"

    @property
    def device_rate(self) -> float:
        """Modelled items/s if the loader never keeps the device waiting."""
        return self.work.items / self.real.step if self.real.step else math.inf

    @property
    def synthetic_rate(self) -> float:
        """Modelled items/s without any transfer."""
        return self.work.items / self.synthetic.wall if self.synthetic.wall else math.inf

    @property
    def slowest(self) -> StageTime | None:
        """The stage of the loader's graph that takes most of its time. None if no stage was timed."""
        return max(self.stages, key=lambda each: each.seconds, default=None)

    @property
    def advice(self) -> list[str]:
        """Changes that help, the most useful first."""
        return list(self._advice())

    def timeline(self, steps: int = 6) -> Timeline:
        """Return a picture of some modelled steps."""
        return Timeline([self.real] * steps, self.loader.load, self.mode)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, with measured and modelled values under two keys."""
        return {
            "bottleneck": self.bottleneck,
            "advice": self.advice,
            "measured": {
                "loader": {**self.loader.__dict__, "items_per_second": self.loader.items_per_second},
                "stages": [each.__dict__ for each in self.stages],
            },
            "modelled": {
                "items_per_second": self.device_rate,
                "synthetic_items_per_second": self.synthetic_rate,
                "step": {**self.real.__dict__, "wall": self.real.wall, "utilisation": self.real.utilisation},
            },
        }

    def _advice(self) -> Iterator[str]:
        loader, real = self.loader, self.real
        factor = loader.load / real.step if real.step else math.inf
        cpus = len(os.sched_getaffinity(0))
        if self.slow and self.slowest:
            part = self.slowest.seconds / (sum(each.seconds for each in self.stages) or 1.0)
            yield f"make {self.slowest.stage} cheaper: it takes {part:.0%} of the graph's time"
        if self.waits and self.mode == "sync":
            hidden = min(loader.load, real.step)
            yield (
                "load while the device computes (mode=DataLoaderMode.Async, or workers): that hides "
                f"{hidden * 1e3:.2f} of the {loader.load * 1e3:.2f} ms"
            )
        if self.slow:
            wanted = math.ceil(max(1, self.workers) * factor) if factor < math.inf else cpus
            if min(wanted, cpus) > self.workers:
                yield (
                    f"num_workers={min(wanted, cpus)} instead of {self.workers}: loading has to be {factor:.1f} times "
                    f"as fast, and this computer has {cpus} CPUs"
                )
            if wanted > cpus:
                yield (
                    "more workers than CPUs do not help: make a sample cheaper to load, or share the data out among "
                    "instances on other hosts (poprun --num-instances)"
                )
        if not self.slow and self.mode == "async" and loader.longest > real.step > 0:
            yield (
                f"the longest step took {loader.longest * 1e3:.2f} ms to load: buffer_size="
                f"{math.ceil(loader.longest / real.step) + 1} rides it out"
            )
        if real.sync > 0.1 * real.step:
            yield f"more device iterations: synchronising, once for them all, is {real.sync / real.step:.0%} of a step"
        if self.bottleneck == "transfer":
            size = self.work.bytes_in / max(1, self.work.items)
            yield (
                f"send less: {size:,.0f} bytes an item. Half precision is half of it, and images as uint8 a quarter, "
                "made floats in the model"
            )
            if self.work.replicas > 1:
                yield (
                    f"the {self.work.replicas} replicas of this process share one link: more instances with fewer "
                    "replicas each have more links (poprun --num-instances)"
                )
        if self.bottleneck == "compute":
            yield "nothing about the loading: more replicas, until their data fills the link"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        loader, real, work = self.loader, self.real, self.work
        waits = f"{real.wait / (real.wall or 1.0):.0%} of the time"
        if self.slow:
            yield f"The loader is the bottleneck: the device waits for it {waits}."
        else:
            but = f", but it does not run ahead: the device waits for it {waits}" if self.waits else ""
            yield f"The loader is not the bottleneck{but}; {self.bottleneck} takes the most of a step."
        yield "Measured on this computer"
        yield (
            f"  loader      {loader.items:,} items in {loader.seconds:.2f} s = {loader.items_per_second:,.0f} items/s; "
            f"a step takes {in_ms(loader.load)}, the longest took {in_ms(loader.longest)}; "
            f"{self.workers} workers"
        )
        for each in self.stages:
            mark = "  <- the slowest" if each is self.slowest else ""
            yield f"  stage       {each.seconds * 1e3:9.2f} ms an epoch  {each.stage:.80}{mark}"
        yield (
            f"Modelled, not measured: {work.micro_batch} rows x device iterations {work.device_iterations} x "
            f"gradient accumulation {work.gradient_accumulation} x replicas {work.replicas}"
        )
        if self.assumed:
            yield f"  assumed     {self.assumed}"
        yield (
            f"  synthetic   {work.items:,} items / {in_ms(self.synthetic.wall)} of compute = "
            f"{self.synthetic_rate:,.0f} items/s"
        )
        transfer = in_ms(real.transfer - real.hidden)
        yield (
            f"  real        {work.items:,} items / ({in_ms(self.synthetic.wall)} compute + {transfer} transfer + "
            f"{in_ms(real.sync)} sync) = {self.device_rate:,.0f} items/s"
        )
        how = f"max(0, {in_ms(loader.load)} - {in_ms(real.step)})" if self.mode == "async" else "all of the loading"
        yield (
            f"  host wait   {how} = {in_ms(real.wait)}, {real.wait / (real.wall or 1.0):.0%} of a step, "
            "by the measured time of the loader"
        )
        for rate, data in ((self.synthetic_rate, "synthetic"), (self.device_rate, "real")):
            if rate < math.inf:
                yield f"  loader / device on {data} data: {loader.items_per_second / rate:.2f}"
        yield from (f"To change: {each}." for each in self._advice())


def in_ms(seconds: float) -> str:
    """Return seconds as text.

    >>> in_ms(0.0234)
    '23.40 ms'
    """
    return f"{seconds * 1e3:.2f} ms"
