"""Performance counters of one call, in modelled seconds: when each tensor was handed over, and how long that took.

The call is laid out by the cost model. Every micro step takes the same time: its inputs cross the link, one replica
after the other, then all replicas compute, then the outputs that are kept cross it. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reading_services.ipu.simulator.cost import StepCost
from reading_services.ipu.simulator.outputs import KeptOutputs

Ticks = list[list[float]]
Latency = tuple[float, float, float]
KINDS = ("input", "input_complete", "output", "output_complete")


@dataclass
class Counters:
    """The ticks of the last call, in seconds from its start: for each tensor a list."""

    input: Ticks = field(default_factory=lambda: [[]])
    input_complete: Ticks = field(default_factory=lambda: [[]])
    output: Ticks = field(default_factory=lambda: [[]])
    output_complete: Ticks = field(default_factory=lambda: [[]])

    @classmethod
    def silent(cls, inputs: int, outputs: int) -> Counters:
        """Counters of a call on synthetic data, or of none so far."""
        ticks: list[Ticks] = [[[] for _ in range(count)] for count in (inputs, inputs, outputs, outputs)]
        return cls(*ticks)

    @classmethod
    def of(cls, cost: StepCost, kept: KeptOutputs, inputs: int, outputs: int) -> Counters:
        """Counters of a call that costs so much."""
        batching, counters = kept.batching, cls.silent(inputs, outputs)
        micro_steps, replicas = batching.iterations * batching.accumulation, batching.replicas
        entering = cost.transfer_in / (micro_steps * replicas)
        computing = (cost.compute + cost.bubble + cost.reduction) / micro_steps
        leaving = cost.transfer_out / kept.count
        now = cost.sync
        for step in range(micro_steps):
            d, a = divmod(step, batching.accumulation)
            for _ in range(replicas):
                _transfer(counters.input, counters.input_complete, now, entering)
                now += entering
            now += computing
            last = step == micro_steps - 1
            if kept.slot(d, a, 0) is not None and (last or kept.each_step):
                for _ in range(replicas):
                    _transfer(counters.output, counters.output_complete, now, leaving)
                    now += leaving
        return counters

    def as_dict(self) -> dict[str, Ticks]:
        """All ticks, by the kind of event; each call gives new lists."""
        return {kind: [list(ticks) for ticks in getattr(self, kind)] for kind in KINDS}

    def host_ipu(self) -> Latency:
        """Latency from the first input's start to the last one's end."""
        return _latency(_first(self.input), _last(self.input_complete))

    def compute(self) -> Latency:
        """Latency from the end of the inputs to the outputs."""
        return _latency(_last(self.input_complete), _last(self.output))

    def ipu_host(self) -> Latency:
        """Latency from the first output's start to the last one's end."""
        return _latency(_first(self.output), _last(self.output_complete))

    def round_trip(self) -> Latency:
        """Latency from the first input's start to the last output's end."""
        return _latency(_first(self.input), _last(self.output_complete))


def _transfer(starts: Ticks, ends: Ticks, now: float, seconds: float) -> None:
    """All tensors of one micro-batch cross the link, one after the other in equal times."""
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        start.append(now + seconds * number / len(starts))
        end.append(now + seconds * (number + 1) / len(starts))


def _first(ticks: Ticks) -> list[float]:
    return [min(at_once) for at_once in zip(*ticks, strict=True)]


def _last(ticks: Ticks) -> list[float]:
    return [max(at_once) for at_once in zip(*ticks, strict=True)]


def _latency(starts: Sequence[float], ends: Sequence[float]) -> Latency:
    """The least, the most and the mean of the differences; several starts may belong to one end."""
    if not ends or not starts:
        return (0.0, 0.0, 0.0)
    each = len(starts) // len(ends)
    spans = [end - min(starts[n * each : (n + 1) * each]) for n, end in enumerate(ends)]
    return (min(spans), max(spans), sum(spans) / len(spans))
