"""Run a function in a child process that is killed at a chosen system call, as a power cut or SIGKILL would end it."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

PATIENCE = 300  # seconds for a child

_CALLS: list[tuple[Any, str]] = [
    *((os, name) for name in ("open", "close", "fsync", "replace", "unlink", "makedirs", "fchmod")),
    (fcntl, "flock"),
]


def killed_at(call: int, work: Callable[[], object]) -> bool:
    """Run ``work`` in a child that kills itself in place of its n-th call; False if it made fewer, and ended."""
    child = multiprocessing.get_context("fork").Process(target=_run, args=(call, work))
    child.start()
    child.join(PATIENCE)
    if child.exitcode is None:
        child.kill()
        child.join(PATIENCE)
        raise AssertionError(f"the child hung when it was to be killed at call {call}")
    assert child.exitcode in (0, -signal.SIGKILL), f"the child ended with {child.exitcode}"
    return child.exitcode != 0


def _run(call: int, work: Callable[[], object]) -> None:
    left = [call]
    for module, name in _CALLS:
        setattr(module, name, _counting(getattr(module, name), left))
    work()
    os._exit(0)


def _counting(function: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return function(*args, **kwargs)

    return counted
