"""Counts of the processes that the kernel has ended because memory ran out.

The kernel has a count for each memory cgroup, of version 1 or 2, and one for the machine. A count that has grown since
a process was started, together with its SIGKILL, is the only sign: the process itself gets no message.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

_ENDED = "oom_kill"
_EVENTS = ("memory.events", "memory.oom_control")  # of version 2, and of version 1
_LIMITS = ("memory.max", "memory.limit_in_bytes")


def ended_by_the_kernel(root: str = "/") -> int | None:
    """Count of processes that were ended for want of memory in this process's cgroup, or else on the machine.

    Args:
        root: The folder that holds ``proc`` and ``sys``.
    """
    return _number(_counter(root), _ENDED)


@cache
def _counter(root: str) -> str:
    """The file with the count: looked for once, because each process that is started asks for it."""
    files = [f"{group}/{file}" for group in _groups(root) for file in _EVENTS]
    return next((file for file in files if _number(file, _ENDED) is not None), f"{root}/proc/vmstat")


def why_killed(before: int | None, root: str = "/") -> str:
    """Return why SIGKILL may have ended a process, for an error; ``before`` is the count when it was started."""
    now = ended_by_the_kernel(root)
    if now is None or before is None:
        return " (the kernel does that when memory runs out)"
    if now <= before:
        return ""
    return (
        f" (memory ran out, and the kernel has ended processes since this one began: {_limit(root)}; a smaller "
        "num_workers, worker_prefetch_cnt, main_prefetch_cnt or buffer_size takes less)"
    )


def _limit(root: str) -> str:
    machine = (_number(f"{root}/proc/meminfo", "MemTotal:") or 0) << 10
    limits = [int(text) for group in _groups(root) for file in _LIMITS if (text := _read(f"{group}/{file}")).isdigit()]
    least = min(limits, default=machine)
    if machine and least >= machine:
        return f"the machine has {machine / 2**30:.1f} GiB"
    return f"the cgroup of this program may have {least / 2**30:.1f} GiB"


def _groups(root: str) -> list[str]:
    """The folders of this process's memory cgroup and of those around it, as far as they can be seen."""
    inside = {}
    for line in _read(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        inside["memory" if "memory" in controllers.split(",") else controllers] = path.strip("/")
    mount, name = ("sys/fs/cgroup/memory", "memory") if "memory" in inside else ("sys/fs/cgroup", "")
    own = Path(inside.get(name, ""))
    return [f"{root}/{mount}/{each}" for each in (own, *own.parents)]


def _number(file: str, name: str) -> int | None:
    """The number behind a name, in a file of one name and number a line."""
    for line in _read(file).splitlines():
        words = line.split()
        if words[:1] == [name]:
            return int(words[1])
    return None


def _read(file: str) -> str:
    with suppress(OSError), open(file) as opened:
        return opened.read().strip()
    return ""
