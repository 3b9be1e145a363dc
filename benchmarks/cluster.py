"""Workers on a Ray cluster, beside worker processes, Ray Data and torch: ``python -m benchmarks.cluster``.

The cluster is on this machine: the loader's node, whose workers share memory with it, and another one, whose workers
send all over TCP. Every contender has two workers, and keeps what it has started from round to round. "frames in Ray's
object store" is the other way that there is to get elements home: each frame is the result of an actor's method, packed
as this library packs, three of them asked for ahead, and copied so that it can be written to.
"""

from __future__ import annotations

import io
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

# Before Ray is imported.
os.environ |= {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}

import torch

from benchmarks import machine
from benchmarks.harness import OURS, Claim, Contender, contest
from benchmarks.table import Table
from benchmarks.workers import TORCH, WORKERS, Again, _contender, burns

FAR = "Ray, another machine"
STORE = "frames in Ray's object store"
DATA = "Ray Data"
NUMBERS = 3_000
TENSORS = 1_000
IMAGES = 800
ROWS = 4_000_000
IN_A_FILE = 200_000
IN_A_BATCH = 1_000


def small(x: int) -> dict[str, int]:
    return {"x": burns(1e-3, x), "y": -x}


def mebibyte(x: int) -> torch.Tensor:
    return torch.full((1 << 18,), float(x))


def decoded(jpeg: bytes) -> torch.Tensor:
    import numpy
    from PIL import Image

    return torch.from_numpy(numpy.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"), dtype=numpy.uint8).copy())


def sums(batch: Any) -> torch.Tensor:
    """Columns of a batch of rows as one tensor."""
    return torch.stack([torch.as_tensor(batch[name].copy()) for name in ("a", "b")], 1)


def batches(path: str) -> Iterator[torch.Tensor]:
    import pyarrow.parquet

    for part in pyarrow.parquet.ParquetFile(path).iter_batches(IN_A_BATCH):
        yield sums({name: part.column(name).to_numpy() for name in ("a", "b")})


def images() -> list[bytes]:
    import numpy
    from PIL import Image

    drawn = numpy.random.default_rng(0)
    made = []
    for _ in range(IMAGES):
        file = io.BytesIO()
        Image.fromarray(drawn.integers(0, 255, (224, 224, 3), dtype=numpy.uint8)).save(file, "JPEG")
        made.append(file.getvalue())
    return made


def tables(rounds: int) -> Iterator[Table]:
    import pyarrow
    import pyarrow.parquet

    from datapipes.iter import IterableWrapper

    with TemporaryDirectory(dir="/tmp") as folder, _cluster(folder) as address:
        import ray

        jpegs = images()
        files = []
        for number in range(ROWS // IN_A_FILE):
            columns = {name: torch.rand(IN_A_FILE, dtype=torch.float64).numpy() for name in ("a", "b")}
            files.append(str(Path(folder, f"{number}.parquet")))
            pyarrow.parquet.write_table(pyarrow.table(columns), files[-1])
        numbers = IterableWrapper(range(NUMBERS)).sharding_filter().map(small)
        tensors = IterableWrapper(range(TENSORS)).sharding_filter().map(mebibyte)
        pictures = IterableWrapper(jpegs).sharding_filter().map(decoded)
        rows = IterableWrapper(files).sharding_filter().flatmap(batches)
        yield _table("1 ms of CPU, a small dict", numbers, address, rounds, NUMBERS)
        yield _table(
            "tensors of 1 MiB",
            tensors,
            address,
            rounds,
            TENSORS,
            lambda: ray.data.range(TENSORS, override_num_blocks=50).map_batches(
                lambda batch: {"x": torch.stack([mebibyte(x) for x in batch["id"]]).numpy()}, batch_size=4
            ),
        )
        yield _table(
            "JPEGs of 224 x 224, decoded",
            pictures,
            address,
            rounds,
            IMAGES,
            lambda: ray.data.from_items([{"x": jpeg} for jpeg in jpegs], override_num_blocks=20).map(
                lambda row: {"x": decoded(row["x"]).numpy()}
            ),
        )
        yield _table(
            "rows of Parquet in batches of 1,000",
            rows,
            address,
            rounds,
            ROWS,
            lambda: ray.data.read_parquet(files),
            IN_A_BATCH,
        )


@contextmanager
def _cluster(folder: str) -> Iterator[str]:
    """A cluster of the loader's machine and another one; its address."""
    os.environ["RAY_TMPDIR"] = folder
    import ray
    from ray.cluster_utils import Cluster

    store = {"object_store_memory": 500 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 8, "resources": {"near": 8}, **store})
    try:
        cluster.add_node(num_cpus=8, resources={"far": 8}, object_store_memory=500 << 20)
        ray.init(address=cluster.address, log_to_driver=False)
        try:
            yield str(cluster.address)
        finally:
            ray.shutdown()
    finally:
        cluster.shutdown()


def _table(
    title: str,
    graph: Any,
    address: str,
    rounds: int,
    elements: int,
    dataset: Callable[[], Any] | None = None,
    batch: int = 32,
) -> Table:
    from loader2 import DataLoader2
    from reading_services import MultiProcessingReadingService, RayReadingService

    with ExitStack() as services:

        def ours(name: str, family: str, service: Any) -> Contender:
            return _contender(name, family, Again(services.enter_context(DataLoader2(graph, reading_service=service))))

        def on_ray(name: str, family: str, resource: str) -> Contender:
            wanted = {"CPU": 1.0, resource: 1.0}
            return ours(name, family, RayReadingService(WORKERS, address=address, resources_per_worker=wanted))

        of_torch: Any = torch.utils.data.DataLoader(
            graph,
            batch_size=None,
            num_workers=WORKERS,
            persistent_workers=True,
            multiprocessing_context="forkserver",
        )
        processes = ours("2 worker processes", OURS, MultiProcessingReadingService(WORKERS, "forkserver"))
        store = Store(graph)
        services.callback(store.close)
        contenders = [
            processes,
            on_ray("RayReadingService, this machine", "Ray", "near"),
            on_ray("RayReadingService, another machine", FAR, "far"),
            _contender(STORE, STORE, Again(store)),
            _contender("torch DataLoader, 2 workers", TORCH, Again(of_torch)),
        ]
        claims = [Claim("Ray", OURS, 0.9)]
        if dataset is not None:
            contenders.append(_contender("Ray Data, iter_torch_batches", DATA, Again(RayData(dataset(), batch))))
            claims.append(Claim("Ray", DATA, 1.0))
        return contest(title, contenders, claims, elements=elements, rounds=rounds, reference=processes)


class RayData:
    """A dataset, run anew for each pass; elements are taken out of batches, which is faster than asking singly."""

    def __init__(self, dataset: Any, batch: int) -> None:
        self.dataset = dataset
        self.batch = batch

    def __iter__(self) -> Iterator[Any]:
        for found in self.dataset.iter_torch_batches(batch_size=self.batch):
            if "a" in found:
                yield torch.stack([found["a"], found["b"]], 1)
            else:
                yield from found["x"]


class Store:
    """The graph in two actors, whose frames come through the object store."""

    PULLS = 3

    def __init__(self, graph: Any) -> None:
        import ray

        made = ray.remote(num_cpus=1, resources={"near": 1})(Frames)
        self.actors = [made.remote(graph, number) for number in range(WORKERS)]

    def __iter__(self) -> Iterator[Any]:
        import ray

        from reading_services.workers.transport.packing import unpickled

        ray.get([actor.begin.remote() for actor in self.actors])
        asked = [deque(actor.frame.remote() for _ in range(self.PULLS)) for actor in self.actors]
        while any(asked):
            for actor, pulls in zip(self.actors, asked, strict=True):
                if pulls:
                    data, buffers = ray.get(pulls.popleft())
                    if data:
                        pulls.append(actor.frame.remote())
                        yield from unpickled(data, [bytearray(buffer) for buffer in buffers])

    def close(self) -> None:
        import ray

        for actor in self.actors:
            ray.kill(actor)


class Frames:
    """An actor that makes frames of 10 ms or 4 MiB of its part of a graph."""

    def __init__(self, graph: Any, number: int) -> None:
        from reading_services import WorkerInfo
        from reading_services.workers.worker import worker_graph

        torch.set_num_threads(1)
        self._graph = worker_graph(graph, WorkerInfo(WORKERS, number), None)
        self._elements: Iterator[Any] = iter(())

    def begin(self) -> None:
        """Begin a pass."""
        self._elements = iter(self._graph)

    def frame(self) -> tuple[bytes, list[Any]]:
        """The next frame; an empty one behind the last."""
        import numpy

        from reading_services.workers.transport.packing import pickled

        chunk: list[Any] = []
        until, size = perf_counter() + 0.01, 0
        for element in self._elements:
            chunk.append(element)
            size += element.nbytes if isinstance(element, torch.Tensor) else 0
            if perf_counter() > until or size > 4 << 20:
                break
        data, buffers = pickled(chunk)
        return data if chunk else b"", [numpy.frombuffer(buffer, numpy.uint8) for buffer in buffers]


if __name__ == "__main__":
    print(machine.header())
    for each in tables(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
        print(each.render(), flush=True)
