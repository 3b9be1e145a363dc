"""The faults that workers must bear: ``python -m tests.faults`` tries all and prints a table.

Every case is a program of its own (``tests.fault_cases``), bounded in time. Afterwards nothing of it may be left: no
process, known by a mark in its environment, and nothing in the folder of shared memory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic

from tests.fault_cases import CASES

METHODS = ("fork", "spawn", "forkserver")
_MARK = "LOADER2_FAULT"
_LEAVING = 3.0  # seconds in which what a program left behind may still go by itself
_TRACEBACK = 20  # lines
_AROUND = {
    "64 file descriptors": ["prlimit", "--nofile=64"],
    "a tiny /dev/shm": [
        *("unshare", "--mount", *(["--map-root-user"] if os.geteuid() else []), "sh", "-c"),
        *('mount -t tmpfs -o size=64k none /dev/shm && exec "$@"', "sh"),
    ],
}
"""What a case is run by, if it is not run by itself."""
_PAUSES = {"Ctrl-C": [0.5], "Ctrl-C at the start": [0.02], "Ctrl-C twice, and workers that are stuck": [0.5, 0.3]}
"""Seconds before each."""


@dataclass(frozen=True)
class Outcome:
    """How a case went."""

    problem: str
    seconds: float
    leftovers: tuple[str, ...]

    @property
    def fine(self) -> bool:
        """Whether all went as it should."""
        return not self.problem and not self.leftovers


def tried(name: str, method: str) -> Outcome:
    """Run a case."""
    mark = uuid.uuid4().hex
    memory = set(_shared_memory())
    started = monotonic()
    program = subprocess.Popen(
        [*_AROUND.get(name, []), sys.executable, "-m", "tests.fault_cases", name, method],
        env={**os.environ, _MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        problem = _watched(name, program)
    except subprocess.TimeoutExpired:
        problem = "it did not end"
    finally:
        seconds = monotonic() - started
        if program.poll() is None:
            program.kill()
            program.communicate()
    left = _left(mark, memory)
    return Outcome(problem, seconds, left)


def _watched(name: str, program: subprocess.Popen[str]) -> str:
    """What is wrong with a program's end."""
    seconds = CASES[name][1] + 10
    assert program.stdout is not None
    if name.startswith("Ctrl-C"):
        program.stdout.readline()
        for pause in _PAUSES[name]:
            Event().wait(pause)
            os.killpg(program.pid, signal.SIGINT)
        _, errors = program.communicate(timeout=seconds)
        lines = [line for line in errors.strip().splitlines() if "<frozen runpy>" not in line]
        if program.returncode != -signal.SIGINT or "KeyboardInterrupt" not in errors:
            return f"exit code {program.returncode}: {errors[-300:]}"
        if errors.count("Traceback") != 1 or len(lines) > _TRACEBACK:
            return f"{errors.count('Traceback')} tracebacks in {len(lines)} lines: {errors}"
        return ""
    if name == "the parent is killed":
        program.stdout.readline()
        program.kill()
        program.communicate(timeout=seconds)
        return ""
    _, errors = program.communicate(timeout=seconds)
    return "" if program.returncode == 0 else f"exit code {program.returncode}: {errors.strip()[-1500:]}"


def _left(mark: str, memory: set[str]) -> tuple[str, ...]:
    until = monotonic() + _LEAVING
    while True:
        found = [*_processes(mark), *_forgotten(set(_shared_memory()) - memory)]
        if not found or monotonic() > until:
            break
        Event().wait(0.05)
    for pid in _processes(mark):
        os.kill(int(pid.split()[1]), signal.SIGKILL)
    return tuple(found)


def _shared_memory() -> list[str]:
    """What torch and multiprocessing keep in the folder of shared memory."""
    return [name for name in os.listdir("/dev/shm") if name.startswith(("torch_", "psm_", "sem.", "pym-"))]


def _forgotten(names: set[str]) -> list[str]:
    """Those of these files that no living process has mapped: others on this machine have theirs in the same folder."""
    for maps in Path("/proc").glob("[0-9]*/maps") if names else ():
        with suppress(OSError):  # it has ended, or is somebody else's
            lines = maps.read_text(errors="replace").splitlines()
            names = names - {line.rpartition("/dev/shm/")[2] for line in lines if "/dev/shm/" in line}
    return [f"/dev/shm/{name}" for name in sorted(names)]


def _processes(mark: str) -> list[str]:
    """The processes that still run and have this mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if "resource_tracker" not in command and "forkserver import" not in command:
                    found.append(f"process {folder.name} {command:.80}")
        except OSError:
            continue
    return found


def main(asked: list[str]) -> int:
    """Print the table; 1 if a case went wrong."""
    wrong = 0
    print(f"{'case':<44}{'start':<12}{'outcome':<10}{'seconds':>8}  leftovers")
    for name in CASES:
        for method in METHODS:
            if asked and name not in asked and method not in asked:
                continue
            outcome = tried(name, method)
            wrong += not outcome.fine
            word = "FAILED" if outcome.problem else "ok"
            print(
                f"{name:<44}{method:<12}{word:<10}{outcome.seconds:>8.1f}  {', '.join(outcome.leftovers) or 'none'}",
                flush=True,
            )
            if outcome.problem:
                print("    " + outcome.problem.replace("\n", "\n    "))
    print(f"\n{wrong} went wrong" if wrong else "\nNone went wrong.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
