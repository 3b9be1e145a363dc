"""Daemon threads for calls that may wait longer than their caller may: for a server, or in a source that is stuck.

``ThreadPoolExecutor`` joins its threads when the interpreter ends: a stalled server would delay that by its timeout.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE = 2.0  # seconds to wait for a thread that has been told to stop

_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class DaemonThreads(Executor):
    """Executor of up to ``most`` daemon threads. They start on demand, and end when the executor does or is dropped."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()  # an entry for each thread that waits for a call
        self.threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., T], /, *args: Any, **_: Any) -> Future[T]:
        future: Future[T] = Future()
        self._calls.put((future, fn, args))
        try:
            self._idle.get_nowait()
        except Empty:
            if len(self.threads) < self._most:
                thread = threading.Thread(target=_serve, args=(self._calls, self._idle), name=self._name, daemon=True)
                self.threads.append(thread)
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
        threads, self.threads = self.threads, []
        for _ in threads:
            self._calls.put(None)
        until = monotonic() + _PATIENCE
        for thread in threads if wait else ():
            if thread is not threading.current_thread():  # where the collector may find an abandoned iterator
                thread.join(max(0.0, until - monotonic()))

    def __del__(self) -> None:
        if vars(self).get("threads"):
            self.shutdown()


class CallThread:
    """A thread that calls one function after another. It starts with the first call."""

    def __init__(self, name: str) -> None:
        self._threads = DaemonThreads(1, name)
        self._last: Future[object] = Future()
        self._last.set_result(None)
        self._is_stuck = False

    @property
    def thread(self) -> threading.Thread:
        """The thread, from the first call to ``end``."""
        return self._threads.threads[0]

    def begin(self, function: Callable[[], object]) -> None:
        """Call a function in the thread, after the previous ones."""
        self._last, self._is_stuck = self._threads.submit(function), False

    def wait(self) -> None:
        """Wait for the end of the last call, for at most ``_PATIENCE`` seconds: it may be stuck."""
        if not self._is_stuck and not self._is_here():
            self._is_stuck = not wait([self._last], _PATIENCE).done

    def settle(self) -> None:
        """Wait for the end of the last call, without a limit."""
        if not self._is_here():
            wait([self._last])

    def end(self, function: Callable[[], object], patience: float = _PATIENCE) -> bool:
        """Call a function last, and raise its exception. Return whether the thread ends within ``patience`` seconds.

        If a call is stuck, the function is called after it.
        """
        closed, thread, is_here = self._threads.submit(function), self.thread, self._is_here()
        self._threads.shutdown()
        if is_here:
            return True
        thread.join(0 if self._is_stuck else patience)
        if closed.done():
            closed.result()
        return not thread.is_alive()

    def _is_here(self) -> bool:
        """Return whether the caller runs in this thread: the collector may close an abandoned iterator there."""
        return threading.current_thread() in self._threads.threads


def _serve(calls: SimpleQueue[_Call | None], idle: SimpleQueue[None]) -> None:
    while (call := calls.get()) is not None:
        future, fn, args = call
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(fn(*args))
            except BaseException as error:  # raised for the caller that waits for the result
                future.set_exception(error)
        del call, future, fn, args  # they may hold the executor, or the stages above
        idle.put(None)
