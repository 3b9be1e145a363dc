"""Find the bottleneck: measure a loader, model the device that it feeds, and put the two beside each other."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.names.custom_types import rebuilt, tensors_of
from reading_services.ipu.options import Options
from reading_services.ipu.simulator.cost import CostModel, Mode, Work, flops_of
from reading_services.ipu.simulator.rows import wire_bytes
from reading_services.ipu.simulator.verdict.bottleneck import Verdict, in_ms
from reading_services.ipu.simulator.verdict.rates import (
    Shape,
    first_step,
    graph_of,
    measured,
    options_of,
    runs_ahead,
    workers_of,
)
from reading_services.stage_times import stage_times

TUTORIAL_FLOPS = 59_255_880
"""Of one sample in the tutorial's model, its backward pass included."""


def verdict(
    loader: Iterable[Any],
    model: Any = None,
    *,
    options: Options | None = None,
    cost: CostModel | None = None,
    seconds: float = 2.0,
    stages: bool | None = None,
) -> Verdict:
    """Measure a loader, model the device that it feeds, and tell which of the two holds the other up.

    ``options`` are the loader's own if it has any. ``model``, a module or what wraps it for the device, is run on one
    micro-batch to count its operations. Without it, and without ``seconds_per_item`` in ``cost``, the compute of the
    data loading tutorial's model is assumed. The loader is measured for some ``seconds``. ``stages`` times each stage
    of a DataLoader2's graph: True whatever it takes, None if it can be done in as many seconds again, False never.

    >>> import torch
    >>> steps = [torch.zeros(800, 1000)] * 4
    >>> verdict(steps, cost=CostModel(seconds_per_item=1e-4), seconds=0.01).bottleneck
    'compute'
    """
    cost = cost or getattr(model, "cost_model", None) or CostModel()
    options = options or options_of(loader) or Options()
    graph = None if stages is False else graph_of(loader)
    timed = [] if graph is None else stage_times(graph, seconds if stages is None else 3600.0)
    first = first_step(loader)
    shape, batching = Shape.of(first), Batching.of(options, None)
    micro_batch = max(1, shape.rows // batching.micro_batches)
    work = Work(
        device_iterations=batching.iterations,
        gradient_accumulation=batching.accumulation,
        replicas=batching.replicas,
        group_size=batching.group_size,
        micro_batch=micro_batch,
        processes=batching.processes,
        bytes_in=shape.wire_bytes,
        flops=micro_batch * TUTORIAL_FLOPS,
    )
    assumed = ""
    if model is not None:
        work = counted(model, first, work)
    elif cost.seconds_per_item is None:
        compute = in_ms(cost.micro_batch_seconds(work))
        assumed = f"the compute of the data loading tutorial's model, {compute} a micro-batch"
    del first  # whatever holds a step keeps its slot from the loader
    rate = measured(loader, seconds)
    mode: Mode = "async" if runs_ahead(loader) else "sync"
    return Verdict(
        loader=rate,
        workers=workers_of(loader),
        mode=mode,
        work=work,
        real=cost.step(work, rate.load, mode),
        synthetic=cost.step(replace(work, synthetic=True)),
        assumed=assumed,
        stages=tuple(timed),
    )


def counted(model: Any, step: Any, work: Work) -> Work:
    """The work of a model, by running a copy of it on the first micro-batch of a step."""
    module = model if isinstance(model, nn.Module) else model.model
    module = copy.deepcopy(module)
    rows = [each[: work.micro_batch].clone() if each.dim() else each.clone() for each in tensors_of(step)]
    inputs = rebuilt(step, rows)
    given: list[torch.Tensor] = []

    def run() -> None:
        outputs = module(*inputs) if isinstance(inputs, tuple | list) else module(inputs)
        given.extend(tensors_of(outputs))
        losses = [each for each in given if each.dim() == 0 and each.requires_grad]
        if module.training and losses:
            torch.autograd.grad(
                losses[-1], [each for each in module.parameters() if each.requires_grad], allow_unused=True
            )

    flops = flops_of(run)
    outputs = work.replicas if module.training else work.micro_batches * work.replicas
    bytes_out = outputs * wire_bytes(given)
    return replace(work, flops=flops, training=module.training, bytes_out=bytes_out)
