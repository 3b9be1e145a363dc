"""One rank's stream, synchronized with those of the other ranks.

An element is handed on once it is known that all ranks have an element at the same position. A rank reports how far it
has read while it hands on the previous block. So agreement costs neither a wait nor a Python call for an element. The
portion that is handed on is a list, which bad news of another rank clears at once. A rank that knows its length reports
it once, hands on elements as they are made, and checks for bad news in between. Such a rank can still fail and have one
element less than it reported. Then the last element of all is kept back until every rank has made its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from datapipes.errors import GraphError, PrefetchTimeoutError, RanksDiffer, RanksError, StateError, UnevenRanks
from datapipes.position.cells import Cell, Counted, Table, count, fields, table
from datapipes.position.position_history import error_text, lost
from datapipes.position.session import Session
from datapipes.ranks.blocks import ReadAheadBuffer
from datapipes.ranks.exchange import Exchange, connected
from datapipes.ranks.topics import Key, RankProgress, RankReport, Uneven

_log = logging.getLogger(__name__)


class _Padding(Enum):
    PADDING = "PADDING"

    def __repr__(self) -> str:
        return self.value


PADDING: Final = _Padding.PADDING
"""Filler for an element that a rank does not have, with ``uneven="pad"``."""


_LAID_OUT: Final = 4096
"""Number of fillers in a portion."""


class RankCell(Cell):
    """Position of this rank, and the elements that it has read ahead."""

    carries = True

    def __init__(
        self, uneven: Uneven, timeout: float, exchange: Exchange | None, length: int | None, rank: int = 0
    ) -> None:
        self._progress = RankProgress(uneven)
        self.rank = rank
        self.timeout = timeout
        self._exchange = exchange
        self._owns_exchange = exchange is None
        self._length = length  # the number of elements, if it is certain
        self._attempt = 0
        self._key: Key | None = None  # of the attempt under way
        self._began = 0  # the number of elements handed on before it
        self._blocks = ReadAheadBuffer()
        self._given = 0  # the number of elements handed on, without those of the portion
        self._portion: list[Any] = []
        self._taken: Counted[Any] = Counted()  # the elements taken from the portion
        self._wanted = 0  # the number of elements to take directly from the source; 0 with a portion
        self._streamed = 0  # the number of them that were taken
        self._finished = False
        self._is_last = True

    def elements(
        self,
        source: Iterator[Any],
        mark: Callable[[], Table] | None,
        lap_of: Callable[[int, Table | None], Session] | None = None,
        is_last: bool = True,
    ) -> Iterator[Any]:
        """Return the elements of ``source`` that all ranks have.

        ``mark`` takes a snapshot of the stages above. ``lap_of`` opens these stages once more, at a position, if
        elements are to be repeated. If a stage below reads ahead, or needs more elements of one rank than of another
        (``is_last`` is False), the ranks may differ here in the number of elements.
        """
        self._is_last = is_last
        self._blocks.start(source, mark if self._length is None else None, lap_of)
        return self._interruptible()

    def _interruptible(self) -> Iterator[Any]:
        exchange = self._exchange = self._exchange or connected(self.timeout)
        if self._key is not None and exchange.failed(self._key):
            self._attempt += 1
        if self._key != (exchange.epoch, self._attempt):
            self._key, self._began = (exchange.epoch, self._attempt), self._given
        try:
            self._blocks.go_on()
            self._begin(exchange, self._key)
            while (portion := self._next_portion(exchange)) is not None:
                if self._wanted:  # the loop is here because another generator would cost time for each element
                    for element in portion:
                        self._streamed += 1
                        yield element
                        if exchange.alarmed:
                            break
                    else:
                        if self._streamed < self._wanted:
                            self._check_length(self._blocks.read + self._streamed)
                else:
                    yield from portion
                self._handed_on(exchange)
            self._end(exchange)
        except GeneratorExit:
            raise
        except Exception as error:
            if not isinstance(error, RanksError):
                self._length = None  # an element is lost
            if not isinstance(error, RanksError) or isinstance(error, PrefetchTimeoutError):
                exchange.fail(self._key, error)
            raise
        finally:
            self._put_back()

    def _begin(self, exchange: Exchange, key: Key) -> None:
        """Wait until all ranks take part. Raise RanksDiffer if they are not at the same element."""
        blocks = self._blocks
        if self._length is None and blocks.wants(0, None):
            blocks.read_block(None)
        exchange.begin(key, self._progress, self._report(exchange))
        (low, behind), (high, before) = exchange.wait(lambda _: True, self._given, self.timeout)["given"]
        if low != high and self._is_last and not self._attempt:
            raise RanksDiffer(
                f"the ranks are not at the same element: rank {behind} has handed on {low}, rank {before} {high}; "
                "load states that were saved at the same step"
            )

    def _next_portion(self, exchange: Exchange) -> Iterator[Any] | None:
        """Wait for the elements that may be handed on now and return them. Return None at the end."""
        blocks, given = self._blocks, self._given
        while not _is_over(verdict := exchange.wait(lambda _: True, given, self.timeout), given):
            streams = self._length is not None and blocks.end is None
            may_fail = verdict["promised"] and not verdict["finished"]
            is_last = may_fail and verdict["total"] == given + 1
            if (not blocks.ahead if is_last else not streams) and blocks.wants(verdict["upto"], verdict["total"]):
                self._read(exchange, verdict["total"])
                verdict = exchange.verdict or verdict
            if blocks.error is not None and not blocks.ahead:
                self._raise()
            if is_last and not blocks.ahead and blocks.wants(verdict["upto"], verdict["total"]):
                continue  # the last element comes from the next lap
            if is_last:
                exchange.update(self._report(exchange, finished=True))
                exchange.wait(itemgetter("finished"), given, self.timeout)
                continue
            if verdict["upto"] > given:
                most = exchange.limit(given, verdict["upto"]) - given
                if may_fail and verdict["total"] is not None:
                    most = min(most, verdict["total"] - 1 - given)
                return self._stream(most) if streams and not blocks.ahead else self._laid_out(exchange, most)
            if verdict["uneven"]:
                raise UnevenRanks(f"the ranks have different numbers of elements: {RankProgress.counted(verdict)}")
            exchange.wait(partial(_is_more, given), given, self.timeout)
        return None

    def _read(self, exchange: Exchange, total: int | None) -> None:
        blocks = self._blocks
        blocks.read_block(total)
        if self._length is None:
            exchange.update(self._report(exchange))
        elif blocks.end is not None and blocks.error is None:
            self._check_length(blocks.end)

    def _report(self, exchange: Exchange, finished: bool = False) -> RankReport:
        promised = self._length is not None
        have = next(each for each in (self._length, self._blocks.end, self._blocks.read) if each is not None)
        ended = promised or self._blocks.end is not None
        return self._progress.report(exchange.rank, have, ended, self._began, promised, finished)

    def _laid_out(self, exchange: Exchange, most: int) -> Iterator[Any]:
        """Return up to ``most`` of the elements ahead, or fillers. Return none after bad news."""
        blocks = self._blocks
        portion, blocks.ahead = blocks.ahead[:most], blocks.ahead[most:]
        if not portion and self._progress.uneven == "pad":
            portion = [PADDING] * min(most, _LAID_OUT)
        live = portion.copy()
        self._portion, self._taken = portion, Counted(live)
        if not exchange.interrupting(live.clear):
            live.clear()
        return self._taken.elements

    def _stream(self, most: int) -> Iterator[Any]:
        """Return up to ``most`` elements as they are made, since all ranks know their lengths."""
        blocks = self._blocks
        self._wanted = min(most, (self._length or 0) - blocks.read)
        return islice(blocks.source, self._wanted)

    def _check_length(self, found: int) -> None:
        if self._length is not None and found < self._length:
            raise GraphError(f"{self.label}: the stages above announced {self._length} elements, but gave {found}")

    def _handed_on(self, exchange: Exchange) -> None:
        """End a portion that was handed on in full or cut short."""
        exchange.interrupting(None)
        self._put_back()
        if self._blocks.read == self._length:
            self._blocks.end = self._length

    def _put_back(self) -> None:
        """Put the rest of a portion back to the elements ahead."""
        self._blocks.ahead[:0] = self._left()
        self._blocks.read += self._streamed
        self._given = self.done()
        self._portion, self._taken, self._wanted, self._streamed = [], Counted(), 0, 0

    def _left(self) -> list[Any]:
        left = self._portion[self._taken.taken :]
        return [] if left and left[0] is PADDING else left

    def _raise(self) -> None:
        blocks = self._blocks
        error, blocks.error, self._length = blocks.error, None, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # its traceback holds this frame

    def _end(self, exchange: Exchange) -> None:
        verdict = exchange.verdict or {}
        if verdict["promised"] and not verdict["finished"]:
            exchange.update(self._report(exchange, finished=True))
            verdict = exchange.wait(itemgetter("finished"), self._given, self.timeout)
        is_reported, self._finished = self._finished, True
        if self._given > verdict["total"] and not is_reported:
            raise RanksDiffer(
                f"this rank has handed on {self._given} elements, and other ranks have only {verdict['total']}: errors "
                "cost them elements that they had announced; for equal steps on all ranks, end at the first error"
            )
        have = self._length if self._length is not None else self._blocks.read
        exchange.dropped = max(0, have - self._given)
        if exchange.dropped:
            about = "" if self._length is not None or self._blocks.end is not None else "at least "
            text = "rank %d has left out %s%d elements, which not all ranks have"
            _log.info(text, exchange.rank, about, exchange.dropped)

    # -- the position --------------------------------------------------------------------------------------------------

    def _behind(self) -> int:
        """Return the number of elements of this rank that were handed on, without fillers."""
        return self._blocks.read + self._streamed - len(self._blocks.ahead) - len(self._left())

    def carried(self) -> Table | None:
        position, _ = self._blocks.trail.after(self._behind())
        return None if position is None or position[0] else position[1]

    def in_step(self) -> bool:
        return False

    def done(self) -> int:
        return self._given + self._streamed + self._taken.taken

    def save(self) -> dict[str, Any]:
        blocks, behind = self._blocks, self._behind()
        known, since = blocks.trail.after(behind)
        lap, inside = known or blocks.now()
        return {
            "rank": self.rank,
            "given": self.done(),
            "read": behind,
            "certain": self._length is not None,
            "since": since if known else blocks.since,
            "lap": [lap, blocks.end, inside] if lap else None,
            "ahead": None if known else self.encode([*self._left(), *blocks.ahead]),
            "lost": None if known or blocks.error is None else error_text(blocks.error),
        }

    def load(self, saved: Any) -> None:
        names = ("given", "read", "certain", "since", "lap", "ahead", "lost")
        if type(saved) is dict and "rank" in saved:  # states of 0.1.0 do not have it
            saved = {**saved}
            if (rank := saved.pop("rank")) != self.rank:
                raise StateError(
                    f"saved on rank {rank!r:.80}, and this is rank {self.rank}. Each rank has its own position: "
                    "load its own state on each rank, or save the state of all by gather(state), or with "
                    "dl.state_of_all_ranks = True for a trainer that keeps rank 0's"
                )
        given, read, certain, since, lap, ahead, error = fields(saved, *names)
        if type(certain) is not bool or not (error is None or type(error) is str):
            raise StateError(
                f"expected whether the length is certain, and an error or None, found {certain!r:.80} and {error!r:.80}"
            )
        blocks = self._blocks
        self._given, blocks.read = count(given, "given"), count(read, "read")
        blocks.since = count(since, "since", most=blocks.read)
        if not certain:
            self._length = None
        if lap is not None:
            if type(lap) is not list or len(lap) != 3:
                raise StateError(f"lap: expected a number, a length and a position, found {lap!r:.80}")
            blocks.lap, blocks.end, blocks.inside = count(lap[0], "lap"), count(lap[1], "lap"), table(lap[2])
        if ahead is not None:
            blocks.ahead = self.decode_list(ahead)
            blocks.read += len(blocks.ahead)
        if error is not None:
            blocks.error = lost(self, error)

    def close(self) -> None:
        self._put_back()
        exchange, self._exchange = self._exchange, None
        if exchange is not None and self._key is not None and not self._finished:
            self._finished = True
            if exchange.verdict is not None and _is_over(exchange.verdict, self._given):
                exchange.update(self._report(exchange, finished=True))
            else:
                exchange.leave(exchange.epoch, self._given)
        if exchange is not None and self._owns_exchange:
            exchange.close()
        self._blocks.close()


def _is_more(given: int, verdict: RankReport) -> bool:
    return verdict["upto"] > given or verdict["total"] is not None or bool(verdict["uneven"])


def _is_over(verdict: RankReport, given: int) -> bool:
    """Return whether the stream has ended.

    A rank may have handed on more than all ranks have, if another one failed.
    """
    total = verdict.get("total")  # a verdict on Facts has none: this rank may fail before the other ranks begin
    return total is not None and bool(given >= total)
