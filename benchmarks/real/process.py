"""The tree of processes of a contender: its memory, and its CPU time, as Linux counts them.

Memory is the sum of the processes' proportional set sizes (PSS), so a page that three of them share counts once;
mapped files are left out, which are the libraries' code and, of a memory map, the data. Shared memory that is on its
way from one process to another is mapped by none, and held by a descriptor: it counts as it is, if that is more.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> list[int]:
    """A process and all that descend from it."""
    children = defaultdict(list)
    for pid, fields in _stats():
        children[int(fields[1])].append(pid)
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += children[found[-1]]
    return found


def cpu_seconds(root: int) -> float:
    """Of a process and of all that descend from it, those included that have ended and were waited for."""
    members = set(tree(root))
    return sum(sum(map(int, fields[11:15])) for pid, fields in _stats() if pid in members) / TICKS


def memory(root: int) -> int:
    """Bytes of proportional set size without mapped files, of a process and of all that descend from it."""
    pss = Counter[str]()
    shared: dict[tuple[int, int], int] = {}
    for pid in tree(root):
        with suppress(OSError):  # it has ended
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                    pss[line.split()[0]] += int(line.split()[1]) * 1024
            shared |= _shared_files(pid)
    return pss["Pss_Anon:"] + max(pss["Pss_Shmem:"], sum(shared.values()))


def _shared_files(pid: int) -> dict[tuple[int, int], int]:
    """The bytes of the shared memory that a process has descriptors of, by device and number."""
    found = {}
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it was closed
            if os.readlink(descriptor).startswith(("/dev/shm/", "/memfd:")):
                known = descriptor.stat()
                found[known.st_dev, known.st_ino] = known.st_blocks * 512
    return found


def _stats() -> list[tuple[int, list[str]]]:
    """What follows the name in each process's `stat`: its state, its parent, and so on."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):  # it has ended
                found.append((int(name), Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()))
    return found
