"""The cases of a cluster."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
import torch

from datapipes.errors import WorkerDied, WorkerError, WorkerTimeout
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, RayReadingService, ThreadingReadingService
from reading_services.cluster import listener
from reading_services.cluster.datasets import from_ray_dataset, to_ray_dataset
from reading_services.workers.service import OnWorkers
from tests.reading_services.cluster.nodes import Nodes, end, members, nodes
from tests.reading_services.workers.signal_handlers import Dispositions

Case = Callable[[Nodes], None]
ALL: dict[str, Case] = {}
SEED = 3


def case(function: Case) -> Case:
    """Have it run."""
    ALL[function.__name__] = function
    return function


# -- graphs ------------------------------------------------------------------------------------------------------------


def draw(x: int) -> tuple[int, float, torch.Tensor]:
    """Something of each generator, and memory that travels on its own."""
    return x, random.random(), torch.rand(2000)


def worked(x: Any) -> Any:
    """Half a millisecond of work, so that a worker can be killed in the middle of it."""
    until = time.perf_counter() + 0.0005
    while time.perf_counter() < until:
        pass
    return x


class Plain(IterDataPipe[int]):
    """A user's class, which says nothing of its position: it is replayed."""

    def __init__(self, source: Pipe) -> None:
        self.source = source

    def __iter__(self) -> Iterator[int]:
        drawn = random.Random(SEED)
        for x in self.source:
            yield x + drawn.randrange(2)


def shuffled(n: int) -> Pipe:
    return IterableWrapper(range(n)).shuffle().sharding_filter().map(worked).map(draw).batch(8)


def dispatched(n: int) -> Pipe:
    return IterableWrapper(range(n)).shuffle().sharding_round_robin_dispatch().map(worked).map(draw).batch(8)


def replayed(n: int) -> Pipe:
    return Plain(IterableWrapper(range(n)).shuffle().sharding_filter()).map(worked).map(draw).batch(8)


def pinned(n: int) -> Pipe:
    return IterableWrapper(range(n)).shuffle().set_seed(5).sharding_filter().map(worked).map(draw).batch(8)


def on_ray(cluster: Nodes, workers: int = 2, **options: Any) -> RayReadingService:
    return RayReadingService(workers, address=cluster.address, **{"silence": 3.0, "restart": 100, **options})


def on_processes(workers: int = 2) -> MultiProcessingReadingService:
    return MultiProcessingReadingService(workers, "forkserver")  # Ray's threads forbid a fork


def digest(graph: Pipe, service: Any, epochs: int = 2, every: int = 0, do: Callable[[], None] | None = None) -> str:
    """A digest of all elements in order; something is done after every so many batches."""
    found = hashlib.sha256()
    with DataLoader2(graph, reading_service=service) as dl, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*it is replaced")
        for epoch in range(epochs):
            dl.seed(SEED + epoch)
            for number, batch in enumerate(dl):
                found.update(repr([(x, drawn, rows.sum().item()) for x, drawn, rows in batch]).encode())
                if do is not None and number % every == every - 1:
                    do()
    return found.hexdigest()


# -- the same elements -------------------------------------------------------------------------------------------------


@case
def equal(cluster: Nodes) -> None:
    """One, two and three workers give what as many processes give."""
    for graph in (shuffled, dispatched, replayed, pinned):
        for workers in (1, 2, 3):
            there = digest(graph(400), on_ray(cluster, workers))
            assert there == digest(graph(400), on_processes(workers)), (graph.__name__, workers)


@case
def killed(cluster: Nodes) -> None:
    """A member, or its agent, is killed every 60 batches."""

    def one(which: Callable[[], Any]) -> None:
        if there := list(which()):
            end(random.choice(there))

    for graph in (shuffled, dispatched, replayed):
        expected = digest(graph(1600), on_processes())
        for which in (members, lambda: members().values()):
            assert digest(graph(1600), on_ray(cluster), 2, 60, partial(one, which)) == expected, graph.__name__


@case
def stopped(cluster: Nodes) -> None:
    """A member is stopped and gives no sign of life: it is given up, and is not heard when it goes on."""
    stopped: set[int] = set()

    def stop() -> None:
        if len(stopped) < 2:
            pid = min(members())
            stopped.add(pid)
            end(pid, signal.SIGSTOP)

    expected = digest(shuffled(1600), on_processes())
    started = time.monotonic()
    assert digest(shuffled(1600), on_ray(cluster), 2, 60, stop) == expected
    assert stopped
    assert not stopped & set(members())
    assert time.monotonic() - started < 90


@case
def nodes_lost_and_added(cluster: Nodes) -> None:
    """A node is lost with a worker, another joins, and the other one is lost as well."""
    expected = digest(shuffled(1600), on_processes(), epochs=3)
    steps: Iterator[Callable[[], None]] = iter([cluster.lose, cluster.join, cluster.lose])

    def step() -> None:
        for do in islice(steps, 1):
            do()

    assert digest(shuffled(1600), on_ray(cluster), 3, 100, step) == expected
    cluster.join()


@case
def states_move(cluster: Nodes) -> None:
    """A state goes from processes to Ray, and on from there to processes, in the middle of an epoch."""

    def part(service: Any, state: Any, count: int | None) -> tuple[list[Any], Any]:
        with DataLoader2(shuffled(400), reading_service=service) as dl:
            if state is None:
                dl.seed(SEED)
            else:
                dl.load_state_dict(state)
            found = [[(x, drawn) for x, drawn, _ in batch] for batch in islice(dl, count)]
            return found, dl.state_dict()

    whole, _ = part(on_processes(), None, None)
    first, state = part(on_processes(), None, 11)
    second, state = part(on_ray(cluster), state, 17)
    third, _ = part(on_processes(), state, None)
    assert first + second + third == whole


@case
def abandoned(cluster: Nodes) -> None:
    """Epochs that are left in the middle, and the next ones."""

    def some(service: Any) -> list[Any]:
        with DataLoader2(shuffled(400), reading_service=service) as dl:
            dl.seed(SEED)
            return [[(x, drawn) for x, drawn, _ in batch] for count in (1, 7, 0, None) for batch in islice(dl, count)]

    assert some(on_ray(cluster)) == some(on_processes())


@case
def resized(cluster: Nodes) -> None:
    """Three workers after two."""

    def some(service: Any) -> list[Any]:
        with DataLoader2(shuffled(200), reading_service=service) as dl:
            dl.seed(SEED)
            first = [[x for x, *_ in batch] for batch in dl]
            service = dl.reading_service
            assert isinstance(service, OnWorkers)
            service.resize(3)
            return first + [[x for x, *_ in batch] for batch in dl]

    assert some(on_ray(cluster)) == some(on_processes())


# -- what arrives ------------------------------------------------------------------------------------------------------


def filled(x: int) -> torch.Tensor:
    return torch.full((1 << 18,), float(x))


@case
def elements_are_yours(cluster: Nodes) -> None:
    """Elements from another machine can be kept and changed, and no other process sees the changes."""
    graph = IterableWrapper(range(60)).sharding_filter().map(filled)
    with DataLoader2(graph, reading_service=on_ray(cluster)) as dl, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*has not started in")  # on a slow machine
        kept = []
        for tensor in dl:
            kept.append(tensor)
            tensor += 1000
    assert [(tensor.min().item(), tensor.max().item()) for tensor in kept] == [(x + 1000.0,) * 2 for x in range(60)]


def large(x: int) -> torch.Tensor:
    return torch.full((1 << 24,), float(x))


@case
def large_elements(cluster: Nodes) -> None:
    """Elements of 64 MiB, more of them than any store holds."""
    graph = IterableWrapper(range(12)).sharding_filter().map(large)
    with DataLoader2(graph, reading_service=on_ray(cluster)) as dl:
        assert [tensor.double().mean().item() for tensor in dl] == [float(x) for x in range(12)]


@case
def large_graphs(cluster: Nodes) -> None:
    """A graph that a connection does not hold at once, and elements of its size that are dealt out, on each machine."""
    rows = [bytes([x]) * (1 << 20) for x in range(40)]
    for graph in (IterableWrapper(rows).sharding_filter(), IterableWrapper(rows).sharding_round_robin_dispatch()):
        with DataLoader2(graph.map(whole), reading_service=on_ray(cluster)) as dl:
            assert list(dl) == rows


def whole(row: bytes) -> bytes:
    return row


@case
def a_loop_that_pauses(cluster: Nodes) -> None:
    """A loop takes nothing for a long time, as in a validation, while workers have more to send than there is room."""
    graph = IterableWrapper(range(12)).sharding_filter().map(large)
    with DataLoader2(graph, reading_service=on_ray(cluster)) as dl, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*has not started in")  # on a slow machine
        it = iter(dl)
        found = [next(it)]
        threading.Event().wait(25)  # of the loop's own time, for something else
        found += it
    assert [tensor.double().mean().item() for tensor in found] == [float(x) for x in range(12)]


# -- errors ------------------------------------------------------------------------------------------------------------


def bad(x: int) -> int:
    if x == 7:
        raise KeyError("seven")
    return x


@case
def errors_of_users(cluster: Nodes) -> None:
    """An exception of a user's has its type, and says in which stage and on which node it was raised; others follow."""
    with DataLoader2(IterableWrapper(range(20)).sharding_filter().map(bad), reading_service=on_ray(cluster)) as dl:
        it = iter(dl)
        assert [next(it) for _ in range(7)] == list(range(7))
        with pytest.raises(KeyError) as raised:
            next(it)
        notes = "\n".join(raised.value.__notes__)
        assert "map(<bad at cases.py" in notes, notes
        assert "on node 127.0.0.1" in notes, notes
        assert list(it) == list(range(8, 20))


class NotForMembers:
    """A function that cannot be unpickled there."""

    def __call__(self, x: int) -> int:
        return x

    def __setstate__(self, state: Any) -> None:
        if sys.argv[0] == "-c":
            raise LookupError("no such thing here")


@case
def a_dispatcher_that_cannot_start(cluster: Nodes) -> None:
    """It is said once why, however many may be replaced."""
    function = NotForMembers()
    function.__dict__["has"] = "a state"
    graph = IterableWrapper(range(8)).map(function).sharding_round_robin_dispatch().map(worked)
    with DataLoader2(graph, reading_service=on_ray(cluster)) as dl, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*has not started in")  # on a slow machine
        with pytest.raises(LookupError, match="no such thing here"):
            list(dl)


def fatal(x: int) -> int:
    if x == 7:
        os._exit(9)
    return x


@case
def deaths_without_restart(cluster: Nodes) -> None:
    """Without a restart a death is an error that says how; an element that kills twice is named with a restart."""
    graph = IterableWrapper(range(20)).sharding_filter().map(fatal)
    once = pytest.raises(WorkerDied, match=r"on node 127.0.0.1 .* left with exit code 9")
    with DataLoader2(graph, reading_service=on_ray(cluster, restart=0)) as dl, once:
        list(dl)
    with DataLoader2(graph, reading_service=on_ray(cluster, on_death="skip")) as dl, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(it is replaced|goes on after)")
        assert sorted(dl) == [x for x in range(20) if x != 7]
        assert sum(dl.errors.values()) == 1


@case
def signals_of_members(cluster: Nodes) -> None:
    """SIGTERM and SIGHUP end a worker and the dispatcher, whatever the modules handle that these import."""
    tells = Dispositions()
    graph = IterableWrapper(range(4)).map(tells).sharding_round_robin_dispatch().map(lambda seen: (seen, tells(seen)))
    with DataLoader2(graph, reading_service=on_ray(cluster)) as dl:
        for seen in dl:
            assert [each[:2] for each in seen] == [("SIG_DFL", "SIG_DFL")] * 2, seen


def stuck(x: int) -> int:
    if x == 7:
        threading.Event().wait()
    return x


@case
def timeouts_show_where_it_stands(cluster: Nodes) -> None:
    """A worker that sends nothing is a WorkerTimeout, with its stacks from over there."""
    graph = IterableWrapper(range(20)).sharding_filter().map(stuck)
    stands = pytest.raises(WorkerTimeout, match="in stuck")
    with DataLoader2(graph, reading_service=on_ray(cluster, timeout=2.0)) as dl, stands:
        list(dl)


@case
def ray_data(cluster: Nodes) -> None:
    """A dataset of Ray's as a source with an exact state, and the elements of a graph as a dataset."""
    import ray

    ray.init(address=cluster.address)
    try:
        dataset = ray.data.range(100, override_num_blocks=7).materialize()

        def rows() -> Pipe:
            return from_ray_dataset(dataset).shuffle().sharding_filter().flatmap(as_rows)

        with DataLoader2(rows(), reading_service=ThreadingReadingService(1)) as dl:
            assert sorted(row["id"] for row in dl) == list(range(100))
        with DataLoader2(rows()) as dl:
            it = iter(dl)
            first = [next(it) for _ in range(31)]
            state, rest = dl.state_dict(), list(it)
        with DataLoader2.from_state(state, datapipe=rows()) as dl:
            assert list(dl) == rest
        assert sorted(row["id"] for row in first + rest) == list(range(100))
        assert to_ray_dataset(rows(), rows_in_a_block=30).sum("id") == sum(range(100))
        late = from_ray_dataset(ray.data.range(40, override_num_blocks=8).map_batches(first_one_late))
        assert [late[number]["id"][0].as_py() for number in range(len(late))] == list(range(0, 40, 5))
    finally:
        ray.shutdown()


def first_one_late(batch: dict[str, Any]) -> dict[str, Any]:
    """The first block is ready when the others are."""
    if batch["id"][0] == 0:
        threading.Event().wait(3)  # so long that the others are ready before, in processes that Ray has yet to start
    return batch


def as_rows(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@case
def no_room(cluster: Nodes) -> None:
    """Workers that find no place are spoken of, and given up, and not tried again."""
    soon = mock.patch.object(listener, "_SOON", 1.0), mock.patch.object(listener, "_GIVEN_UP", 4.0)
    service = on_ray(cluster, resources_per_worker={"nowhere": 1.0})
    with soon[0], soon[1], DataLoader2(shuffled(9), reading_service=service) as dl:
        warned = pytest.warns(UserWarning, match="has not started .* each worker needs .*nowhere")
        with warned, pytest.raises(WorkerTimeout, match=r"worker \d did not start in \d seconds: .*nowhere"):
            list(dl)


@case
def other_code_is_named(cluster: Nodes) -> None:
    """A module that is another one on the nodes is named before the first element; it can be sent along."""
    with TemporaryDirectory() as folder:
        module = Path(folder, "users_module.py")
        module.write_text("def twice(x):\n    return 2 * x\n")
        sys.path.insert(0, folder)
        try:
            import users_module  # type: ignore[import-not-found]  # it was just written

            graph = IterableWrapper(range(4)).sharding_filter().map(users_module.twice)
            with DataLoader2(graph, reading_service=on_ray(cluster)) as dl:
                it = iter(dl)
                module.write_text("def twice(x):\n    return 3 * x\n")  # no worker has started yet
                with pytest.raises(
                    WorkerError, match=r"node 127.0.0.1 .* other files than the main process for users_module"
                ):
                    next(it)
            along = on_ray(cluster, runtime_env={"py_modules": [str(module)]})
            with DataLoader2(graph, reading_service=along) as dl:
                assert list(dl) == [0, 3, 6, 9]
        finally:
            sys.path.remove(folder)


@case
def drivers_that_die(cluster: Nodes) -> None:
    """A driver that is killed takes its workers along within a limit."""
    program = f"""if True:
        from tests.reading_services.cluster import cases, nodes
        from loader2 import DataLoader2
        class There:
            address = {cluster.address!r}
        with DataLoader2(cases.shuffled(100000), reading_service=cases.on_ray(There)) as dl:
            it = iter(dl)
            print(len(next(it)), flush=True)
            input()
    """
    driver = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert driver.stdout is not None
    assert driver.stdout.readline().strip() == b"8"
    assert len(members()) == 2
    driver.kill()
    driver.communicate()
    until = time.monotonic() + 120
    while members():
        assert time.monotonic() < until, members()
        threading.Event().wait(0.05)  # processes of others, whose end tells this one nothing


@case
def ranks_with_workers_of_their_own(cluster: Nodes) -> None:
    """Two ranks, each with workers on the cluster that both share, give what two ranks with processes give."""

    def of_both(service: str) -> list[str]:
        with TemporaryDirectory() as folder:
            program = f"""if True:
                import sys
                from datapipes.graph import Pipe
                from tests.reading_services.cluster import cases
                from loader2 import DataLoader2
                from reading_services import DistributedReadingService, SequentialReadingService
                import torch.distributed as dist
                class There:
                    address = {cluster.address!r}
                if __name__ == "__main__":
                    dist.init_process_group(
                        "gloo", init_method="file://{folder}/store", rank=int(sys.argv[1]), world_size=2
                    )
                    service = SequentialReadingService(DistributedReadingService(), {service})
                    print(cases.digest(cases.shuffled(400), service))
                    dist.destroy_process_group()
            """
            file = Path(folder, "ranks.py")
            file.write_text(textwrap.dedent(program))
            paths = {**os.environ, "PYTHONPATH": os.getcwd()}
            both = [
                subprocess.Popen([sys.executable, str(file), str(rank)], stdout=subprocess.PIPE, text=True, env=paths)
                for rank in range(2)
            ]
            return [one.communicate(timeout=600)[0].splitlines()[-1] for one in both]

    assert of_both("cases.on_ray(There)") == of_both("cases.on_processes()")


@case
def a_head_that_is_gone(_: Nodes) -> None:
    """Without the head the epoch goes on to its end; with the head back, a worker that dies is replaced."""
    expected = digest(shuffled(1600), on_processes())
    with (
        TemporaryDirectory(dir="/tmp") as storage,
        nodes(1, RAY_gcs_storage="rocksdb", RAY_gcs_storage_path=storage) as own,
    ):
        head = own.cluster.head_node
        steps: Iterator[Callable[[], None]] = iter(
            [head.kill_gcs_server, lambda: None, head.start_gcs_server, lambda: end(min(members()))]
        )

        def step() -> None:
            for do in islice(steps, 1):
                do()

        assert digest(shuffled(1600), on_ray(own), 2, 60, step) == expected
