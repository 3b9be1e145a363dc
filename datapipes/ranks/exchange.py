"""Exchange of messages among the ranks of a process group, from one rank's side and independent of the transport.

Ranks exchange reports about a *topic* under a *key*, an epoch and an attempt at it, which all ranks share. Each rank
sends a first report and then updates. There is a verdict as soon as all ranks have reported, and a new one whenever it
changes. Only ``wait`` blocks. It ends with a verdict, with bad news, or after its timeout.

A rank's bad news goes to all other ranks at once. A rank that waits, now or later, gets it as an error. A rank that
hands on elements is interrupted. News of an epoch apply until the next epoch; the end of a rank applies for good.
"""

from __future__ import annotations

import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module

from datapipes.errors import PrefetchTimeoutError
from datapipes.position.forks import OwnerProcess, tell_of_forks
from datapipes.ranks.topics import Key, News, RankReport, Topic, concerns, error_of, first


class Exchange(ABC):
    """One rank's side of the exchange, for one loader.

    The transport calls ``_decided`` and ``_note``, from any thread that holds ``_lock``.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.epoch = 0
        """The number of the epoch. The stage that begins an epoch increments it."""
        self.dropped = 0
        """The number of elements of the last epoch that this rank left out, as far as it is known."""
        self.verdict: RankReport | None = None
        """The last verdict under the current key."""
        self.alarmed = False
        """Whether there is bad news about the current key."""
        self._lock = threading.RLock()  # entered directly: an interruption of ``Condition.__enter__`` could keep it
        self._changed = threading.Condition(self._lock)
        self._key: Key | None = None
        self._topic: Topic | None = None
        self._own: RankReport = {}
        self._news: list[News] = []
        self._unseen = False  # whether news has come since the last look
        self._interrupt: Callable[[], object] | None = None
        self._origin = OwnerProcess()
        tell_of_forks(self)

    # -- messages of this rank -----------------------------------------------------------------------------------------

    def begin(self, key: Key, topic: Topic, report: RankReport) -> None:
        """Take part under a key, with a first report."""
        with self._lock:
            if key != self._key:
                self.verdict = None
                self._news = [news for news in self._news if news["key"] is None or news["key"][0] >= key[0]]
                self.alarmed = self._unseen = bool(self._news)
            self._key, self._topic, self._own = key, topic, report
            self._pass_on()

    def update(self, report: RankReport) -> None:
        """Replace this rank's report."""
        with self._lock:
            self._own = report
            self._pass_on()

    def fail(self, key: Key, error: BaseException) -> None:
        """Send to all other ranks that this rank cannot continue, and the error."""
        text, trace = f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))
        with self._lock:
            self._spread({"news": "failed", "key": key, "rank": self.rank, "error": text, "trace": trace})

    def leave(self, epoch: int, given: int) -> None:
        """Send to all other ranks that this rank leaves an epoch before its end."""
        with self._lock:
            self._spread({"news": "left", "key": [epoch, 0], "rank": self.rank, "given": given})

    @abstractmethod
    def close(self) -> None:
        """Send to all other ranks that this rank has ended, and disconnect. Further calls do nothing."""

    def forked(self) -> None:
        self._lock = threading.RLock()  # another thread may have held the old one during the fork
        self._changed = threading.Condition(self._lock)
        self.alarmed = True
        if self._interrupt is not None:
            self._interrupt()

    # -- messages of other ranks ---------------------------------------------------------------------------------------

    def wait(self, ready: Callable[[RankReport], bool], given: int, timeout: float) -> RankReport:
        """Return the verdict once it is ready.

        Raise bad news as an error, or PrefetchTimeoutError after ``timeout``.
        """

        def decided() -> RankReport | None:
            return self.verdict if self.verdict is not None and ready(self.verdict) else None

        def news() -> News | None:
            return first(self._news, self._key, given, waits=True)

        self._origin.must_be_here("the connections to other ranks")
        with self._lock:
            self._changed.wait_for(lambda: decided() or news(), timeout)
            if (verdict := decided()) is not None:
                return verdict
            late = [] if news() is not None else self._late()
            if (bad := news()) is not None:  # also news that came while this process was stopped
                raise error_of(bad)
        raise PrefetchTimeoutError(timeout, f"rank {', '.join(map(str, late[:8]))}")

    def limit(self, given: int, most: int) -> int:
        """Return how far this rank may go after ``given`` elements: ``most``, or less if a rank has left.

        Raise bad news.
        """
        if not self.alarmed:
            return most
        with self._lock:
            if (bad := first(self._news, self._key, given)) is not None:
                raise error_of(bad)
            self._unseen = False
            left: list[int] = [
                news["given"] for news in self._news if news["news"] == "left" and concerns(news, self._key)
            ]
            return min([most, *left])

    def interrupting(self, stop: Callable[[], object] | None) -> bool:
        """Call ``stop`` from another thread when bad news comes. Return False if some has come since the last look."""
        with self._lock:
            self._interrupt = stop
            return not self._unseen

    def failed(self, key: Key) -> bool:
        """Return whether an attempt has failed, on any rank."""
        with self._lock:
            return any(news["news"] == "failed" and tuple(news["key"]) == key for news in self._news)

    # -- the transport; the caller holds ``_lock`` ------------------------------------------------------------------

    @abstractmethod
    def _pass_on(self) -> None:
        """Send this rank's report, ``_own``, to the other ranks."""

    @abstractmethod
    def _spread(self, news: News) -> None:
        """Send news to all other ranks, and ``_note`` it here."""

    @abstractmethod
    def _late(self) -> list[int]:
        """Return the ranks that keep all other ranks waiting, as far as it is known. It may wait for their messages."""

    def _decided(self, key: Key, verdict: RankReport) -> None:
        """Accept a verdict."""
        if key == self._key:
            self.verdict = verdict
            self._changed.notify_all()

    def _note(self, news: News) -> None:
        """Accept bad news, possibly this rank's own."""
        if news["rank"] != self.rank or news["news"] == "failed":
            self._news.append(news)
        if news["rank"] != self.rank and concerns(news, self._key):
            self._alarm()

    def _alarm(self) -> None:
        self.alarmed = self._unseen = True
        if self._interrupt is not None:
            self._interrupt()
        self._changed.notify_all()


def connected(timeout: float) -> Exchange:
    """Connect to the other ranks of the process group. All ranks have to call it.

    The transport is imported by name, at the first call: it belongs to ``reading_services``, which this package must
    not import, and ``fullsync()`` has to work in programs that have not imported it.
    """
    exchange: Exchange = import_module("reading_services.ranks.tree").connected(timeout)
    return exchange
