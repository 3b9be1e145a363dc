"""A Ray cluster of several nodes on this machine, bound to loopback, that leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

os.environ |= {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # binds to loopback only, which node_ip_address does not
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # or Ray writes a token into the home folder
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
}


class Nodes:
    """The cluster: a head that runs no workers, and nodes that do."""

    def __init__(self, nodes: int) -> None:
        self._folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # a short name: sockets lie in it
        os.environ["RAY_TMPDIR"] = self._folder
        from ray.cluster_utils import Cluster

        store = {"object_store_memory": 100 << 20, "include_dashboard": False}
        self._store = store
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **store})
        self.nodes = [self.add() for _ in range(nodes)]

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self) -> Any:
        """Add a node."""
        return self.cluster.add_node(num_cpus=4, object_store_memory=100 << 20)

    def join(self) -> None:
        """Add a node to those of the workers."""
        self.nodes.append(self.add())

    def lose(self) -> None:
        """Kill the node that is there longest, with all that runs on it."""
        self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)

    def close(self) -> None:
        """End all nodes."""
        import ray

        ray.shutdown()
        self.cluster.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def nodes(number: int, **settings: str) -> Iterator[Nodes]:
    """A cluster for the block, with settings of Ray's in its environment."""
    before = dict(os.environ)
    os.environ |= settings
    try:
        cluster = Nodes(number)
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        os.environ.clear()
        os.environ |= before


def members() -> dict[int, int]:
    """Process numbers of the members that run, each with that of its agent."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as line:
            if b"reading_services.cluster.member" in line.read():
                with open(f"/proc/{pid}/stat") as stat:
                    found[int(pid)] = int(stat.read().rpartition(")")[2].split()[1])
    return found


def end(pid: int, how: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, how)


def listening() -> list[str]:
    """Addresses at which this process listens."""
    sockets = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if (target := os.readlink(f"/proc/self/fd/{fd}")).startswith("socket:["):
                sockets.add(target[8:-1])
    found = []
    for file in ("tcp", "tcp6"):
        with open(f"/proc/self/net/{file}") as table:
            for line in list(table)[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in sockets:
                    found.append(words[1])
    return found
