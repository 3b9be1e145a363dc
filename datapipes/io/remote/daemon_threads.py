"""Daemon threads for calls that may wait for a server longer than their caller may.

``ThreadPoolExecutor`` joins its threads when the interpreter ends: a stalled server would delay that by its timeout.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE = 2.0

_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class DaemonThreads(Executor):
    """Executor of up to ``most`` daemon threads. They start on demand, and end when the executor does or is dropped."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()  # an entry for each thread that waits for a call
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., T], /, *args: Any, **_: Any) -> Future[T]:
        future: Future[T] = Future()
        self._calls.put((future, fn, args))
        try:
            self._idle.get_nowait()
        except Empty:
            if len(self._threads) < self._most:
                thread = threading.Thread(target=_serve, args=(self._calls, self._idle), name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """End the threads after their present calls. With ``wait``, wait up to ``_PATIENCE`` seconds for their end."""
        while cancel_futures:
            try:
                call = self._calls.get_nowait()
            except Empty:
                break
            if call is not None:
                call[0].cancel()
        threads, self._threads = self._threads, []
        for _ in threads:
            self._calls.put(None)
        until = monotonic() + _PATIENCE
        for thread in threads if wait else ():
            if thread is not threading.current_thread():  # where the collector may find an abandoned iterator
                thread.join(max(0.0, until - monotonic()))

    def __del__(self) -> None:
        if vars(self).get("_threads"):
            self.shutdown()


def _serve(calls: SimpleQueue[_Call | None], idle: SimpleQueue[None]) -> None:
    while (call := calls.get()) is not None:
        future, fn, args = call
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(fn(*args))
            except BaseException as error:  # raised for the caller that waits for the result
                future.set_exception(error)
        del call, future, fn, args  # they may hold the executor
        idle.put(None)
