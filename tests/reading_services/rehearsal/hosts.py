"""Two hosts on one machine: network namespaces with a wire between them, and nothing of them left afterwards.

A play is a module that is run as the first process of a namespace of its own, of processes, mounts and networks. So its
names meet nobody's (the hosts of two plays may be called the same), and all its processes end with it, when the kernel
closes the namespace: at its end, when it takes too long, or when the test that started it is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.reading_services.rehearsal.programs import ended
from tests.reading_services.rehearsal.wire import Wire

_OWN = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def played(module: str, *arguments: str, seconds: float) -> str:
    """Run a play; all that it said. A play that fails, or takes longer, fails the test; one that cannot be skips it."""
    needs_hosts()
    return ended([*_stage(), sys.executable, "-X", "faulthandler", "-m", module, *arguments], seconds, signal.SIGKILL)


def needs_hosts() -> None:
    """Skip this test where no hosts can be made; pytest tells of it, with the reason, behind all tests."""
    if why := nowhere():
        pytest.skip(f"no two hosts can be made here, so nothing was rehearsed: {why}")


@cache
def nowhere() -> str:
    """Why no hosts can be made here; empty if they can."""
    probe = "mount -t tmpfs tmpfs /run && ip netns add a && ip link add eth0 netns a type veth peer name a"
    try:
        tried = subprocess.run([*_stage(), "sh", "-c", probe], capture_output=True, text=True, timeout=300)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if tried.returncode == 0 else tried.stderr.strip() or f"exit code {tried.returncode}"


def _stage() -> list[str]:
    return _OWN if os.geteuid() == 0 else [*_OWN, "--map-root-user"]


@dataclass(frozen=True)
class Host:
    """A host of a play, and its address."""

    name: str
    address: str

    def start(self, *command: str, said: Path, **environment: str) -> subprocess.Popen[bytes]:
        """A program on this host; what it says goes to a file."""
        with said.open("wb") as out:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.name, *command],
                env={**os.environ, "GLOO_SOCKET_IFNAME": "eth0", **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def second_network(self, interface: str, other: Host) -> str:
        """Another interface of this host, on a network that the other host reaches through this one; its address."""
        address = "10.88.0.1"
        _ip("-n", self.name, "link", "add", interface, "type", "veth", "peer", "name", f"{interface}-end")
        _ip("-n", self.name, "address", "add", f"{address}/24", "dev", interface)
        for each in (interface, f"{interface}-end"):
            _ip("-n", self.name, "link", "set", each, "up")
        _ip("-n", other.name, "route", "add", "10.88.0.0/24", "via", self.address)
        return address

    def unplug(self) -> None:
        """Pull the cable out of this host."""
        _ip("link", "set", f"port-{self.name}", "down")


@contextmanager
def two_hosts(delay: float = 0.0, loss: float = 0.0) -> Iterator[tuple[Host, Host, Wire]]:
    """Two hosts and the wire between them; to be called in a play, once."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)  # where ip keeps the names
    hosts = Host("a", "10.77.0.1"), Host("b", "10.77.0.2")
    for host in hosts:
        _ip("netns", "add", host.name)
        _ip("link", "add", "eth0", "netns", host.name, "type", "veth", "peer", "name", f"port-{host.name}")
        _ip("link", "set", f"port-{host.name}", "up")
        _ip("-n", host.name, "link", "set", "lo", "up")
        _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
        _ip("-n", host.name, "link", "set", "eth0", "up")
    wire = Wire("port-a", "port-b", delay, loss)
    try:
        yield *hosts, wire
    finally:
        wire.close()


def still_there() -> list[str]:
    """The commands of all other processes of this play that have not ended."""
    return [command for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if (command := _command(pid))]


def _command(pid: int) -> str:
    if pid == os.getpid():
        return ""
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )  # none of a zombie
    except OSError:  # it has ended meanwhile
        return ""


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
