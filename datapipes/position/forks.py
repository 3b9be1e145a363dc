"""Fork safety: a fork of the process that began something has a copy of it, which must not be used."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import Protocol
from weakref import ref

from datapipes.errors import ForkedIteration


class Inherited(Protocol):
    """Protocol of objects that a fork must not use as they are."""

    def forked(self) -> None:
        """Called in each fork: wait for nothing that is not there, and leave alone what is the parent's."""


_inherited: deque[ref[Inherited]] = deque()  # no WeakSet: Ctrl-C that comes while it forgets something is lost


def tell_of_forks(thing: Inherited) -> None:
    """Have ``thing.forked()`` called in each fork of this process, so that it need not ask at every element."""
    _inherited.append(ref(thing))
    for _ in range(2):  # more than are added, so those that are gone do not pile up
        with suppress(IndexError):  # another thread does the same
            if (oldest := _inherited.popleft())() is not None:
                _inherited.append(oldest)


def give_back(lock: Lock) -> None:
    """Release a lock that a thread held when this process was forked, so that nobody waits for what is not there."""
    if lock.locked():
        lock.release()


def _tell() -> None:
    for inherited in list(_inherited):
        if (thing := inherited()) is not None:
            thing.forked()


os.register_at_fork(after_in_child=_tell)


class OwnerProcess:
    """The process that makes this object.

    What a fork inherits of an iteration are its pipes and its shared memory, both still in use by the process that
    began it, and none of its threads.
    """

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this process is still the same."""
        return os.getpid() == self._pid

    def must_be_here(self, what: str) -> None:
        """ForkedIteration in any other process; ``what`` belongs to the first one."""
        if os.getpid() != self._pid:
            raise self.refusal(what)

    def refusal(self, what: str) -> ForkedIteration:
        """The error for using ``what`` in this process, a fork of the one that it belongs to."""
        return ForkedIteration(
            f"{what} of this iteration belong to process {self._pid}, and this is process {os.getpid()}, a fork of it, "
            "which would take elements from it; make a new DataLoader2 or iterator here, with what state_dict() of the "
            "old one gave before the fork if it is to go on from there"
        )
