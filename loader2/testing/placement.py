"""The laws of placement: a service gives the same elements as this process, and runs no handler of the program."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

from loader2.testing.comparing import SEED, must, must_equal, taken
from loader2.testing.ending import child_pids
from loader2.testing.specimen import Specimen

PATIENCE = 30.0  # seconds for a process to end


def same_elements(specimen: Specimen) -> None:
    """Check that three epochs give the same elements as in this process. A random order may differ."""
    if not specimen.is_as_here:
        return
    through, here = specimen.loader(seed=SEED), replace(specimen, service=None).loader(seed=SEED)
    for epoch in range(3):
        came, expected = taken(iter(through)), taken(iter(here))
        if specimen.random:
            came, expected = sorted(came), sorted(expected)
        must_equal(came, expected, f"epoch {epoch}")
    through.shutdown()


def signals(specimen: Specimen) -> None:
    """Check that SIGTERM and SIGHUP end a service's processes, without running the program's handlers in them."""
    if not specimen.starts_processes:
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        before = child_pids()
        with _program_handles(number) as ran, closing(_RunningLoader(specimen)) as started:
            for pid in child_pids() - before:
                must(started.ends(pid, number, ran), f"{number.name} does not end a process that was started")
            must(not select.select([ran], [], [], 0)[0], f"the program's handler of {number.name} ran in a process")


class _RunningLoader:
    """Loader of a specimen, with its processes."""

    def __init__(self, specimen: Specimen) -> None:
        self._loader = specimen.loader(seed=SEED)
        self._iterator = iter(self._loader)
        next(self._iterator, None)

    def ends(self, pid: int, number: signal.Signals, ran: int) -> bool:
        """Send a signal to a process. Return whether the process ends or the program's handler runs."""
        try:
            end = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(end, number)
            return bool(select.select([end, ran], [], [], PATIENCE)[0])
        finally:
            os.close(end)

    def close(self) -> None:
        del self._iterator
        self._loader.shutdown()


@contextmanager
def _program_handles(number: signal.Signals) -> Iterator[int]:
    """Set a handler in this program. Yield a descriptor that is readable once the handler has run anywhere."""
    ran, runs = os.pipe()
    before = signal.signal(number, lambda *_: os.write(runs, b"."))
    try:
        yield ran
    finally:
        signal.signal(number, before)
        os.close(ran)
        os.close(runs)
