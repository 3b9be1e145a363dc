"""However a launch ends, it ends soon, its status tells how, and no process is left.

Each instance holds a named pipe open; when the last one has gone, whatever way, its reader comes to the end.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOON = 300  # seconds; all of it takes a fraction of one on a quiet machine
MAIN = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the tests may run where one is ignored, under nohup say
    signal.signal(number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
from reading_services.ipu.poprun.launcher import main
sys.exit(main(sys.argv[2:], float(sys.argv[1])))
"""
NO_END = 1000  # seconds of grace that no test could wait for


def command(grace: float) -> list[str]:
    return [sys.executable, "-c", MAIN, str(grace)]


class Launch:
    """A launch of two instances, and the end of the pipe that they hold."""

    def __init__(self, process: "subprocess.Popen[str]", reader: int) -> None:
        self.process = process
        self.reader = reader

    @property
    def out(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def err(self) -> IO[str]:
        assert self.process.stderr is not None
        return self.process.stderr

    def everybody_has_gone(self) -> bool:
        ready, _, _ = select.select([self.reader], [], [], SOON)
        return bool(ready) and os.read(self.reader, 1) == b""


@contextmanager
def launched(tmp_path: Path, program: str, grace: float = NO_END) -> Iterator[Launch]:
    """Start it and wait until both instances hold the pipe; `program` is of the shell."""
    held = tmp_path / "held"
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    process = subprocess.Popen(
        [
            *command(grace),
            "-v",
            "--num-instances",
            "2",
            "--num-replicas",
            "2",
            "sh",
            "-c",
            f"held={held}; exec 3>$held; {program}",
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    launch = Launch(process, reader)
    try:
        yield launch
    finally:
        process.kill()
        process.wait()
        launch.out.close()
        launch.err.close()
        os.close(reader)


TOLD = """
import signal, sys

def leave(*_):
    print("told")
    sys.exit(0)

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, leave)
print("ready")
while True:
    signal.pause()
"""


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_forwarded_to_all(tmp_path: Path, sent: signal.Signals, status: int) -> None:
    (tmp_path / "program.py").write_text(TOLD, encoding="utf-8")
    with launched(tmp_path, f"exec {sys.executable} -S {tmp_path}/program.py") as launch:
        assert sorted(launch.out.readline() for _ in range(2)) == [f"[1,{i}]<stdout>:ready\n" for i in range(2)]
        launch.process.send_signal(sent)
        out, err = launch.process.communicate(timeout=SOON)
        assert sorted(out.splitlines()) == [f"[1,{i}]<stdout>:told" for i in range(2)]
        assert launch.process.returncode == status, err
        assert launch.everybody_has_gone()


def test_a_second_signal_gives_no_more_time(tmp_path: Path) -> None:
    with launched(tmp_path, "trap '' INT; echo ready; exec sleep 300") as launch:
        assert all(launch.out.readline().endswith("ready\n") for _ in range(2))
        launch.process.send_signal(signal.SIGINT)
        assert any("SIGINT is forwarded" in line for line in launch.err)  # ends at that line
        launch.process.send_signal(signal.SIGINT)
        assert launch.process.wait(SOON) == 130
        assert launch.everybody_has_gone()


def test_nobody_outlives_a_launcher_that_was_killed(tmp_path: Path) -> None:
    with launched(tmp_path, "echo ready; sh -c 'sleep 300; echo more'; echo more") as launch:
        assert all(launch.out.readline().endswith("ready\n") for _ in range(2))
        launch.process.kill()
        assert launch.everybody_has_gone()


def test_who_left_the_group_does_not_hold_the_launcher_up(tmp_path: Path) -> None:
    """A process in a session of its own is let go, though it has the instance's output open."""
    os.mkfifo(tmp_path / "started")
    program = f"setsid sh -c 'echo $$; echo > {tmp_path}/started; exec sleep 300' & read -r _ < {tmp_path}/started"
    ran = subprocess.run(
        [*command(NO_END), "sh", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=SOON, check=False
    )
    os.kill(int(ran.stdout.removeprefix("[1,0]<stdout>:")), signal.SIGKILL)  # it is there still
    assert ran.returncode == 0


def test_whoever_reads_no_more_ends_the_instances(tmp_path: Path) -> None:
    with launched(tmp_path, "yes") as launch:
        assert launch.out.readline().endswith("<stdout>:y\n")
        launch.out.close()
        assert launch.process.wait(SOON) == 141
        assert launch.everybody_has_gone()


@pytest.mark.parametrize("grace", [0.1, NO_END])
def test_a_signal_ends_a_launcher_whose_output_nobody_reads(tmp_path: Path, grace: float) -> None:
    with launched(tmp_path, "yes", grace) as launch:
        assert launch.out.readline()  # and no more: all pipes are full soon
        launch.process.send_signal(signal.SIGTERM)
        assert launch.everybody_has_gone()
        if grace == NO_END:
            launch.process.send_signal(signal.SIGTERM)
        assert launch.process.wait(SOON) == 143
