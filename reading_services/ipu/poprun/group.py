"""One process group for all instances, so that none of them, and nothing that they started, is left behind.

Its leader is a shell that does nothing but wait for the launcher's end, however that comes, and then kills the group.
It is deaf to the signals that are forwarded to the group.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Group:
    """The process group of the instances."""

    def __init__(self) -> None:
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
        try:  # the shell keeps the signals blocked; those that come for the launcher now are delivered below
            self._leader = subprocess.Popen(
                ["/bin/sh", "-c", "read -r _; kill -9 0"], stdin=subprocess.PIPE, process_group=0
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)

    def start(
        self, command: Sequence[str], env: Mapping[str, str], stdin: int | None, out: int, err: int
    ) -> subprocess.Popen[bytes]:
        """Start a process in the group."""
        return subprocess.Popen(command, env=env, stdin=stdin, stdout=out, stderr=err, process_group=self._leader.pid)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the group."""
        with suppress(ProcessLookupError):
            os.killpg(self._leader.pid, number)

    def end(self) -> None:
        """Kill whoever is left."""
        self.signal(signal.SIGKILL)
        self._leader.wait()
        assert self._leader.stdin is not None
        self._leader.stdin.close()
