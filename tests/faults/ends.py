"""Cases of ``tests.faults.cases``: epochs and loaders that end in every way, and what must not grow or be left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any
from unittest.mock import patch

import torch

from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import get_worker_info
from reading_services.workers.process import host, members
from tests.faults import tools
from tests.faults.tools import SECOND, gone, loader, pids, same, service, within

# -- ends -----------------------------------------------------------------------------------------------------------


def abandoned() -> None:
    with loader(same, 10_000_000) as dl:
        for epoch in range(50):
            it = iter(dl)
            assert [next(it) for _ in range(3)] == [0, 1, 2], epoch
        workers = pids(dl)
        assert len(set(workers)) == 2
    assert all(map(gone, workers))
    dl.shutdown()


def forgotten() -> None:
    dl = loader(same, 10_000_000)
    next(iter(dl))
    workers = pids(dl)
    started = monotonic()
    del dl
    within(2 * SECOND, started)
    assert all(map(gone, workers))


def never_shut_down() -> None:
    """The program ends with a loader in the middle of an epoch."""
    global _kept
    _kept = loader(same, 10_000_000)
    next(iter(_kept))


_kept: Any = None


def interrupted() -> None:
    """Ctrl-C at a terminal reaches the workers as well."""
    for x in loader(same, 10_000_000):
        if x == 1000:
            says_ready()


def interrupted_at_the_start() -> None:
    """When one worker has been started, and is still importing where it is not a fork, and the other one has not."""
    with patch.object(host, "begin", followed_by(says_ready, members.begin)), loader(same, 10_000_000) as dl:
        for _ in dl:
            pass


def interrupted_twice() -> None:
    """The second time while the workers, which are stuck, are given time to leave: it ends them at once."""
    with patch.object(host, "end", preceded_by(says_ready, members.end)), loader(_says_so_and_waits, 10_000_000) as dl:
        for _ in dl:
            pass


def says_ready() -> None:
    """Tell the process that started this program that it has reached the point of interruption."""
    print("ready", flush=True)


def preceded_by(first: Callable[[], None], fn: Callable[..., Any]) -> Callable[..., Any]:
    def both(*args: Any, **kwargs: Any) -> Any:
        first()
        return fn(*args, **kwargs)

    return both


def followed_by(then: Callable[[], None], fn: Callable[..., Any]) -> Callable[..., Any]:
    def both(*args: Any, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        then()
        return result

    return both


def parent_killed() -> None:
    dl = loader(_waits if tools.method == "fork" else same, 10_000_000)
    it = iter(dl)
    next(it)
    says_ready()
    signal.pause()


# -- leaks ----------------------------------------------------------------------------------------------------------


def rows(x: int) -> torch.Tensor:
    return torch.full((16_384,), float(x))


def footprint() -> tuple[int, int, int]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), threading.active_count(), pages * resource.getpagesize()


def many_epochs() -> None:
    with loader(rows, 64) as dl:
        for _ in range(20):
            assert len(list(dl)) == 64
        files, threads, memory = footprint()
        for _ in range(200):
            assert sum(1 for _ in dl) == 64
        after = footprint()
        assert after[:2] == (files, threads), f"{after[:2]} files and threads, {files, threads} before"
        assert after[2] < memory + (32 << 20), f"{(after[2] - memory) >> 20} MiB more after 200 epochs"


def few_descriptors() -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (64, 64)
    two_thousand_kept()


def few_shared_memory() -> None:
    assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize == 1 << 16
    two_thousand_kept()


def two_thousand_kept() -> None:
    """Tensors of 125 MiB in all, from workers and from a dispatcher."""
    with loader(rows, 2000) as dl:
        kept = list(dl)
    assert [int(x[0]) for x in kept] == list(range(2000))
    dealt = IterableWrapper(range(100)).map(rows).sharding_round_robin_dispatch().map(same)
    with DataLoader2(dealt, reading_service=service()) as dl:
        assert [int(x[0]) for x in dl] == list(range(100))


def everything_kept() -> None:
    """More batches than the arena holds, all kept, each the consumer's own."""
    with loader(rows, 1000, arena_bytes=1 << 22) as dl:
        kept = list(dl)
        kept[3].fill_(-1)
        assert all(int(x[0]) == i for i, x in enumerate(kept) if i != 3)
        assert int(kept[3][-1]) == -1


def large(x: int) -> torch.Tensor:
    return torch.full((1 << 22,), x, dtype=torch.uint8)


def larger_than_the_arena() -> None:
    with loader(large, 6, arena_bytes=1 << 20) as dl:
        assert [int(x[-1]) for x in dl] == list(range(6))


def knows_itself(x: int) -> tuple[int, int]:
    info = get_worker_info()
    assert info is not None
    return info.num_workers, info.worker_id


def told() -> None:
    with loader(knows_itself, 4) as dl:
        assert list(dl) == [(2, 0), (2, 1), (2, 0), (2, 1)]


UNGUARDED = """
from functools import partial
from tests.faults import tools
tools.method = "{method}"
def second(_, x):
    return x
for x in tools.loader(partial(second, bytes({size})), 9):
    print(x)
"""


def unguarded() -> None:
    """A program that iterates where it should be below ``if __name__ == "__main__"`` is told so, once and soon."""
    for size in (1, 1 << 20):  # a pipe holds less than the latter
        _unguarded(size)


def _unguarded(size: int) -> None:
    with TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(UNGUARDED.format(method=tools.method, size=size))
        ran = subprocess.run(
            [sys.executable, str(program)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
    if tools.method == "fork":
        assert ran.stdout.split() == [*"012345678"], ran
        return
    assert ran.returncode == 1, ran
    assert ran.stderr.count("Traceback") == 1, ran.stderr
    assert 'below `if __name__ == "__main__":`' in ran.stderr, ran.stderr
    assert not ran.stdout, ran


def _waits(x: int) -> int:
    if x == 500:
        threading.Event().wait(60)  # stuck
    return x


def _says_so_and_waits(x: int) -> int:
    if x == 500:
        says_ready()
    return _waits(x)
