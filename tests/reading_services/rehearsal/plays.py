"""Scenarios on two hosts. ``python -m tests.reading_services.rehearsal.plays NAME FOLDER`` plays one.

Each host runs torchrun, and they find each other over the wire. A play asserts what it expects.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from time import monotonic

import torch

from loader2 import DataLoader2
from tests.reading_services.rehearsal import knocking, loading
from tests.reading_services.rehearsal.hosts import Host, still_there, two_hosts

RANKS = 2
"""On each host."""
LENGTH = 1003
ENDLESS = 10**9
BEGINNING = 300.0
PATIENCE = 300.0
"""Seconds, for a machine that has other things to do."""


def torchrun(hosts: tuple[Host, ...], ranks: int, folder: Path, length: int) -> list[subprocess.Popen[bytes]]:
    """Start the ranks of all hosts; the first host is where they meet."""
    return [
        host.start(
            *(sys.executable, "-m", "torch.distributed.run", f"--nnodes={len(hosts)}", f"--nproc-per-node={ranks}"),
            *("--rdzv-backend=c10d", f"--rdzv-endpoint={hosts[0].address}:29400", f"--local-addr={host.address}"),
            *(f"--rdzv-conf=is_host={int(host is hosts[0])},read_timeout=10", "-m", loading.__name__),
            *(str(folder), str(length)),
            said=folder / f"host-{host.name}",
            OMP_NUM_THREADS="1",
        )
        for host in hosts
    ]


def covers(folder: Path) -> None:
    """Over a slow wire that loses frames: every element once an epoch, in the order of rank 0's seed."""
    with two_hosts(delay=0.005) as (a, b, wire):
        agents = torchrun((a, b), RANKS, folder, LENGTH)
        wait_until(lambda: all(said_by(rank, folder) for rank in range(2 * RANKS)), BEGINNING)
        wire.loss = 0.02  # not earlier: gloo now and then gives up when it connects over such a wire
        assert [agent.wait() for agent in agents] == [0, 0]
        assert wire.lost > 0
    assert still_there() == []
    of_each = [[json.loads(line) for line in said_by(rank, folder)[1::2]] for rank in range(2 * RANKS)]
    torch.manual_seed(0)
    with DataLoader2(loading.graph(LENGTH)) as alone:
        for epoch in range(loading.EPOCHS):
            dealt = [element for row in zip(*(epochs[epoch] for epochs in of_each), strict=True) for element in row]
            assert dealt == list(alone)[: LENGTH // (2 * RANKS) * 2 * RANKS], f"epoch {epoch}: {dealt}"


def cut(folder: Path) -> None:
    """The cable is pulled in mid-epoch: both sides say so within the timeout, and none of their processes is left."""
    with two_hosts() as (a, b, _):
        torchrun((a, b), 1, folder, ENDLESS)
        wait_until(lambda: all(said_by(rank, folder) for rank in range(2)), BEGINNING)
        b.unplug()
        wait_until(lambda: not ranks(), 60)
        # torchrun itself may go on to wait for a store that is not there any more; the end of the play ends it.
        for rank in range(2):
            *_, last = said_by(rank, folder)
            error, seconds = json.loads(last)
            assert f"rank {1 - rank}" in error, last
            assert seconds < loading.SECONDS + PATIENCE, last


def narrow(folder: Path) -> None:
    """A host with two networks listens on one: that of the master, or that of the interface that gloo is given."""
    with two_hosts() as (a, b, _):
        other = a.second_network("eth1", b)
        for interface, expected in (("", a.address), ("eth1", other), ("eth0", a.address)):
            told = {"GLOO_SOCKET_IFNAME": interface, "LOADER2_PORTS": "29600"}
            command = sys.executable, "-m", knocking.__name__
            ranks = [
                host.start(*command, str(rank), a.address, a.address, other, said=folder / f"host-{host.name}", **told)
                for rank, host in enumerate((a, b))
            ]
            assert [rank.wait() for rank in ranks] == [0, 0]
            assert json.loads((folder / "host-b").read_text().splitlines()[-1]) == [expected, [expected]]


def said_by(rank: int, folder: Path) -> list[str]:
    path = folder / f"of-{rank}"
    return path.read_text().splitlines() if path.exists() else []


def ranks() -> list[str]:
    """The processes of all ranks, workers among them."""
    return [
        command for command in still_there() if loading.__name__ in command and "torch.distributed.run" not in command
    ]


def wait_until(reached: Callable[[], object], seconds: float) -> None:
    end = monotonic() + seconds
    while not reached():
        assert monotonic() < end, f"not within {seconds} s; there are {still_there()}"
        Event().wait(0.05)  # nothing tells of the files and processes of other programs


def forever(folder: Path) -> None:
    """Two hosts with a program that does not end by itself, in a folder that says when they are there."""
    with two_hosts() as hosts:
        for host in hosts[:2]:
            host.start("tail", "--follow", "/dev/null", said=folder / f"host-{host.name}")
        wait_until(lambda: len(still_there()) == 2, 60)
        (folder / "begun").touch()
        Event().wait(600)  # it is to be killed before


PLAYS = {play.__name__: play for play in (covers, cut, narrow, forever)}

if __name__ == "__main__":
    name, folder = sys.argv[1:]
    try:
        PLAYS[name](Path(folder))
    except BaseException:
        for path in sorted(Path(folder).glob("host-*")):
            print(f"-- {path.name} --", path.read_text(), sep="\n")
        raise
