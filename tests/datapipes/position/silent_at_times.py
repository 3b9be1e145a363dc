"""A user's class that does not always say where it is."""

from __future__ import annotations

from collections.abc import Iterator

from datapipes.iter import IterDataPipe


class SilentAtTimes(IterDataPipe[int]):
    """Numbers from 1 on; behind some of them nobody is told where it is."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.given = 0

    def __iter__(self) -> Iterator[int]:
        while self.given < self.length:
            self.given += 1
            yield self.given

    def state_dict(self) -> int:
        if self.given % 5 in (0, 3):
            raise LookupError("no state")
        return self.given

    def load_state_dict(self, given: int) -> None:
        self.given = given
