"""What the ranks of a process group say to each other, as one of them sees it, whatever carries it.

Ranks converse about a *topic* under a *key*, an epoch and an attempt at it, which all have in common. Each rank begins
with a report, and updates it. There is a verdict as soon as all have begun, and a new one whenever it changes. Saying
something waits for nobody: only ``wait`` does, and it ends with a verdict, with bad news, or with its time.

Bad news of a rank go to all others at once, whatever they do: who waits, or comes to, has them as an error, and who
hands on elements is interrupted. News of an epoch count until another one begins; that a rank has ended counts forever.
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
    """One rank's part in what all ranks say, for one loader.

    Whatever carries it calls ``_decided`` and ``_note``, from any thread that holds ``_changed``.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.epoch = 0
        """The number of the epoch, which whoever begins one counts up;"""
        self.dropped = 0
        """how many elements of the last one other ranks had no partner for, as far as it is known;"""
        self.verdict: RankReport | None = None
        """the last verdict in the conversation under way;"""
        self.alarmed = False
        """whether there are bad news about it."""
        self._changed = threading.Condition()
        self._key: Key | None = None
        self._topic: Topic | None = None
        self._own: RankReport = {}
        self._news: list[News] = []
        self._unseen = False  # whether some have come since they were looked at
        self._interrupt: Callable[[], object] | None = None
        self._origin = OwnerProcess()
        tell_of_forks(self)

    # -- what a rank says ----------------------------------------------------------------------------------------------

    def begin(self, key: Key, topic: Topic, report: RankReport) -> None:
        """Take part in a conversation, with a first report."""
        with self._changed:
            if key != self._key:
                self.verdict = None
                self._news = [news for news in self._news if news["key"] is None or news["key"][0] >= key[0]]
                self.alarmed = self._unseen = bool(self._news)
            self._key, self._topic, self._own = key, topic, report
            self._pass_on()

    def update(self, report: RankReport) -> None:
        """Report how things have changed."""
        with self._changed:
            self._own = report
            self._pass_on()

    def fail(self, key: Key, error: BaseException) -> None:
        """Tell all others that this rank cannot go on, and why."""
        text, trace = f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))
        with self._changed:
            self._spread({"news": "failed", "key": key, "rank": self.rank, "error": text, "trace": trace})

    def leave(self, epoch: int, given: int) -> None:
        """Tell all others that this rank takes no more of an epoch that is not at its end."""
        with self._changed:
            self._spread({"news": "left", "key": [epoch, 0], "rank": self.rank, "given": given})

    @abstractmethod
    def close(self) -> None:
        """Tell all others that this rank has ended, and let go of them; once is enough."""

    def forked(self) -> None:
        self._changed = threading.Condition()  # which a thread may have held
        self.alarmed = True
        if self._interrupt is not None:
            self._interrupt()

    # -- what a rank is told -------------------------------------------------------------------------------------------

    def wait(self, ready: Callable[[RankReport], bool], given: int, timeout: float) -> RankReport:
        """The verdict, once it is ready; bad news is an error, and so is a rank that keeps others waiting."""

        def decided() -> RankReport | None:
            return self.verdict if self.verdict is not None and ready(self.verdict) else None

        def news() -> News | None:
            return first(self._news, self._key, given, waits=True)

        self._origin.must_be_here("the connections to other ranks")
        with self._changed:
            self._changed.wait_for(lambda: decided() or news(), timeout)
            if (verdict := decided()) is not None:
                return verdict
            late = [] if news() is not None else self._late()
            if (bad := news()) is not None:  # who was stopped itself hears only now what has come meanwhile
                raise error_of(bad)
        raise PrefetchTimeoutError(timeout, f"rank {', '.join(map(str, late[:8]))}")

    def limit(self, given: int, most: int) -> int:
        """How far a rank may go that has handed on ``given`` elements, ``most`` at most, with those who have left."""
        if not self.alarmed:
            return most
        with self._changed:
            if (bad := first(self._news, self._key, given)) is not None:
                raise error_of(bad)
            self._unseen = False
            left: list[int] = [
                news["given"] for news in self._news if news["news"] == "left" and concerns(news, self._key)
            ]
            return min([most, *left])

    def interrupting(self, stop: Callable[[], object] | None) -> bool:
        """Call ``stop`` when there is bad news, from another thread; False if there is some that was not looked at."""
        with self._changed:
            self._interrupt = stop
            return not self._unseen

    def failed(self, key: Key) -> bool:
        """Whether an attempt has failed, on any rank."""
        with self._changed:
            return any(news["news"] == "failed" and tuple(news["key"]) == key for news in self._news)

    # -- what carries it; ``_changed`` is held -------------------------------------------------------------------------

    @abstractmethod
    def _pass_on(self) -> None:
        """Have the others know of this rank's report, ``_own``."""

    @abstractmethod
    def _spread(self, news: News) -> None:
        """Tell all others, and ``_note`` it here."""

    @abstractmethod
    def _late(self) -> list[int]:
        """The ranks that keep all others waiting, as far as it is known; may wait for word of them."""

    def _decided(self, key: Key, verdict: RankReport) -> None:
        """Take a verdict that has come."""
        if key == self._key:
            self.verdict = verdict
            self._changed.notify_all()

    def _note(self, news: News) -> None:
        """Take bad news, which may be this rank's own."""
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
    """An exchange with the other ranks of the process group; all of them have to call.

    This is the one place that knows what carries it, by name and once there are ranks: connections belong to placement,
    a room above this one, and ``fullsync()`` has to work where nobody has imported that.
    """
    exchange: Exchange = import_module("reading_services.ranks.tree").connected(timeout)
    return exchange
