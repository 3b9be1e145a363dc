"""The engine's process on a machine of the cluster: it starts a member, and reports the member's end.

It is sent there by value, so it imports Python's standard library only. It reports if this library is missing on the
machine. The member ends with this process, even if the process is stopped: the kernel kills it.
"""

from __future__ import annotations

from typing import Any


def agent() -> type:
    """Return the class. It is made in a function, so that it is pickled by value."""

    class Agent:
        def __init__(self) -> None:
            import threading

            self._child: Any = None
            self._started = threading.Event()
            self._stacks = -1

        def run(self, spec: dict[str, Any]) -> dict[str, Any]:
            """Start the member, wait for its end, and return a report of the end."""
            import importlib.util
            import json
            import os
            import subprocess
            import sys

            if importlib.util.find_spec("reading_services") is None:
                where = f"{sys.executable} (Python {sys.version.split()[0]}) on {self._here()['host']}"
                return {"missing": f"{where} has no loader2"}
            self._stacks, record = os.memfd_create("stacks"), os.memfd_create("at work")
            os.truncate(record, spec["record"])
            self._child = subprocess.Popen(
                [sys.executable, "-c", "from reading_services.cluster.member import main; main()"],
                stdin=subprocess.PIPE,
                pass_fds=(self._stacks, record),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            job = {**spec, **self._here(), "stacks": self._stacks, "record": record, "agent": os.getpid()}
            try:
                self._child.communicate(json.dumps(job).encode())
            except BrokenPipeError:
                self._child.wait()
            crash = os.pread(self._stacks, 1 << 14, 0).decode(errors="replace").strip()
            return {"code": self._child.returncode, "crash": crash, "record": os.pread(record, spec["record"], 0)}

        def _here(self) -> dict[str, str]:
            import ray
            from ray.util import get_node_ip_address

            machine, host = ray.get_runtime_context().get_node_id(), get_node_ip_address()
            return {"machine": machine, "host": host, "where": f"node {host} ({machine[:8]})"}

        def stacks(self) -> str:
            """Return the member's stack, which it writes at SIGUSR1."""
            import os
            import signal
            import time

            if self._child is None or self._child.poll() is not None:
                return "(it does not run)"
            before = size = os.fstat(self._stacks).st_size
            self._child.send_signal(signal.SIGUSR1)
            until = time.monotonic() + 0.5
            while time.monotonic() < until and (size == before or size != os.fstat(self._stacks).st_size):
                size = os.fstat(self._stacks).st_size
                self._started.wait(0.02)
            return os.pread(self._stacks, 1 << 16, before).decode(errors="replace") or "(it did not answer)"

    return Agent
