"""Performance counters of one call, in modelled seconds: when each tensor was transferred.

The cost model determines the times. Every micro step takes equally long: its inputs cross the link for one replica
after the other, then all replicas compute, then the kept outputs cross the link. Nothing here reads a clock.
"""

from __future__ import annotations

from reading_services.ipu.simulator.cost import StepCost
from reading_services.ipu.simulator.rows import KeptOutputs

Counters = dict[str, list[list[float]]]
"""Times of a call by kind of event, in seconds from its start: one list for each tensor."""
Latency = tuple[float, float, float]


def silent(inputs: int = 1, outputs: int = 1) -> Counters:
    """Return the counters of a call on synthetic data, or before the first call."""
    counts = {"input": inputs, "input_complete": inputs, "output": outputs, "output_complete": outputs}
    return {kind: [[] for _ in range(count)] for kind, count in counts.items()}


def counted(cost: StepCost, kept: KeptOutputs, inputs: int, outputs: int) -> Counters:
    """Return the counters of a call with this cost."""
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
    """Count a micro-batch's tensors crossing the link, in equal times, for each replica. Return the time after it."""
    tensors = len(counters[kind])
    for _ in range(replicas):
        for number in range(tensors):
            counters[kind][number].append(now + seconds * number / tensors)
            counters[f"{kind}_complete"][number].append(now + seconds * (number + 1) / tensors)
        now += seconds
    return now


def latency(counters: Counters, start: str, end: str) -> Latency:
    """Return the least, largest and mean seconds from one kind of event to another.

    Several starts may belong to one end. Of several tensors, the first start and the last end or completion count.
    """
    first = max if start.endswith("_complete") else min
    starts = [first(at_once) for at_once in zip(*counters[start], strict=True)]
    ends = [max(at_once) for at_once in zip(*counters[end], strict=True)]
    if not ends or not starts:
        return (0.0, 0.0, 0.0)
    each = len(starts) // len(ends)
    spans = [ended - min(starts[n * each : (n + 1) * each]) for n, ended in enumerate(ends)]
    return (min(spans), max(spans), sum(spans) / len(spans))
