"""Two worker processes, against as many of torch's DataLoader and torchdata 0.9, and one process without transport.

What workers cost is a stream's way home: small elements in batches and one by one, large batches, rows of a file; what
they are for is work that takes its time. Each contender keeps its workers from round to round, and the first round,
which starts them, is the check; but for cold passes, each of which makes its loader and ends it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time
from typing import Any

import torch

from benchmarks.harness import OURS, Claim, Contender, contender, contest
from benchmarks.peers.child import OldTorchdata
from benchmarks.table import Row, Table
from benchmarks.workload import features

WORKERS = 2
TORCH = "torch"
OLD_CASES = "benchmarks.peers.torchdata_workers"
SECONDS_FOR_OLD = 60.0
HOME = "one process"

DICTS = 100_000
ALONE = 20_000
ROWS = 16_000
LINES = 50_000
SLOW = 2_000
IMAGES = 10_000


def tables(rounds: int) -> Iterator[Table]:
    with ExitStack() as services, TemporaryDirectory() as folder:
        path = _written(Path(folder) / "rows.csv")
        for title, graph, elements, over_torch, home, old in (
            ("dicts of three scalars in batches of 32", dicts(32), DICTS, 5.0, None, ["dicts"]),
            ("dicts of three scalars, one by one", dicts(0), ALONE, 30.0, None, ["dicts alone"]),
            ("64 KiB tensors collated to 1 MiB", tensors(), ROWS, 10.0, 0.5, ["tensors"]),
            ("rows of a CSV file, the map is free", lines(path, 0), LINES, None, 0.5, ["lines", path, "0"]),
            ("rows of a CSV file, 20 us each", lines(path, 20e-6), LINES, None, 1.0, ["lines", path, "20e-6"]),
            ("a map that takes 1 ms of CPU", slow(), SLOW, None, 1.9, ["slow"]),
        ):
            with OldTorchdata(OLD_CASES, SECONDS_FOR_OLD) as child:  # one for each: it may hang
                peer = child.contender(*old, check_by="what_came")
                yield _contest(services, title, graph, elements, rounds, over_torch, home, peer)
        for step in (800, 3_200):
            yield images(services, step, rounds)
    yield cold("dicts in batches of 32, cold", dicts(32), DICTS, rounds, 6.0)
    yield cold("1 MiB batches, cold", tensors(), ROWS, rounds, 12.0)
    yield beginnings()


def three(x: int) -> dict[str, float]:
    return {"a": x, "b": 2.0 * x, "c": -x}


def row(x: int) -> torch.Tensor:
    return torch.full((16_384,), float(x))


def burns(seconds: float, x: Any) -> Any:
    """Use an amount of the CPU's time, whatever else runs."""
    until = thread_time() + seconds
    while thread_time() < until:
        pass
    return x


def dicts(batch: int) -> Any:
    from datapipes.iter import IterableWrapper

    pipe = IterableWrapper(range(DICTS if batch else ALONE)).sharding_filter().map(three)
    return pipe.batch(batch) if batch else pipe


def tensors() -> Any:
    from datapipes.iter import IterableWrapper

    return IterableWrapper(range(ROWS)).sharding_filter().map(row).batch(16).collate()


def lines(path: str, seconds: float) -> Any:
    from datapipes.iter import IterableWrapper

    pipe = IterableWrapper([path]).open_files().parse_csv().sharding_filter().map(features)
    return (pipe.map(partial(burns, seconds)) if seconds else pipe).batch(32)


def slow() -> Any:
    from datapipes.iter import IterableWrapper

    return IterableWrapper(range(SLOW)).sharding_filter().map(partial(burns, 1e-3)).batch(8)


def what_came(stream: Iterable[Any]) -> str:
    """How many numbers there were, and their sum: workers batch behind the sharding, so batches are not the same."""
    count, total = 0, 0.0
    for output in stream:
        numbers, added = _summed(output)
        count, total = count + numbers, total + added
    return f"{count} {total:.6g}"


def _summed(value: Any) -> tuple[int, float]:
    if isinstance(value, torch.Tensor):
        return value.numel(), float(value.sum(dtype=torch.float64))
    if isinstance(value, dict | list | tuple):
        parts = [_summed(part) for part in (value.values() if isinstance(value, dict) else value)]
        return sum(count for count, _ in parts), sum(added for _, added in parts)
    return 1, float(value)


class Again:
    """A loader that is iterated once more in each round, its workers kept."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __call__(self) -> Iterable[Any]:
        stream: Iterable[Any] = self.loader
        return stream


def _ours(services: ExitStack, graph: Any) -> Again:
    from loader2 import DataLoader2
    from reading_services import MultiProcessingReadingService

    service = MultiProcessingReadingService(WORKERS)
    return Again(services.enter_context(DataLoader2(graph, reading_service=service)))


def _torch(data: Any, workers: int = WORKERS, **options: Any) -> Again:
    return Again(torch.utils.data.DataLoader(data, num_workers=workers, persistent_workers=workers > 0, **options))


def _contest(
    services: ExitStack,
    title: str,
    graph: Any,
    elements: int,
    rounds: int,
    over_torch: float | None = None,
    home: float | None = None,
    *peers: Contender,
) -> Table:
    from loader2 import DataLoader2

    alone = _contender("DataLoader2, one process, no transport", HOME, Again(DataLoader2(graph)))
    contenders = [
        _contender("DataLoader2, 2 workers", OURS, _ours(services, graph)),
        alone,
        _contender("torch DataLoader, 2 workers", TORCH, _torch(graph, batch_size=None)),
        *peers,
    ]
    claims = [Claim(OURS, TORCH, over_torch)] if over_torch else []
    claims += [Claim(OURS, HOME, home)] if home else []
    return contest(title, contenders, claims, elements=elements, rounds=rounds, reference=alone)


def _contender(name: str, family: str, build: Callable[[], Iterable[Any]]) -> Contender:
    return Contender(name, family, contender(name, family, build).seconds, lambda: what_came(build()))


def images(services: ExitStack, step: int, rounds: int) -> Table:
    """Shuffled batches of rows of one tensor; the limit is to gather them into one buffer, in one thread."""
    from datapipes.map import SequenceWrapper

    data: Any = torch.randn(IMAGES, 1, 128, 128)
    rows = SequenceWrapper(data, deepcopy=False).to_iter_datapipe().shuffle().sharding_filter()
    buffer = torch.empty(step, 1, 128, 128)

    def gathered() -> Iterator[torch.Tensor]:
        order = torch.randperm(IMAGES)
        for start in range(0, IMAGES, step):
            chosen = order[start : start + step]
            yield torch.index_select(data, 0, chosen, out=buffer[: len(chosen)])

    limit = _contender("index_select into one buffer", "limit", gathered)
    contenders = [
        _contender("DataLoader2, 2 workers", OURS, _ours(services, rows.batch(step).collate())),
        limit,
        _contender("torch DataLoader, no workers", TORCH, _torch(data, 0, batch_size=step, shuffle=True)),
        _contender("torch DataLoader, 8 workers", "torch 8", _torch(data, 8, batch_size=step, shuffle=True)),
    ]
    claims = [Claim(OURS, "limit", 0.75), Claim(OURS, TORCH, 5.0), Claim(OURS, "torch 8", 12.0)]
    title = f"{IMAGES:,} shuffled images of 1x128x128 floats, {step} a batch"
    return contest(title, contenders, claims, elements=IMAGES, rounds=min(rounds, 5), reference=limit)


def cold(title: str, graph: Any, elements: int, rounds: int, over_torch: float) -> Table:
    """A pass of a loader that is made for it, with the workers' start and end."""
    from loader2 import DataLoader2
    from reading_services import MultiProcessingReadingService

    def ours() -> Iterator[Any]:
        with DataLoader2(graph, reading_service=MultiProcessingReadingService(WORKERS)) as loader:
            yield from loader

    def theirs() -> Iterator[Any]:
        yield from torch.utils.data.DataLoader(graph, batch_size=None, num_workers=WORKERS)

    contenders = [
        _contender("DataLoader2, 2 new workers", OURS, ours),
        _contender("torch DataLoader, 2 new workers", TORCH, theirs),
    ]
    claims = [Claim(OURS, TORCH, over_torch)]
    return contest(title, contenders, claims, elements=elements, rounds=rounds, reference=contenders[0])


def beginnings() -> Table:
    """How long one waits for the first batch, of new workers and of those that are there."""
    from loader2 import DataLoader2
    from reading_services import MultiProcessingReadingService

    graph = tensors()
    cold, warm, other = [], [], []
    for _ in range(5):
        started = perf_counter()
        with DataLoader2(graph, reading_service=MultiProcessingReadingService(WORKERS)) as loader:
            next(iter(loader))
            cold.append(perf_counter() - started)
            for _ in range(5):
                started = perf_counter()
                next(iter(loader))
                warm.append(perf_counter() - started)
        started = perf_counter()
        next(iter(torch.utils.data.DataLoader(graph, batch_size=None, num_workers=WORKERS)))
        other.append(perf_counter() - started)
    limit = min(other) * 1e3
    return Table(
        "The first batch, best of 5",
        ("of", "ms"),
        [
            Row(("new workers", f"{min(cold) * 1e3:.1f}"), f"<= {limit:.1f}", min(cold) * 1e3 <= limit),
            Row(("workers that are there", f"{min(warm) * 1e3:.1f}"), "<= 2", min(warm) * 1e3 <= 2),
            Row(("torch DataLoader, new workers", f"{limit:.1f}")),
        ],
    )


def _written(path: Path) -> str:
    random = Random(1)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [number, random.random(), random.random(), f"name {number}", number % 10] for number in range(LINES)
        )
    return str(path)
