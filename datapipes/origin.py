"""Which process began something: in a fork of that process there is a copy of it, which must not be used."""

from __future__ import annotations

import os

from datapipes.errors import ForkedIteration


class Origin:
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
            raise ForkedIteration(
                f"{what} of this iteration belong to process {self._pid}, and this is process {os.getpid()}, a fork of "
                "it, which would take elements from it; make a new DataLoader2 here, with state_dict() of the old one "
                "if it is to go on from there"
            )
