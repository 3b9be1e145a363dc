"""Fork safety: a forked process has a copy of its parent's sessions and must not use them."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import Protocol
from weakref import ref

from datapipes.errors import ForkedIteration


class Inherited(Protocol):
    """An object that a forked process must not use unchanged."""

    def forked(self) -> None:
        """Prepare the object for use in a forked process, which has the parent's locks but not its threads."""


_inherited: deque[ref[Inherited]] = deque()  # no WeakSet: its callbacks lose a Ctrl-C that comes while they run


def tell_of_forks(thing: Inherited) -> None:
    """Call ``thing.forked()`` in each fork of this process, so that no check is needed for each element."""
    _inherited.append(ref(thing))
    for _ in range(2):  # two are checked for one that is added, so dead references do not pile up
        with suppress(IndexError):  # another thread may have emptied it
            if (oldest := _inherited.popleft())() is not None:
                _inherited.append(oldest)


def give_back(lock: Lock) -> None:
    """Release a lock that a thread held when this process was forked. That thread does not exist here."""
    if lock.locked():
        lock.release()


def _tell() -> None:
    for inherited in list(_inherited):
        if (thing := inherited()) is not None:
            thing.forked()


os.register_at_fork(after_in_child=_tell)


class OwnerProcess:
    """The process that makes this object.

    A forked process inherits the pipes and the shared memory of an iteration, which its parent still uses, and none of
    its threads.
    """

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is still the same process."""
        return os.getpid() == self._pid

    def must_be_here(self, what: str) -> None:
        """Raise ForkedIteration in any other process. ``what`` names the object that belongs to the first one."""
        if os.getpid() != self._pid:
            raise self.refusal(what)

    def refusal(self, what: str) -> ForkedIteration:
        """Return the error for using ``what`` in this process, a fork of the one that it belongs to."""
        return ForkedIteration(
            f"{what} of this iteration belong to process {self._pid}, and this is process {os.getpid()}, a fork of it, "
            "which would take elements from it; make a new DataLoader2 or iterator here. To continue the old one, load "
            "the state_dict() that it returned before the fork"
        )
