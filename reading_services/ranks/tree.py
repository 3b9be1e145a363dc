"""One rank's node in the tree of ranks: its reports, the verdicts, and a listening thread.

Reports go up: a rank merges its own with one of each child. The verdict of rank 0 comes down. Bad news goes from
neighbour to neighbour to all ranks.

The listening thread sends heartbeats to the neighbours, so a rank that computes for long is not taken for dead. A
neighbour that is silent for the timeout is bad news: its process or its machine has stopped.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import threading
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from datapipes.ranks.exchange import Exchange
from datapipes.ranks.topics import Key, News, RankReport
from datapipes.sharding.group import here, store
from reading_services.ranks.rendezvous import meet, parent_of

_PATIENCE: Final = 2.0
"""Seconds to wait for the end of the thread."""
_BEATS: Final = 4
"""Heartbeats that a rank sends at least within the timeout."""
_LONGEST: Final = 3600.0
"""Longest wait of the thread in seconds: systems limit it."""


class Tree(Exchange):
    """The connections of one rank, for one loader."""

    def __init__(self, rank: int, parent: int | None, links: dict[int, socket.socket], timeout: float = 1800) -> None:
        self._timeout = timeout
        self._heard = dict.fromkeys(links, monotonic())  # when each neighbour was last heard
        self._parent = parent
        self._links = dict(links)
        self._children = tuple(neighbour for neighbour in links if neighbour != parent)
        self._below: dict[int, tuple[Key, RankReport]] = {}
        self._last_message: tuple[Key | None, RankReport] | None = None  # the last message up, or down on rank 0
        self._answer: list[int] | None = None
        self._closed = False
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name=f"ranks ({rank})", daemon=True)
        super().__init__(rank)
        self._thread.start()

    def close(self) -> None:
        """Tell the neighbours that this rank leaves, and end the thread."""
        with self._lock:
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
        # The connections belong to the parent process: the other ranks have to notice its end.
        for link in (*self._links.values(), self._wake, self._woken):
            if link.fileno() >= 0:  # it is negative if the tree was closed
                os.close(link.detach())
        self._links = {}
        super().forked()

    # -- late ranks ----------------------------------------------------------------------------------------------------

    def _late(self) -> list[int]:
        behind = self._behind()
        if self._parent is not None and behind in ([], [self.rank]):
            self._answer = None
            self._send(self._parent, {"ask": self._key})
            self._changed.wait_for(lambda: self._answer is not None, _PATIENCE)
            behind = self._answer or [self._parent]
        return behind

    def _behind(self) -> list[int]:
        """Return the ranks that all others wait for, as far as this rank knows. A child stands for all below it."""
        if self._topic is None:
            return [self.rank]
        below = {child: report for child, (key, report) in self._below.items() if key == self._key}
        silent = [child for child in self._children if child not in below]
        return silent or self._topic.behind({self.rank: self._own, **below})

    # -- the tree ------------------------------------------------------------------------------------------------------

    def _pass_on(self) -> None:
        """Send a new report up, or a new verdict down, once all children have reported."""
        if self._topic is None or any(self._below.get(child, (None,))[0] != self._key for child in self._children):
            return
        merged = self._topic.merged([self._own, *(self._below[child][1] for child in self._children)])
        said = merged if self._parent is not None else self._topic.verdict(merged)
        if self._last_message != (message := (self._key, said)):
            self._last_message = message
            if self._parent is not None:
                self._send(self._parent, {"report": said, "key": self._key})
            else:
                self._decide({"verdict": said, "key": self._key})

    def _decide(self, message: News) -> None:
        for child in self._children:
            self._send(child, message)
        self._decided(tuple(message["key"]), message["verdict"])

    def _spread(self, news: News, but: int | None = None) -> None:
        for neighbour in tuple(self._links):
            if neighbour != but:
                self._send(neighbour, news)
        self._note(news)

    def _send(self, neighbour: int, message: dict[str, Any]) -> None:
        link = self._links.get(neighbour)
        if link is not None:
            with suppress(OSError):  # the listening thread notices it, and names the rank
                link.sendall(json.dumps(message).encode() + b"\n")

    def _listen(self) -> None:
        try:
            self._hear_all()
        except Exception as error:  # raised in the thread that waits for a verdict
            with self._lock:
                self._news.append(
                    {"news": "died", "key": None, "rank": self.rank, "how": f"its thread ended: {error!r}"}
                )
                self._alarm()

    def _hear_all(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ, None)
            unread: dict[int, bytes] = {}
            for neighbour, link in self._links.items():
                selector.register(link, selectors.EVENT_READ, neighbour)
            beats = monotonic()  # when to send the next heartbeat
            while not self._closed:
                silent = min(self._heard.values(), default=beats) + self._timeout
                selector.select(min(max(0.0, min(beats, silent) - monotonic()), _LONGEST))
                looked = monotonic()  # before messages are read that came while this process was stopped
                for ready, _ in selector.select(0):
                    neighbour = ready.data
                    if neighbour is None:
                        return
                    received, how = _received(ready.fileobj)
                    *lines, unread[neighbour] = (unread.get(neighbour, b"") + received).split(b"\n")
                    with self._lock:
                        self._heard[neighbour] = monotonic()
                        for line in lines:
                            self._hear(neighbour, json.loads(line))
                        if not received:
                            selector.unregister(ready.fileobj)
                            self._lost(neighbour, how)
                with self._lock:
                    self._find_silent(looked)
                    if monotonic() >= beats:
                        beats = monotonic() + self._timeout / _BEATS
                        for neighbour in self._links:
                            self._send(neighbour, {"beat": self.rank})

    def _find_silent(self, looked: float) -> None:
        """Report neighbours as silent, after all messages up to the given time were read."""
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
            pass  # it has been noted as heard
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
    """Connect to the other ranks of the process group. All ranks must call it."""
    rank, world = here()
    return Tree(rank, parent_of(rank), meet(store(), rank, world, timeout), timeout)


def _received(link: Any) -> tuple[bytes, str]:
    try:
        received = link.recv(1 << 16)
    except OSError as error:
        return b"", f"its connection broke ({error})"
    return received, "its connection was closed without a message, as when a process is killed; see its own output"
