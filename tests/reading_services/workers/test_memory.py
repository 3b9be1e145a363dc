"""A worker that the kernel has ended because memory ran out says so; what it inherits is not copied."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from reading_services.workers.process.memory import ended_by_the_kernel, why_killed

GIB = 1 << 30
MEMORY = {
    "proc/meminfo": "MemTotal:       8388608 kB\nMemFree:        1 kB\n",
    "proc/vmstat": "nr_free 9\noom_kill 7\n",
}
V1, V2 = "sys/fs/cgroup/memory", "sys/fs/cgroup"
PLACES: dict[str, tuple[dict[str, str], str, str]] = {
    "a group of version 2": (
        {
            "proc/self/cgroup": "0::/pod/box\n",
            f"{V2}/pod/box/memory.events": "max 80\noom 3\noom_kill %d\n",
            f"{V2}/pod/box/memory.max": "max\n",
            f"{V2}/pod/memory.max": f"{2 * GIB}\n",
        },
        f"{V2}/pod/box/memory.events",
        "the cgroup of this program may have 2.0 GiB",
    ),
    "a group of version 1, beside version 2": (
        {
            "proc/self/cgroup": "4:cpu:/\n3:rdma,memory:/box\n0::/\n",
            f"{V1}/box/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill %d\n",
            f"{V1}/box/memory.limit_in_bytes": f"{GIB // 2}\n",
            f"{V1}/memory.limit_in_bytes": "9223372036854771712\n",
        },
        f"{V1}/box/memory.oom_control",
        "the cgroup of this program may have 0.5 GiB",
    ),
    "a group whose path is that of the host": (
        {
            "proc/self/cgroup": "3:memory:/docker/3f2a\n",
            f"{V1}/memory.oom_control": "oom_kill %d\n",
            f"{V1}/memory.limit_in_bytes": f"{GIB}\n",
        },
        f"{V1}/memory.oom_control",
        "the cgroup of this program may have 1.0 GiB",
    ),
    "no group": (
        {"proc/self/cgroup": "0::/\n", "proc/vmstat": "nr_free 9\noom_kill %d\n"},
        "proc/vmstat",
        "the machine has 8.0 GiB",
    ),
}


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize("place", PLACES)
def test_a_count_that_has_gone_up_says_that_memory_ran_out(place: str, tmp_path: Path) -> None:
    files, counted, limit = PLACES[place]
    write(tmp_path, MEMORY | files)
    write(tmp_path, {counted: files[counted] % 4})
    root = str(tmp_path)
    before = ended_by_the_kernel(root)
    assert before == 4
    assert why_killed(before, root) == "", "another process has killed it"
    write(tmp_path, {counted: files[counted] % 5})
    assert f"memory ran out, and the kernel has ended processes since this one began: {limit};" in why_killed(
        before, root
    )


def test_where_the_kernel_tells_nothing_it_may_have_been_memory(tmp_path: Path) -> None:
    assert ended_by_the_kernel(str(tmp_path)) is None
    assert why_killed(None, str(tmp_path)) == " (the kernel does that when memory runs out)"


@pytest.fixture
def group() -> Iterator[Path]:
    """A new memory cgroup of 512 MiB.

    The kernel adds ``oom_score_adj`` as a share of the limit. In a small group it would choose the program, which has
    loaded much more, before its worker.
    """
    inside = dict(line.split(":")[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    mount, name, limit = (V1, "memory", "memory.limit_in_bytes") if "memory" in inside else (V2, "", "memory.max")
    folder = Path("/", mount, inside.get(name, "/").strip("/"), f"loader2-{uuid4().hex}")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here, so no process was killed for lack of memory: {error}")
    try:
        try:
            (folder / limit).write_text(str(512 << 20))
        except OSError as error:
            pytest.skip(
                f"no cgroup with a limit can be made here, so no process was killed for lack of memory: {error}"
            )
        yield folder
    finally:
        folder.rmdir()


PROGRAM = """
import sys
from datapipes.errors import WorkerDied
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

def eat(x):
    if x == 7:
        open("/proc/self/oom_score_adj", "w").write("1000")  # this one, and not the program
        eaten = []
        while True:
            eaten.append(bytearray(b"x") * (1 << 20))
    return x

open(sys.argv[1], "w").write("0")
graph = IterableWrapper(range(100)).sharding_filter().map(eat)
service = MultiProcessingReadingService(2, multiprocessing_context="fork", arena_bytes=1 << 20)
with DataLoader2(graph, reading_service=service) as dl:
    try:
        list(dl)
    except WorkerDied as error:
        print(error)
"""


def test_a_worker_in_a_cgroup_that_is_full_is_said_to_have_taken_too_much(group: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(group / "cgroup.procs")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert said.stdout.startswith("worker 1 (process "), said
    assert "was ended by SIGKILL (memory ran out, and the kernel has ended" in said.stdout, said
    assert "the cgroup of this program may have 0.5 GiB; a smaller num_workers" in said.stdout, said


def pages_copied_by_a_collection(number: int) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_a_collection_in_a_worker_leaves_alone_what_is_inherited() -> None:
    inherited = [[number] for number in range(300_000)]  # some 7,000 pages
    graph = IterableWrapper(range(2)).sharding_filter().map(pages_copied_by_a_collection)
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(2, multiprocessing_context="fork")) as dl:
        assert max(dl) < 2000
    assert len(inherited) == 300_000
