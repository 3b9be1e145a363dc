"""Cost model: the time that a step would take on the device, in modelled seconds.

Nothing here reads a clock. ``Work`` describes one call for the device, and ``CostModel`` has the constants. Both
determine a ``StepCost``, which is a prediction and never a measurement. Its parts add up: the wall time of a step is
compute + bubble + reduction + transfers - hidden transfers + sync + wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from datapipes.errors import BadArgument
from reading_services.ipu.host.arithmetic import Batching

IPUS_PER_MACHINE = 4
Mode = Literal["async", "sync"]
SOURCED, DERIVED, ASSUMED, GIVEN = "sourced", "derived", "assumed", "given"


@dataclass(frozen=True, kw_only=True)
class Work:
    """Work of one call for the device of this process, without times.

    ``bytes_in`` and ``bytes_out`` count the whole call on the link, with 64-bit numbers as 32-bit ones. ``flops`` are
    those of one micro-batch, with its backward pass in training.

    >>> Work(device_iterations=50, replicas=4, micro_batch=16).items
    3200
    """

    device_iterations: int = 1
    gradient_accumulation: int = 1
    replicas: int = 1
    group_size: int = 1
    micro_batch: int = 1
    processes: int = 1
    stages: int = 1
    pipelined: bool = True
    training: bool = True
    synthetic: bool = False
    bytes_in: int = 0
    bytes_out: int = 0
    flops: float = 0.0

    def __post_init__(self) -> None:
        for name in ("device_iterations", "gradient_accumulation", "replicas", "group_size", "processes", "stages"):
            if getattr(self, name) < 1:
                raise BadArgument(f"Work({name}={getattr(self, name)}): it must be at least 1")
        for name in ("micro_batch", "bytes_in", "bytes_out", "flops"):
            if getattr(self, name) < 0:
                raise BadArgument(f"Work({name}={getattr(self, name)}): it must not be negative")

    @classmethod
    def of(cls, batching: Batching, **facts: Any) -> Work:
        """Return the work of a call with these batch sizes and further facts."""
        return cls(
            device_iterations=batching.iterations,
            gradient_accumulation=batching.accumulation,
            replicas=batching.replicas,
            group_size=batching.group_size,
            processes=batching.processes,
            **facts,
        )

    @property
    def micro_batches(self) -> int:
        """Number of micro-batches that each replica computes in the call."""
        return self.device_iterations * self.gradient_accumulation

    @property
    def items(self) -> int:
        """Samples of the call. Samples that a group of replicas shares count once."""
        return self.micro_batch * self.micro_batches * (self.replicas // self.group_size)


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """Modelled seconds of one step, part by part; ``wall`` is their sum."""

    items: int = 0
    compute: float = 0.0
    bubble: float = 0.0
    reduction: float = 0.0
    transfer_in: float = 0.0
    transfer_out: float = 0.0
    hidden: float = 0.0
    sync: float = 0.0
    wait: float = 0.0

    @property
    def transfer(self) -> float:
        """Modelled seconds of transfers over the link, with those hidden behind compute."""
        return self.transfer_in + self.transfer_out

    @property
    def step(self) -> float:
        """Seconds from the start of the call to its end."""
        return self.compute + self.bubble + self.reduction + self.transfer - self.hidden + self.sync

    @property
    def wall(self) -> float:
        """Wall time from the start of the call to the start of the next one, with the wait for the loader."""
        return self.step + self.wait

    @property
    def utilisation(self) -> float:
        """Proportion of the wall time in which a chip computes."""
        return self.compute / self.wall if self.wall else 1.0


def constant(default: Any, unit: str, status: str, why: str) -> Any:
    return field(default=default, metadata={"unit": unit, "status": status, "why": why})


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Constants of the model, each of which can be set, and the time of a step.

    ``print(CostModel().table())`` shows the origin of each: sourced (published), derived (computed from published
    figures), assumed, or given by the caller. The defaults reproduce the figures of PopTorch's data loading tutorial.

    >>> tutorial = Work(device_iterations=50, micro_batch=16, bytes_in=50 * 16 * 65_540, flops=16 * 59_255_880)
    >>> step = CostModel().step(tutorial)
    >>> round(step.compute * 1e3, 1), round(step.wall * 1e3, 1)
    (23.3, 37.9)
    >>> round(tutorial.items / step.wall, -2)  # published: 21,901 items/s
    21100.0
    >>> CostModel(seconds_per_item=1e-3).step(tutorial).compute
    0.8
    """

    seconds_per_item: float | None = constant(
        None, "s", GIVEN, "compute of one sample on one replica; if None it is flops / flops_per_second"
    )
    flops_per_second: float = constant(
        2.0328e12,
        "FLOP/s",
        DERIVED,
        "of one replica: 59,255,880 in 29.15 us for the tutorial's model; an assumption for others",
    )
    least: float = constant(1e-6, "s", ASSUMED, "the shortest that one micro-batch can take")
    host_bandwidth: float = constant(
        3.6e9, "B/s", DERIVED, "of one process, all its replicas: fits the tutorial's steps on real data"
    )
    link_limit: float = constant(
        12.5e9, "B/s", SOURCED, "a 100 GbE port of an IPU-M2000 (4 IPUs); its processes share it"
    )
    call: float = constant(50e-6, "s", ASSUMED, "host and device synchronise, once a call")
    iteration: float = constant(0.0, "s", ASSUMED, "and once more in every device iteration")
    reduction: float = constant(
        0.0, "s", DERIVED, "gradients between replicas, each update: four are 3.98 times one in the tutorial"
    )
    clock: float = constant(1.33e9, "Hz", ASSUMED, "cycles of the chip in a second, for cycleCount")
    overlap: bool = constant(False, "", ASSUMED, "whether transfers run in parallel with compute")

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            needs_more = each.name in ("flops_per_second", "host_bandwidth", "link_limit", "clock")
            if value is not None and not (0 < value < math.inf if needs_more else 0 <= value < math.inf):
                bound = "be more than 0" if needs_more else "not be negative"
                raise BadArgument(f"CostModel({each.name}={value}): it must {bound} and finite")

    def micro_batch_seconds(self, work: Work) -> float:
        """Return the compute seconds of one micro-batch on all IPUs of a replica, one after the other."""
        if self.seconds_per_item is not None:
            return self.seconds_per_item * work.micro_batch
        return max(self.least, work.flops / self.flops_per_second)

    def bandwidth(self, work: Work) -> float:
        """Return the bytes a second between one process and its replicas. Processes share the machines' ports."""
        machines = math.ceil(work.processes * work.replicas * work.stages / IPUS_PER_MACHINE)
        return min(self.host_bandwidth, self.link_limit * machines / work.processes)

    def step(self, work: Work, load: float = 0.0, mode: Mode = "async") -> StepCost:
        """Return the parts of one step. ``load``: the loader's seconds for a step, which async hides if possible.

        >>> CostModel(seconds_per_item=1.0, call=0.0).step(Work(), load=3.0).wait
        2.0
        >>> CostModel(seconds_per_item=1.0, call=0.0).step(Work(), load=3.0, mode="sync").wait
        3.0
        """
        compute, bubble = self._compute(work)
        if work.synthetic:  # no transfers, and no waiting for the host
            return StepCost(items=work.items, compute=compute, bubble=bubble)
        updates = work.device_iterations if work.training and work.replicas * work.processes > 1 else 0
        reduction = self.reduction * updates
        bandwidth = self.bandwidth(work)
        entering, leaving = work.bytes_in / bandwidth, work.bytes_out / bandwidth
        hidden = min(entering + leaving, compute + bubble + reduction) if self.overlap else 0.0
        cost = StepCost(
            items=work.items,
            compute=compute,
            bubble=bubble,
            reduction=reduction,
            transfer_in=entering,
            transfer_out=leaving,
            hidden=hidden,
            sync=self.call + work.device_iterations * self.iteration,
        )
        return replace(cost, wait=load if mode == "sync" else max(0.0, load - cost.step))

    def _compute(self, work: Work) -> tuple[float, float]:
        """Return the seconds of a chip's compute, and of its waits for the other stages of its replica.

        Stages are assumed to be equally long. A pipeline fills and empties for every weight update, when a micro-batch
        passes all stages but the last twice; in inference it does so once a call. Shards run one after the other.
        """
        micro_batch, stages, count = self.micro_batch_seconds(work), work.stages, work.micro_batches
        compute = count * micro_batch / stages
        if not work.pipelined:
            return compute, compute * (stages - 1)
        ramps = work.device_iterations * 2 * (stages - 1) if work.training else stages - 1
        return compute, ramps * micro_batch / stages

    def table(self) -> str:
        """Return the constants, their values and their origins as text."""
        rows = [("constant", "value", "unit", "", "")]
        for each in fields(self):
            value, facts = getattr(self, each.name), each.metadata
            shown = f"{value:.5g}" if isinstance(value, float) else str(value)
            status = facts["status"] if value == each.default else GIVEN
            rows.append((each.name, shown, facts["unit"], "" if value is None else status, facts["why"]))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def flops_of(run: Callable[[], object]) -> int:
    """Return the floating-point operations of matrix products and convolutions in a call of ``run``, backward included.

    >>> import torch
    >>> flops_of(lambda: torch.ones(2, 3) @ torch.ones(3, 4))
    48
    """
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())
