"""The IPU side on the tutorial's workload: 10,000 images of 1x128x128, batch 16, 50 iterations, 1 and 4 replicas.

What is measured, on this computer's clock: loaders against torch's at the same size of a step and against the limit,
one gather into one buffer; and how long a host waits that has a device to wait for as well. What is modelled stands in
a table of its own, beside the published figures of real IPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from threading import Event
from time import perf_counter
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.harness import OURS, Claim, Contender, contest
from benchmarks.stopwatch import exhaust, seconds_of
from benchmarks.table import Row, Table

SERVICE = "service"
ROWS, BATCH, ITERATIONS = 10_000, 16, 50
REPLICAS = (1, 4)
WORKERS = (0, 2, 8)
STEPS = 12  # so many at least in a pass, and as many before it
PAIRS = 5  # of runs with and without a device
FASTER = 1.2  # how much faster a loader is than the device that it feeds
MOST_WAITED = 0.02
WITHIN = 0.1
ITEM_BYTES, ITEM_FLOPS = 65_540, 59_255_880  # the tutorial's images with their labels, and its model
# Items/s that were published, on synthetic data and on real data, by replicas.
PUBLISHED = {1: (33_455, 21_901), 4: (136_452, 36_512)}


def tables(rounds: int) -> Iterator[Table]:
    data = images()
    for replicas in REPLICAS:
        with ExitStack() as ending:
            yield loading(ending, data, replicas, rounds)
    yield waiting(data)
    yield lost()
    yield modelled()


def images() -> TensorDataset:
    """Images that know their number, which is their label, and that all have the same sum."""
    pixels = torch.randn(1, 1, 128, 128).repeat(ROWS, 1, 1, 1)
    labels = torch.arange(ROWS)
    pixels[:, 0, 0, 0], pixels[:, 0, 0, 1] = labels, -labels
    return TensorDataset(pixels, labels)


def checked(loader: Iterable[Any]) -> str:
    """How many steps and rows there were, if every image came with its label and none came twice."""
    seen, steps = [], 0
    for pixels, labels in loader:
        if not pixels[:, 0, 0, 0].equal(labels.float()):
            return "images and labels that do not belong together"
        steps += 1
        seen += labels.tolist()
    return f"{steps} steps of {len(set(seen))} of {len(seen)} rows"


class Gathered:
    """The limit: what is chosen is gathered into one buffer, over and over again."""

    def __init__(self, data: TensorDataset, step: int) -> None:
        self.data, self.step = data.tensors, step
        self.buffers = [torch.empty(step, *each.shape[1:], dtype=each.dtype) for each in self.data]

    def __iter__(self) -> Iterator[Any]:
        order = torch.randperm(ROWS)
        for start in range(0, ROWS - self.step + 1, self.step):
            chosen = order[start : start + self.step]
            pairs = zip(self.data, self.buffers, strict=True)
            yield [torch.index_select(each, 0, chosen, out=buffer) for each, buffer in pairs]


def ours(ending: ExitStack, data: TensorDataset, replicas: int, mode: str) -> Any:
    """Our loader; it ends with ``ending``."""
    import reading_services.ipu as poptorch

    options = poptorch.Options().deviceIterations(ITERATIONS).replicationFactor(replicas)
    modes = poptorch.DataLoaderMode
    loader = poptorch.DataLoader(options, data, batch_size=BATCH, shuffle=True, drop_last=True, mode=modes[mode])
    ending.callback(loader.terminate)
    return loader


def of_a_graph(ending: ExitStack, data: TensorDataset, replicas: int, mode: str) -> Any:
    """The same as a graph of pipes, by our reading service."""
    import reading_services.ipu as poptorch
    from datapipes.map import SequenceWrapper
    from loader2 import DataLoader2

    options = poptorch.Options().deviceIterations(ITERATIONS).replicationFactor(replicas)
    rows: Any = SequenceWrapper(data, deepcopy=False).shuffle().sharding_filter()
    service = poptorch.IPUReadingService(options, mode=poptorch.DataLoaderMode[mode])
    return ending.enter_context(DataLoader2(rows.batch(BATCH).collate(), reading_service=service))


def theirs(data: TensorDataset, replicas: int, workers: int) -> Any:
    step = BATCH * ITERATIONS * replicas
    kept = workers > 0
    return DataLoader(data, batch_size=step, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=kept)


def loading(ending: ExitStack, data: TensorDataset, replicas: int, rounds: int) -> Table:
    step = BATCH * ITERATIONS * replicas
    epochs = -(-STEPS // (ROWS // step))
    limit = _contender("index_select into one buffer", "limit", Gathered(data, step), epochs)
    contenders = [
        _contender(f"DataLoader, {mode}", OURS, ours(ending, data, replicas, mode), epochs)
        for mode in ("Sync", "Async")
    ]
    contenders += [
        _contender(f"IPUReadingService, {mode}", SERVICE, of_a_graph(ending, data, replicas, mode), epochs)
        for mode in ("Sync", "Async")
    ]
    contenders.append(limit)
    for workers in WORKERS:
        name = f"torch DataLoader, {workers} workers"
        contenders.append(_contender(name, f"torch {workers}", theirs(data, replicas, workers), epochs))
    claims = [Claim(OURS, "limit", 0.75), Claim(OURS, "torch 0", 5.0), Claim(OURS, "torch 8", 12.0)]
    claims.append(Claim(SERVICE, "limit", 0.7))
    title = f"Loading for {replicas} replicas: steps of {step:,} shuffled images of 1x128x128"
    elements = epochs * (ROWS // step) * step
    notes = ["What is ready when a pass begins is taken out first: no contender gains by the others' turns."]
    return contest(title, contenders, claims, elements=elements, rounds=min(rounds, 5), reference=limit, notes=notes)


def _contender(name: str, family: str, loader: Iterable[Any], epochs: int) -> Contender:
    """A pass is some epochs. Before it, one that loads beyond an epoch's end has to give what is ready already."""
    ahead = name.endswith("Async")

    def seconds() -> float:
        exhaust(_epochs(loader, epochs if ahead else 0))
        return seconds_of(lambda: _epochs(loader, epochs), exhaust)

    return Contender(name, family, seconds, lambda: checked(loader))


def _epochs(loader: Iterable[Any], epochs: int) -> Iterator[Any]:
    return (step for _ in range(epochs) for step in loader)


def waiting(data: TensorDataset) -> Table:
    """How long the host waits for a loader that is faster than the device, whose time is a wait of known length.

    The loader's own time is taken right before each run behind the device, and the best pair of the two counts.
    """
    with ExitStack() as ending:
        loaders = {f"DataLoader, {mode}": ours(ending, data, 1, mode) for mode in ("Sync", "Async")}
        loaders |= {f"IPUReadingService, {mode}": of_a_graph(ending, data, 1, mode) for mode in ("Sync", "Async")}
        loaders |= {f"torch DataLoader, {workers} workers": theirs(data, 1, workers) for workers in WORKERS[:2]}
        rows = []
        for name, loader in loaders.items():
            pairs = []
            for _ in range(1 if name.startswith("torch") else PAIRS):
                alone, _ = _per_step(loader, 0.0)
                pairs.append((_per_step(loader, FASTER * alone)[1], alone))
            waited, alone = min(pairs)
            cells = (name, f"{alone * 1e3:.2f}", f"{FASTER * alone * 1e3:.2f}", f"{waited:.1%}")
            claimed = name == "DataLoader, Async"
            required = f"<= {MOST_WAITED:.0%}" if claimed else ""
            rows.append(Row(cells, required, waited <= MOST_WAITED if claimed else None))
    columns = ("loader", "ms to load a step", "ms of the device", "host waits")
    notes = [
        "IPUReadingService begins an epoch when it is asked to, once the seed is known: its first step is waited for."
    ]
    return Table(f"Waiting for a loader that is {FASTER} times as fast as the device; measured", columns, rows, notes)


def _per_step(loader: Iterable[Any], device: float) -> tuple[float, float]:
    """The seconds of a step, over some epochs without their first one, and the part of them that the host waits."""
    busy, waited, steps, begun, asked = Event(), 0.0, 0, 0.0, 0.0
    for step, _ in enumerate(_epochs(loader, 4)):
        given = perf_counter()
        if step > STEPS:
            waited, steps = waited + given - asked, steps + 1
        elif step == STEPS:
            begun = given
        busy.wait(device)
        asked = perf_counter()
    return (asked - begun) / steps, waited / (asked - begun)


class Shared(torch.utils.data.IterableDataset[torch.Tensor]):
    """101 rows for 7 workers: 15 for each, and 11 for the last."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = torch.utils.data.get_worker_info()
        worker = info.id if info else 0
        yield from (torch.tensor([row]) for row in range(15 * worker, min(101, 15 * worker + 15)))


def knows_its_part(worker: int) -> None:
    """That there is such a function tells a loader that the workers have shares."""


def lost() -> Table:
    """Rows of a stream that whole batches of single workers leave over."""
    import reading_services.ipu as poptorch

    rows = []
    for mode in poptorch.DataLoaderMode:
        loader = poptorch.DataLoader(
            poptorch.Options(), Shared(), batch_size=4, num_workers=7, mode=mode, worker_init_fn=knows_its_part
        )
        given = sum(len(step) for step in loader)
        loader.terminate()
        rows.append(Row((f"DataLoader, {mode.name}", str(given), str(100 - given)), "0", given == 100))
    given = sum(len(step) for step in DataLoader(Shared(), 4, num_workers=7, drop_last=True))
    rows.append(Row(("torch DataLoader, as in PopTorch's Async", str(given), str(100 - given))))
    return Table("101 rows in 7 workers, 4 a batch: 25 full batches", ("loader", "rows", "lost"), rows)


def modelled() -> Table:
    from reading_services.ipu.simulator.cost import CostModel, Work

    model, rows = CostModel(), []
    for replicas, figures in PUBLISHED.items():
        items = BATCH * ITERATIONS * replicas
        work = Work(
            device_iterations=ITERATIONS,
            replicas=replicas,
            micro_batch=BATCH,
            bytes_in=items * ITEM_BYTES,
            bytes_out=replicas * (BATCH * 10 + 1) * 4,
            flops=BATCH * ITEM_FLOPS,
        )
        for kind, published in zip(("synthetic", "real"), figures, strict=True):
            found = items / model.step(replace(work, synthetic=kind == "synthetic")).wall
            cells = (f"{replicas} replicas, {kind} data", f"{found:,.0f}", f"{published:,}", f"{found / published:.3f}")
            rows.append(Row(cells, f"{1 - WITHIN:g} to {1 + WITHIN:g}", abs(found / published - 1) <= WITHIN))
    columns = ("items/s", "modelled", "published", "modelled / published")
    return Table("The simulated device: MODELLED, not measured", columns, rows)
