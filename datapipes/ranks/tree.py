"""One rank's node in the tree of ranks: its reports, the verdicts, and a thread that listens.

Reports go up: a rank puts its own and those of its children together, once it has one of each. The verdict of rank 0
comes down. Bad news (a rank has died, failed, or left) goes to everybody at once, and whoever hands on elements is
interrupted. Every wait ends: with a verdict, with bad news, or with its time.

Neighbours tell each other now and then that they are there, from the thread that listens, so whoever computes for long
is heard all the same. One of whom nothing at all is heard for as long as the timeout is bad news, too, however little
has been asked of it: it was stopped, or the machine is.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from datapipes.errors import PrefetchTimeoutError
from datapipes.parts.group import here, store
from datapipes.position.forks import OwnerProcess, tell_of_forks
from datapipes.ranks.meeting import meet, parent_of
from datapipes.ranks.topics import Key, News, RankReport, Topic, concerns, error_of, first

_PATIENCE: Final = 2.0
"""Seconds to wait for the thread when it is told to end."""
_BEATS: Final = 4
"""Heartbeats of a rank within the timeout, at the least."""
_LONGEST: Final = 3600.0
"""Seconds that the thread waits at most, whatever the timeout; systems bound it."""


class Tree:
    """The connections of one rank, for one loader."""

    def __init__(self, rank: int, parent: int | None, links: dict[int, socket.socket], timeout: float = 1800) -> None:
        self.rank = rank
        self._timeout = timeout
        self._heard = dict.fromkeys(links, monotonic())  # when a neighbour was heard last
        self.epoch = 0
        self.dropped = 0  # how many elements of the last epoch other ranks had no partner for, as far as it is known
        self._parent = parent
        self._links = dict(links)
        self._children = tuple(neighbour for neighbour in links if neighbour != parent)
        self._changed = threading.Condition()
        self._key: Key | None = None
        self._topic: Topic | None = None
        self._own: RankReport = {}
        self._below: dict[int, tuple[Key, RankReport]] = {}
        self._told: RankReport | None = None  # what was said last: up, or down if this is rank 0
        self.verdict: RankReport | None = None
        self._news: list[News] = []
        self.alarmed = False  # whether there are news
        self._unseen = False  # whether some have come since they were looked at
        self._interrupt: Callable[[], object] | None = None
        self._answer: list[int] | None = None
        self._closed = False
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name=f"ranks ({rank})", daemon=True)
        self._origin = OwnerProcess()
        tell_of_forks(self)
        self._thread.start()

    # -- what a rank says ----------------------------------------------------------------------------------------------

    def begin(self, key: Key, topic: Topic, report: RankReport) -> None:
        """Take part in a conversation, with a first report."""
        with self._changed:
            if key != self._key:
                self._told = self.verdict = None
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

    def close(self) -> None:
        """Say goodbye, and end."""
        with self._changed:
            if not self._closed:
                self._closed = True
                self._spread({"news": "gone", "key": None, "rank": self.rank})
        with suppress(OSError):
            self._wake.send(b"x")
        if self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)
        for link in list(self._links.values()):
            link.close()
        self._wake.close()
        self._woken.close()

    def forked(self) -> None:
        # The connections are the parent's, whose end the others have to notice; what is handed on is cut short.
        for link in (*self._links.values(), self._wake, self._woken):
            if link.fileno() >= 0:  # and not that of a tree that was closed
                os.close(link.detach())
        self._links = {}
        self._changed = threading.Condition()  # which the thread may have held
        self.alarmed = True
        if self._interrupt is not None:
            self._interrupt()

    # -- what a rank is told -------------------------------------------------------------------------------------------

    def wait(self, ready: Callable[[RankReport], bool], given: int, timeout: float) -> RankReport:
        """The verdict, once it is ready; bad news is an error."""

        def come() -> bool:
            return (self.verdict is not None and ready(self.verdict)) or first(
                self._news, self._key, given, waits=True
            ) is not None

        self._origin.must_be_here("the connections to other ranks")
        with self._changed:
            in_time = self._changed.wait_for(come, timeout)
            if self.verdict is not None and ready(self.verdict):
                return self.verdict
            news = first(self._news, self._key, given, waits=True)
            if in_time and news is not None:
                raise error_of(news)
            behind = self._behind()
            if self._parent is not None and behind in ([], [self.rank]):
                self._answer, behind = None, [self._parent]
                self._send(self._parent, {"ask": self._key})
                self._changed.wait_for(lambda: self._answer is not None, _PATIENCE)
                behind = self._answer or behind
                news = first(self._news, self._key, given, waits=True)
                if news is not None:  # who was stopped itself hears only now what has come meanwhile
                    raise error_of(news)
        raise PrefetchTimeoutError(timeout, f"rank {', '.join(map(str, behind[:8]))}")

    def _behind(self) -> list[int]:
        """The ranks that keep all others waiting, as far as it is known here; a child stands for those behind it."""
        if self._topic is None:
            return [self.rank]
        below = {child: report for child, (key, report) in self._below.items() if key == self._key}
        silent = [child for child in self._children if child not in below]
        return silent or self._topic.behind({self.rank: self._own, **below})

    def check(self, given: int) -> None:
        """Raise bad news that concerns a rank which has handed on so many elements."""
        if self.alarmed:
            with self._changed:
                news = first(self._news, self._key, given)
                if news is not None:
                    raise error_of(news)
                self._unseen = False

    def interrupting(self, stop: Callable[[], object] | None) -> bool:
        """Call ``stop`` when there is bad news, from another thread; False if there is some that was not looked at."""
        with self._changed:
            self._interrupt = stop
            return not self._unseen

    def limit(self, most: int) -> int:
        """The limit up to which one may go with those who have left."""
        with self._changed:
            left: list[int] = [
                news["given"] for news in self._news if news["news"] == "left" and concerns(news, self._key)
            ]
            return min([most, *left])

    def failed(self, key: Key) -> bool:
        """Whether an attempt has failed, on any rank."""
        with self._changed:
            return any(news["news"] == "failed" and tuple(news["key"]) == key for news in self._news)

    # -- the tree ------------------------------------------------------------------------------------------------------

    def _pass_on(self) -> None:
        """Send a new report up, or a new verdict down, once all below have reported."""
        if self._topic is None or any(self._below.get(child, (None,))[0] != self._key for child in self._children):
            return
        merged = self._topic.merged([self._own, *(self._below[child][1] for child in self._children)])
        if self._parent is not None:
            if merged != self._told:
                self._told = merged
                self._send(self._parent, {"report": merged, "key": self._key})
        else:
            verdict = self._topic.verdict(merged)
            if verdict != self._told:
                self._told = verdict
                self._decide({"verdict": verdict, "key": self._key})

    def _decide(self, message: News) -> None:
        for child in self._children:
            self._send(child, message)
        if message["key"] is not None and tuple(message["key"]) == self._key:
            self.verdict = message["verdict"]
            self._changed.notify_all()

    def _spread(self, news: News, but: int | None = None) -> None:
        for neighbour in tuple(self._links):
            if neighbour != but:
                self._send(neighbour, news)
        if news["rank"] != self.rank or news["news"] == "failed":
            self._news.append(news)
        if news["rank"] != self.rank and concerns(news, self._key):
            self.alarmed = self._unseen = True
            if self._interrupt is not None:
                self._interrupt()
            self._changed.notify_all()

    def _send(self, neighbour: int, message: dict[str, Any]) -> None:
        link = self._links.get(neighbour)
        if link is not None:
            with suppress(OSError):  # the thread that listens finds out, and says which rank it is
                link.sendall(json.dumps(message).encode() + b"\n")

    def _listen(self) -> None:
        try:
            self._hear_all()
        except Exception as error:  # told to whoever waits for this thread
            with self._changed:
                self._news.append(
                    {"news": "died", "key": None, "rank": self.rank, "how": f"its thread ended: {error!r}"}
                )
                self.alarmed = self._unseen = True
                self._changed.notify_all()

    def _hear_all(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ, None)
            unread: dict[int, bytes] = {}
            for neighbour, link in self._links.items():
                selector.register(link, selectors.EVENT_READ, neighbour)
            beats = monotonic()  # when to send the next
            while not self._closed:
                silent = min(self._heard.values(), default=beats) + self._timeout
                selector.select(min(max(0.0, min(beats, silent) - monotonic()), _LONGEST))
                looked = monotonic()  # who is stopped may go on between any two lines, with all that has come meanwhile
                for ready, _ in selector.select(0):
                    neighbour = ready.data
                    if neighbour is None:
                        return
                    received, how = _received(ready.fileobj)
                    *lines, unread[neighbour] = (unread.get(neighbour, b"") + received).split(b"\n")
                    with self._changed:
                        self._heard[neighbour] = monotonic()
                        for line in lines:
                            self._hear(neighbour, json.loads(line))
                        if not received:
                            selector.unregister(ready.fileobj)
                            self._lost(neighbour, how)
                with self._changed:
                    self._find_silent(looked)
                    if monotonic() >= beats:
                        beats = monotonic() + self._timeout / _BEATS
                        for neighbour in self._links:
                            self._send(neighbour, {"beat": self.rank})

    def _find_silent(self, looked: float) -> None:
        """Spread the news of neighbours that are silent, when all that had come by the given time has been heard."""
        for neighbour, heard in self._heard.items():
            if looked - heard >= self._timeout:
                self._heard[neighbour] = monotonic()  # for the next attempt
                if self._key is not None:
                    self._spread({"news": "silent", "key": self._key, "rank": neighbour, "timeout": self._timeout})

    def _hear(self, neighbour: int, message: dict[str, Any]) -> None:
        if "report" in message:
            self._below[neighbour] = (tuple(message["key"]), message["report"])
            self._pass_on()
        elif "verdict" in message:
            self._decide(message)
        elif "ask" in message:
            ours = self._key is not None and tuple(message["ask"]) == self._key
            self._send(neighbour, {"answer": self._behind() if ours else [self.rank]})
        elif "beat" in message:
            pass  # that it was heard is all
        elif "answer" in message:
            self._answer = message["answer"]
            self._changed.notify_all()
        else:
            self._spread(message, but=neighbour)

    def _lost(self, neighbour: int, how: str) -> None:
        del self._heard[neighbour]
        self._links.pop(neighbour).close()
        if not any(news["rank"] == neighbour and news["news"] in ("gone", "died") for news in self._news):
            self._spread({"news": "died", "key": None, "rank": neighbour, "how": how})


def connected(timeout: float) -> Tree:
    """Meet the other ranks of the process group; all of them have to call."""
    rank, world = here()
    return Tree(rank, parent_of(rank), meet(store(), rank, world, timeout), timeout)


def _received(link: Any) -> tuple[bytes, str]:
    try:
        received = link.recv(1 << 16)
    except OSError as error:
        return b"", f"its connection broke ({error})"
    return received, "its connection was closed without a word, as when a process is killed; see its own output"
