"""The faults that workers must bear: ``python -m tests.faults`` tries all and prints a table.

The cases (``tests.faults.cases``) are run by programs, bounded in time: one program runs one case after the other, and
those that end their program or limit it have one of their own. After each case nothing of it may be left: no process,
known by a mark in its environment, and nothing in the folder of shared memory, of which each program has its own.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from loader2.testing.ending import ended
from tests.faults.cases import ALONE, CASES

METHODS = ("fork", "spawn", "forkserver")
_MARK = "LOADER2_FAULT"
_LEAVING = 120.0  # seconds in which what a program left behind may still go by itself: it may be importing torch
_TRACEBACK = 20  # lines
_SERVERS = ("resource_tracker", "forkserver import")
"""What multiprocessing keeps until the program ends, by words of their commands."""
_OWN_MEMORY = [
    *("unshare", "--mount", "--propagation", "unchanged", *(["--map-root-user"] if os.geteuid() else []), "sh", "-c"),
    # No other process may see the mount. Where the root is none itself, as in a chroot, the folder of devices is.
    """
    { mount --make-rprivate / || mount --make-rprivate /dev; } 2>/dev/null
    mount -t tmpfs -o size="$1" none /dev/shm && shift && echo && exec "$@"
    """,
    "sh",
]
"""Runs a program, behind an empty line, with a folder of shared memory of the size that comes first."""
_SIZES = {"a tiny /dev/shm": "64k"}
_LIMITS = {"64 file descriptors": ["prlimit", "--nofile=64"]}
_SIGNALS = {"Ctrl-C": 1, "Ctrl-C at the start": 1, "Ctrl-C twice, and workers that are stuck": 2}
"""How often: each time that the program has written a line, which says that it stands where it should."""


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


class Program:
    """Runs cases with one way to start workers; it begins with the first one, and anew behind one that ended it."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._running: _Running | None = None

    def tried(self, name: str) -> Outcome:
        """Run a case, in a program of its own if it needs one."""
        started = monotonic()
        if name in ALONE:
            program = [*_LIMITS.get(name, []), sys.executable, "-m", "tests.faults.cases", self._method, name]
            running = _Running(program, _SIZES.get(name, "50%"))
            problem = running.watched(name)
            return Outcome(problem, monotonic() - started, running.end())
        if self._running is None:
            self._running = _Running([sys.executable, "-m", "tests.faults.cases", self._method], "50%")
        running = self._running
        problem = running.asked(name)
        seconds = monotonic() - started
        if not problem:
            return Outcome(problem, seconds, running.left(_SERVERS))
        self._running = None
        return Outcome(problem, seconds, running.end())

    def close(self) -> None:
        """End the program that runs case after case."""
        if self._running is not None:
            left = self._running.end()
            self._running = None
            assert not left, f"left behind when all was over: {left}"


class _Running:
    """A program that runs, by a command."""

    def __init__(self, command: list[str], memory: str) -> None:
        self._mark = uuid.uuid4().hex
        self._errors = os.memfd_create("errors")
        self._process = subprocess.Popen(
            [*_OWN_MEMORY, memory, *command],
            env={**os.environ, _MARK: self._mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._lines = self._process.stdin, self._process.stdout
        assert self._line(_LEAVING), f"there is no memory of its own: {self._said()}"
        # It shows what is there also when the last process that could see it has ended.
        self._memory = os.open(Path("/proc", str(self._process.pid), "root", "dev/shm"), os.O_RDONLY | os.O_DIRECTORY)
        self._before: set[str] = set()

    def asked(self, name: str) -> str:
        """The complaint about one of several cases."""
        with suppress(BrokenPipeError):  # it has ended, and says so below
            self._orders.write(f"{name}\n".encode())
            self._orders.flush()
        line = self._line(CASES[name][1] + 10)
        if not line:
            return f"the program ended or hangs: {self._said()}"
        problem: str = json.loads(line)
        return problem

    def watched(self, name: str) -> str:
        """The complaint about the end of a program that runs one case."""
        seconds = CASES[name][1] + 10
        for _ in range(_SIGNALS.get(name, name == "the parent is killed")):
            if not self._line(seconds):
                return f"it did not get to where it should be interrupted: {self._said()}"
            if name in _SIGNALS:
                os.killpg(self._process.pid, signal.SIGINT)
            else:
                self._process.kill()
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"it did not end: {self._said()}"
        if name == "the parent is killed":
            return ""
        if name not in _SIGNALS:
            return "" if code == 0 else f"exit code {code}: {self._said()}"
        said = self._said()
        lines = [line for line in said.splitlines() if "<frozen runpy>" not in line]
        if code != -signal.SIGINT or "KeyboardInterrupt" not in said:
            return f"exit code {code}: {said}"
        if said.count("Traceback") != 1 or len(lines) > _TRACEBACK:
            return f"{said.count('Traceback')} tracebacks in {len(lines)} lines: {said}"
        return ""

    def _line(self, seconds: float) -> bytes:
        """The next line that it writes; nothing if it ends, or writes nothing for so long."""
        end = os.pidfd_open(self._process.pid)
        try:
            readable, _, _ = select.select([self._lines.fileno(), end], [], [], seconds)
        finally:
            os.close(end)
        return self._lines.readline() if self._lines.fileno() in readable else b""

    def _said(self) -> str:
        """The end of what it wrote as errors."""
        return os.pread(self._errors, 1 << 20, 0).decode(errors="replace").strip()[-3000:]

    def left(self, but: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Leftovers of a case that is over, beside what was there before; the processes are ended."""
        until = monotonic() + _LEAVING
        found = []
        for pid, command in _processes(self._mark):
            expected = pid == self._process.pid or any(word in command for word in but)
            if not expected and not ended(pid, max(0.0, until - monotonic())):
                found.append(f"process {pid} {command:.80}")
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        before, self._before = self._before, set(os.listdir(self._memory))
        return *found, *(f"/dev/shm/{name}" for name in sorted(self._before - before))

    def end(self) -> tuple[str, ...]:
        """End it, if it has not ended; what it left behind."""
        self._orders.close()  # it runs no further case
        try:
            self._process.wait(_LEAVING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        try:
            return self.left()
        finally:
            self._lines.close()
            os.close(self._errors)
            os.close(self._memory)


def _processes(mark: str) -> Iterator[tuple[int, str]]:
    """The processes that still run and have this mark in their environment, with their commands."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to another user
            if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                yield int(folder.name), command


def main(asked: list[str]) -> int:
    """Print the table; 1 if a case went wrong."""
    wrong = 0
    print(f"{'case':<44}{'start':<12}{'outcome':<10}{'seconds':>8}  leftovers")
    for method in METHODS:
        with closing(Program(method)) as program:
            for name in CASES:
                if asked and name not in asked and method not in asked:
                    continue
                outcome = program.tried(name)
                wrong += not outcome.fine
                word = "FAILED" if outcome.problem else "ok"
                left = ", ".join(outcome.leftovers) or "none"
                print(f"{name:<44}{method:<12}{word:<10}{outcome.seconds:>8.1f}  {left}", flush=True)
                if outcome.problem:
                    print("    " + outcome.problem.replace("\n", "\n    "))
    print(f"\n{wrong} went wrong" if wrong else "\nNone went wrong.")
    return 1 if wrong else 0
