"""poprun: start the instances, forward their output and the signals, and return their exit status.

It is written on plain processes. torch's elastic agent polls ends and log files ten times a second, may pass on half
lines, and returns no exit status. MPI would have to be installed.

- The launcher waits for events only: a signal, an instance's end, the end of output. Each wait after a failure or a
  signal has a limit: instances that do not exit within the grace time are killed.
- The status is 0 if it is 0 for all instances, else that of the first one that failed, or 128 + n after signal n.
- All instances are one process group. Its leader, a shell that ignores the forwarded signals, waits for the launcher's
  end and then kills the group. So no instance, and no process that one started, outlives the launcher.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from time import monotonic

from reading_services.ipu.poprun.arguments import LaunchPlan, parse
from reading_services.ipu.poprun.output import Carrier


def variables(plan: LaunchPlan, instance: int, rendezvous: str) -> dict[str, str]:
    """Return the environment of one instance: the launcher's own, and variables with the instance's number.

    MPI's names are set too: plain ``poptorch.Options`` reads its process number from them.
    """
    each, index, instances = str(plan.replicas_of_each), str(instance), str(plan.instances)
    added = {
        "POPDIST_NUM_TOTAL_REPLICAS": str(plan.replicas),
        "POPDIST_NUM_LOCAL_REPLICAS": each,
        "POPDIST_NUM_IPUS_PER_REPLICA": str(plan.ipus_per_replica),
        "POPDIST_REPLICA_INDEX_OFFSET": str(instance * plan.replicas_of_each),
        "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE": "1",
        "POPDIST_LOCAL_INSTANCE_INDEX": index,
        "POPDIST_RENDEZVOUS": rendezvous,
        "OMPI_COMM_WORLD_SIZE": instances,
        "OMPI_COMM_WORLD_RANK": index,
        "OMPI_COMM_WORLD_LOCAL_SIZE": instances,
        "OMPI_COMM_WORLD_LOCAL_RANK": index,
        "PYTHONUNBUFFERED": "1",
    }
    if plan.cache is not None:
        added["POPTORCH_CACHE_DIR"] = plan.cache
    # All instances are on this host; its own name may not resolve to an address that they can connect to.
    return {"GLOO_SOCKET_IFNAME": "lo", **os.environ, **added, **plan.variables}


def topology(plan: LaunchPlan) -> str:
    """Return the replicas of each instance, as a table."""
    each = plan.replicas_of_each
    rows = [("host", "ILD", "instance", "replicas", "IPUs")]
    for instance in range(plan.instances):
        first, end = instance * each, (instance + 1) * each
        ipus = _span(first * plan.ipus_per_replica, end * plan.ipus_per_replica)
        rows.append((socket.gethostname(), "0", str(instance), _span(first, end), ipus))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def _span(first: int, end: int) -> str:
    return str(first) if end - first == 1 else f"{first}-{end - 1}"


FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InstanceGroup:
    """The process group of the instances."""

    def __init__(self) -> None:
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
        try:  # the shell inherits blocked signals; signals to the launcher are delivered after this block
            self._leader = subprocess.Popen(
                ["/bin/sh", "-c", "read -r _; kill -9 0"], stdin=subprocess.PIPE, process_group=0
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)

    def start(
        self, command: Sequence[str], env: Mapping[str, str], stdin: int | None, out: int, err: int
    ) -> subprocess.Popen[bytes]:
        """Start a process in the group, and return it."""
        return subprocess.Popen(command, env=env, stdin=stdin, stdout=out, stderr=err, process_group=self._leader.pid)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the group."""
        with suppress(ProcessLookupError):
            os.killpg(self._leader.pid, number)

    def end(self) -> None:
        """Kill all processes of the group."""
        self.signal(signal.SIGKILL)
        self._leader.wait()
        assert self._leader.stdin is not None
        self._leader.stdin.close()


GRACE = 10.0
"""Seconds between a signal to the instances and their kill."""
_LAST_WORDS = 1.0
"""Least number of seconds for writing the last output."""
_DONE = 0
"""Byte that the output thread sends at its end; all other bytes are numbers of signals."""


def main(words: Sequence[str] | None = None, grace: float = GRACE) -> int:
    """Run the command and return the exit status. Instances get ``grace`` seconds to exit after a signal."""
    plan = parse(sys.argv[1:] if words is None else words)
    if plan.topology:
        sys.stdout.write(topology(plan))
        sys.stdout.flush()
    with _events() as (events, notify):
        return _Launch(plan, grace, events, notify).run()


@contextmanager
def _events() -> Iterator[tuple[int, int]]:
    """Return both ends of a pipe that receives a byte for each signal: its number."""
    reads, writes = os.pipe()
    for end in (reads, writes):
        os.set_blocking(end, False)
    kept = {number: signal.getsignal(number) for number in (*FORWARDED, signal.SIGCHLD)}
    before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    try:
        for number, handler in kept.items():
            if handler != signal.SIG_IGN or number == signal.SIGCHLD:  # a signal that nohup ignores stays ignored
                signal.signal(number, lambda *_: None)
        yield reads, writes
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)


class _Launch:
    """One run of all instances."""

    def __init__(self, plan: LaunchPlan, grace: float, events: int, notify: int) -> None:
        self._plan = plan
        self._grace = grace
        self._events = events
        self._notify = notify
        self._carrier = Carrier()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._status = 0
        self._was_signalled = False
        self._until: float | None = None
        """Time at which signalled instances are killed; None before the first signal."""

    def run(self) -> int:
        group = InstanceGroup()
        meeting = os.memfd_create("rendezvous")  # the instances' rendezvous; it disappears with the launcher
        try:
            try:
                for number in range(self._plan.instances):
                    self._start(group, number, f"file:///proc/{os.getpid()}/fd/{meeting}")
            except OSError as error:
                self._carrier.say(f"Error: {self._plan.command[0]} cannot be started: {error.strerror}")
                self._status = 127 if isinstance(error, FileNotFoundError) else 126
            self._carrier.start(self._notify)
            if self._status == 0:
                self._wait_for_instances(group)
        finally:
            group.end()
            for process in self._running.values():
                process.wait()
            os.close(meeting)
        self._carrier.finish()
        self._wait_for_output()
        return self._status

    def _start(self, group: InstanceGroup, number: int, rendezvous: str) -> None:
        hidden = self._plan.shown not in (None, number)
        pipes = {
            name: subprocess.DEVNULL if hidden else self._carrier.pipe(f"[1,{number}]<{name}>:", sink)
            for name, sink in (("stdout", 1), ("stderr", 2))
        }
        env = variables(self._plan, number, rendezvous)
        added = " ".join(f"{name}={value}" for name, value in env.items() if os.environ.get(name) != value)
        self._log("D", f"instance {number} gets {added}")
        # The first instance reads the launcher's input, unless that is a terminal: only its foreground group may read.
        stdin = None if number == 0 and not os.isatty(0) else subprocess.DEVNULL
        try:
            self._running[number] = group.start(self._plan.command, env, stdin, pipes["stdout"], pipes["stderr"])
        finally:
            for pipe in pipes.values():
                if pipe >= 0:
                    os.close(pipe)
        self._log("I", f"instance {number} is process {self._running[number].pid}")

    def _wait_for_instances(self, group: InstanceGroup) -> None:
        with selectors.DefaultSelector() as events:
            events.register(self._events, selectors.EVENT_READ)
            self._look_who_ended(group)
            killed = False
            while self._running:
                left = None if self._until is None or killed else self._until - monotonic()
                if left is not None and left <= 0:
                    self._log("I", f"instances {', '.join(map(str, self._running))} did not exit and are killed")
                    group.signal(signal.SIGKILL)
                    killed, left = True, None
                if not events.select(left):
                    continue
                for number in set(os.read(self._events, 4096)) & set(FORWARDED):
                    self._forward(group, signal.Signals(number))
                self._look_who_ended(group)

    def _forward(self, group: InstanceGroup, number: signal.Signals) -> None:
        """Forward a signal to all instances. After a second one they are killed at once."""
        self._log("I", f"{number.name} is forwarded to all instances")
        group.signal(number)
        self._was_signalled = True
        self._until = monotonic() + (self._grace if self._until is None else 0)
        self._status = 128 + number

    def _look_who_ended(self, group: InstanceGroup) -> None:
        for number, process in list(self._running.items()):
            if (code := process.poll()) is None:
                continue
            del self._running[number]
            self._log("I", f"instance {number} ended with {code}")
            if code != 0 and self._until is None and self._status == 0:
                self._status = code if code > 0 else 128 - code
                how = f"ended with status {code}" if code > 0 else f"was killed by {_name_of(-code)}"
                others = "; the remaining ones are terminated" if self._running else ""
                self._carrier.say(f"Error: instance {number} (process {process.pid}) {how}{others}")
                group.signal(signal.SIGTERM)
                self._until = monotonic() + self._grace

    def _wait_for_output(self) -> None:
        """Wait until all output is written. After a signal, give up if the output is not read in time."""
        with selectors.DefaultSelector() as events:
            events.register(self._events, selectors.EVENT_READ)
            until = max(self._until or 0.0, monotonic() + _LAST_WORDS)
            while events.select(until - monotonic() if self._was_signalled else None):
                came = set(os.read(self._events, 4096))
                if stop := came & set(FORWARDED):
                    self._status = 128 + min(stop)
                if stop or _DONE in came:
                    return

    def _log(self, level: str, text: str) -> None:
        if self._plan.verbosity >= (2 if level == "D" else 1):
            time = datetime.now().strftime("%H:%M:%S.%f")[:-3]
            self._carrier.say(f"{time} {os.getpid()} POPRUN [{level}] {text}")


def _name_of(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:  # a real-time signal
        return f"signal {number}"
