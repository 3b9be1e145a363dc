"""Performance counters of one call, in modelled seconds: when each tensor was handed over, and how long that took.

The call is laid out by the cost model. Every micro step takes the same time: its inputs cross the link, one replica
after the other, then all replicas compute, then the outputs that are kept cross it. Nothing here reads a clock.
"""

from __future__ import annotations

from reading_services.ipu.simulator.cost import StepCost
from reading_services.ipu.simulator.rows import KeptOutputs

Counters = dict[str, list[list[float]]]
"""The ticks of a call by the kind of event, in seconds from its start: for each tensor a list."""
Latency = tuple[float, float, float]


def silent(inputs: int = 1, outputs: int = 1) -> Counters:
    """Counters of a call on synthetic data, or of none so far."""
    counts = {"input": inputs, "input_complete": inputs, "output": outputs, "output_complete": outputs}
    return {kind: [[] for _ in range(count)] for kind, count in counts.items()}


def counted(cost: StepCost, kept: KeptOutputs, inputs: int, outputs: int) -> Counters:
    """Counters of a call that costs so much."""
    batching, counters = kept.batching, silent(inputs, outputs)
    micro_steps, replicas = batching.iterations * batching.accumulation, batching.replicas
    entering = cost.transfer_in / (micro_steps * replicas)
    computing = (cost.compute + cost.bubble + cost.reduction) / micro_steps
    leaving = cost.transfer_out / kept.count
    now = cost.sync
    for step in range(micro_steps):
        now = _transfers(counters, "input", now, entering, replicas) + computing
        d, a = divmod(step, batching.accumulation)
        if kept.slot(d, a, 0) is not None and (step == micro_steps - 1 or kept.each_step):
            now = _transfers(counters, "output", now, leaving, replicas)
    return counters


def _transfers(counters: Counters, kind: str, now: float, seconds: float, replicas: int) -> float:
    """All tensors of a micro-batch cross the link, one after the other in equal times, for each replica in turn."""
    tensors = len(counters[kind])
    for _ in range(replicas):
        for number in range(tensors):
            counters[kind][number].append(now + seconds * number / tensors)
            counters[f"{kind}_complete"][number].append(now + seconds * (number + 1) / tensors)
        now += seconds
    return now


def latency(counters: Counters, start: str, end: str) -> Latency:
    """Least, most and mean seconds from one kind of event to another; several starts may belong to one end.

    Of several tensors it is the first that starts, and the last that ends or is complete.
    """
    first = max if start.endswith("_complete") else min
    starts = [first(at_once) for at_once in zip(*counters[start], strict=True)]
    ends = [max(at_once) for at_once in zip(*counters[end], strict=True)]
    if not ends or not starts:
        return (0.0, 0.0, 0.0)
    each = len(starts) // len(ends)
    spans = [ended - min(starts[n * each : (n + 1) * each]) for n, ended in enumerate(ends)]
    return (min(spans), max(spans), sum(spans) / len(spans))
