"""Programs with an accessor that end, in whichever way: nothing hangs, no process is left, nothing odd is printed."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
PATIENCE = 300.0

SCRIPT = """
import os, sys, threading
import torch
import reading_services.ipu as poptorch
from tests.reading_services.ipu.host.datasets import Numbers, Stream

def main(strategy, workers, end):
    options = {"sharing_strategy": poptorch.SharingStrategy[strategy]}
    loader = poptorch.DataLoader(poptorch.Options(), Stream(40), 2, num_workers=workers,
                                 mode=poptorch.DataLoaderMode.Async, async_options=options)
    steps = iter(loader)
    next(steps)
    try:
        print(loader._accessor._feed.pid, flush=True)
        if end == "wait":
            sys.stdin.readline()
        elif end == "error":
            raise ZeroDivisionError
        elif end == "interrupt":
            threading.Event().wait()
    except KeyboardInterrupt:
        os._exit(5)

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
"""


@contextmanager
def program(tmp_path: Path, *arguments: str, script: str = SCRIPT) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A program in a session of its own, and the number of the process that it names; all are killed in the end."""
    file = tmp_path / "script.py"
    file.write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POPTORCH_LOG_LEVEL": "ERR"}
    begun = subprocess.Popen(
        [sys.executable, "-W", "ignore", file, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        assert begun.stdout is not None
        yield begun, int(begun.stdout.readline())
    finally:
        with suppress(ProcessLookupError):
            os.killpg(begun.pid, signal.SIGKILL)
        begun.communicate()


def gone(pid: int) -> bool:
    """Whether a process ends within the tests' patience."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(fd) as watched:
        ready, _, _ = select.select([watched], [], [], PATIENCE)
    return bool(ready)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(("strategy", "workers"), [("SharedMemory", "0"), ("Fork", "2"), ("ForkServer", "2")])
def test_leaving_in_mid_epoch_leaves_nobody(tmp_path: Path, strategy: str, workers: str) -> None:
    with program(tmp_path, strategy, workers, "leave") as (begun, pid):
        out, err = begun.communicate(timeout=PATIENCE)
        assert (begun.returncode, out, err) == (0, "", "")
        assert gone(pid)


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace('if __name__ == "__main__":', "if True:"))
    command = [sys.executable, "-W", "ignore", str(script), "SharedMemory", "0", "leave"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert re.search("worker thread failed to start: .*put what does so below", done.stderr)


def test_an_error_in_mid_epoch_is_all_that_is_said(tmp_path: Path) -> None:
    with program(tmp_path, "Fork", "0", "error") as (begun, pid):
        _, err = begun.communicate(timeout=PATIENCE)
        assert begun.returncode == 1
        assert err.rstrip().endswith("ZeroDivisionError")
        assert gone(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_signal_ends_the_accessor_and_not_by_the_programs_handler(
    tmp_path: Path, workers: str, number: signal.Signals
) -> None:
    handles = SCRIPT.replace("import torch\n", HANDLES, 1)
    with program(tmp_path, "Fork", workers, "wait", script=handles) as (begun, pid):
        below = children_of(pid)
        assert len(below) == int(workers)
        os.kill(pid, number)
        assert all(map(gone, [pid, *below]))
        begun.kill()
        out, _ = begun.communicate(timeout=PATIENCE)
        assert out == ""


HANDLES = """
import signal
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda *_: print("the program's handler", flush=True))
"""


@pytest.mark.parametrize(("strategy", "workers"), [("Fork", "2"), ("ForkServer", "0")])
def test_who_is_killed_takes_the_accessor_along(tmp_path: Path, strategy: str, workers: str) -> None:
    with program(tmp_path, strategy, workers, "wait") as (begun, pid):
        below = children_of(pid)
        assert len(below) == int(workers)
        begun.kill()
        assert all(map(gone, [begun.pid, pid, *below]))


def without_torchs_sharer(err: str) -> str:
    """Drop the traceback of a worker of torch's that was giving a tensor to a process which Ctrl-C had ended."""
    return re.sub(r"Traceback .*?\n(?=\S)[\w.]+Error.*?\n", _unless_of_the_sharer, err, flags=re.DOTALL)


def _unless_of_the_sharer(trace: re.Match[str]) -> str:
    return "" if "multiprocessing/resource_sharer.py" in trace[0] else trace[0]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_ctrl_c_is_quiet_and_is_the_programs_to_answer(tmp_path: Path, workers: str) -> None:
    with program(tmp_path, "Fork", workers, "interrupt") as (begun, pid):
        os.killpg(begun.pid, signal.SIGINT)
        out, err = begun.communicate(timeout=PATIENCE)
        assert (begun.returncode, out, without_torchs_sharer(err)) == (5, "", "")
        assert gone(pid)


SPAWNING = """
import multiprocessing, os, sys, threading
import reading_services.ipu as poptorch
from tests.reading_services.ipu.host.datasets import Stream

class Slow(Stream):
    def __setstate__(self, state):
        self.__dict__.update(state)
        if multiprocessing.current_process().name.startswith("Process-"):
            print(os.getpid(), flush=True)
            threading.Event().wait()

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    try:
        poptorch.DataLoader(poptorch.Options(), Slow(40), 2, num_workers=1, mode=poptorch.DataLoaderMode.Async)
    except KeyboardInterrupt:
        os._exit(5)
"""


def test_ctrl_c_while_a_worker_of_the_accessor_is_starting(tmp_path: Path) -> None:
    with program(tmp_path, script=SPAWNING) as (begun, worker):
        status = Path(f"/proc/{worker}/status").read_text()
        deaf = [int(mask, 16) >> (signal.SIGINT - 1) & 1 for mask in re.findall(r"Sig(?:Blk|Ign):\s*(\w+)", status)]
        assert any(deaf)  # it might say what it was importing before it is ended
        os.killpg(begun.pid, signal.SIGINT)
        assert begun.communicate(timeout=PATIENCE) == ("", "")
        assert begun.returncode == 5
        assert gone(worker)


def test_the_child_first_then_the_parent(tmp_path: Path) -> None:
    with program(tmp_path, "ForkServer", "0", "interrupt") as (begun, pid):
        os.kill(pid, signal.SIGINT)
        assert gone(pid)
        begun.send_signal(signal.SIGINT)
        assert begun.communicate(timeout=PATIENCE) == ("", "")
        assert begun.returncode == 5
