"""Find the bottleneck: measure a loader, model the device that it feeds, and compare the two.

The loader is measured on this computer, by the clock. The start of workers and the first step do not count. A loader
gives steps that it made beforehand faster than it makes them. So counting begins after a quarter of the time, when all
of them are used up.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import Any

import torch
from torch import nn

from datapipes.description.pipe import IterDataPipe
from datapipes.description.structure import walk
from datapipes.errors import BadArgument, BadArgumentType, GraphError
from reading_services.ipu.host.accessor import AsynchronousDataAccessor
from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.names.custom_types import rebuilt, tensors_of
from reading_services.ipu.options import Options
from reading_services.ipu.simulator.cost import CostModel, Mode, Work, flops_of
from reading_services.ipu.simulator.rows import wire_bytes
from reading_services.ipu.simulator.verdict.bottleneck import Rate, Verdict, in_ms
from reading_services.stage_times import StageTime, stage_times

WARMING_UP = 0.25


def rows_in(step: Any) -> int:
    """Return the number of rows of a step. A step without tensors has the rows of its length."""
    rows = next((len(each) for each in tensors_of(step) if each.dim()), None)
    return rows if rows is not None else len(step) if isinstance(step, list) else 1


def measured(loader: Iterable[Any], seconds: float = 2.0) -> Rate:
    """Iterate a loader for some seconds, repeatedly if it ends before, and return its rate."""
    if not seconds > 0:
        raise BadArgument(f"seconds={seconds}: a loader is measured for more than 0 seconds")
    steps = items = 0
    started = before = warm = longest = 0.0
    for step in _again_and_again(loader):
        now = perf_counter()
        warm = warm or now + WARMING_UP * seconds
        if steps or (started and now >= warm):
            steps, items = steps + 1, items + rows_in(step)
            longest = max(longest, now - before)
        else:
            started = now
        before = now
        if steps and now - started >= seconds:
            break
    if not steps:  # it ended while it warmed up, and cannot be iterated again
        raise BadArgument(
            f"{type(loader).__name__} ends within {WARMING_UP * seconds:.2f} s and cannot be iterated again: "
            "measure it for a shorter time, or give it more data"
        )
    return Rate(steps, items, before - started, longest)


def runs_ahead(loader: Any) -> bool:
    """Return whether the loader works while the device does: in workers, a thread, or a process of its own."""
    if isinstance(loader, AsynchronousDataAccessor) or getattr(loader, "_accessor", None) is not None:
        return True  # the second is a DataLoader that is not in Sync mode
    if any(
        getattr(each, name, 0) for each in _services_of(loader) for name in ("num_workers", "prefetch_cnt", "ahead")
    ):
        return True
    graph = graph_of(loader)
    return graph is not None and any(getattr(type(stage), "_prefetches", False) for stage in walk(graph))


def workers_of(loader: Any) -> int:
    """Return the number of workers of a loader: 0 if it has none or if it is not known."""
    return max(int(getattr(each, "num_workers", 0) or 0) for each in _services_of(loader))


def _services_of(loader: Any) -> list[Any]:
    """Return a loader and its services, those of a chain one by one."""
    service = getattr(loader, "reading_service", None)
    return [loader, service, *getattr(service, "reading_services", ())]


def options_of(loader: Any) -> Options | None:
    """Return the options that a loader was made with, or None if it has none."""
    found = (getattr(each, "options", None) for each in _services_of(loader))
    return next((each for each in found if isinstance(each, Options)), None)


def graph_of(loader: Any) -> IterDataPipe[Any] | None:
    """Return the graph of a DataLoader2, or the loader itself if it is a graph. Return None for other loaders."""
    graph = getattr(loader, "datapipe", loader)
    return graph if isinstance(graph, IterDataPipe) else None


def first_step(loader: Iterable[Any]) -> Any:
    """Return the first step of a loader. Raise if there is none."""
    if not isinstance(loader, Iterable):
        raise BadArgumentType(f"{loader!r:.200} is not a loader: it cannot be iterated")
    for step in loader:
        return step
    raise BadArgument(f"{type(loader).__name__} gives no step: it may have fewer rows than one step needs")


def _again_and_again(loader: Iterable[Any]) -> Iterator[Any]:
    more = True
    while more:
        more = False
        for step in loader:
            more = True
            yield step


TUTORIAL_FLOPS = 59_255_880
"""FLOPs of one sample in the tutorial's model, with its backward pass."""


def verdict(
    loader: Iterable[Any],
    model: Any = None,
    *,
    options: Options | None = None,
    cost: CostModel | None = None,
    seconds: float = 2.0,
    stages: bool | None = None,
) -> Verdict:
    """Measure a loader, model the device that it feeds, and return which of the two holds the other up.

    Args:
        loader: The loader, a list of steps, or a graph.
        model: A module, or its wrapper for the device. It runs on one micro-batch to count its operations. ``None``:
            ``cost.seconds_per_item``, or else the compute of the data loading tutorial's model.
        options: The options of the device. ``None``: those of the loader, else the defaults.
        cost: The constants of the device. ``None``: those of the model, or the defaults.
        seconds: The seconds for which the loader is measured.
        stages: Time each stage of a DataLoader2's graph. True: however long it takes. None: if it takes at most
            ``seconds`` again. False: never.

    >>> import torch
    >>> steps = [torch.zeros(800, 1000)] * 4
    >>> verdict(steps, cost=CostModel(seconds_per_item=1e-4), seconds=0.01).bottleneck
    'compute'
    """
    cost = cost or getattr(model, "cost_model", None) or CostModel()
    options = options or options_of(loader) or Options()
    graph = None if stages is False else graph_of(loader)
    timed: list[StageTime] = []
    if graph is not None:
        with suppress(BadArgument, GraphError):  # it would take too long, or the graph branches
            timed = stage_times(graph, seconds if stages is None else 3600.0)
    first = first_step(loader)
    batching = Batching.of(options, None)
    micro_batch = max(1, rows_in(first) // batching.micro_batches)
    flops = micro_batch * TUTORIAL_FLOPS
    work = Work.of(batching, micro_batch=micro_batch, bytes_in=wire_bytes(tensors_of(first)), flops=flops)
    assumed = ""
    if model is not None:
        work = counted(model, first, work)
    elif cost.seconds_per_item is None:
        compute = in_ms(cost.micro_batch_seconds(work))
        assumed = f"the compute of the data loading tutorial's model, {compute} a micro-batch"
    del first  # a held step would keep its slot from the loader
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
    """Return the work with a model's operations and output bytes. A copy runs on the first micro-batch of a step."""
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
