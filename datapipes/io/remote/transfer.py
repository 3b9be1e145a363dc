"""Timeouts and retries: one policy for every remote read.

A ``Transfer`` is the policy and a ``Clock`` enforces it for one file. The seconds spent waiting for the server count
against the deadline: connecting, reading, and pausing before a retry. The time between two reads does not count. The
running clock is a context variable, so that code deep inside a library can ask for the remaining time. Errors that may
be temporary (a broken connection, an overloaded server) are retried. Permanent errors (not found, not allowed, an
unknown scheme) are raised at once. Errors that leave this module show no secret.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, fields
from math import isfinite
from threading import Event
from time import monotonic
from typing import Any, TypeVar

from datapipes.errors import BadArgument, CutShort, TransferError, TransferTimeout
from datapipes.messages.exception_copies import put_together
from datapipes.messages.short import hide

T = TypeVar("T")

LONGEST_PAUSE = 60.0
_chance = random.SystemRandom()  # for pauses only: no element depends on it


@dataclass(frozen=True, kw_only=True, repr=False)
class Transfer:
    """Timeouts and retries for a remote file.

    Args:
        timeout: Seconds for connecting and for each wait for data, or a pair with a number for each.
        deadline: Seconds spent waiting for one file in all, including retries and the pauses before them; the time
            between two reads does not count.
        retries: Number of retries for one file after temporary errors, such as a broken connection or an overloaded
            server. Permanent errors, such as a missing file, are raised at once.
        backoff: Seconds before the first retry, 60 at most; doubled before each further one, up to a minute. Up to
            half of each pause is left out at random. If the server asks for a longer pause, it is made, up to a minute.

    >>> Transfer(timeout=5, retries=1)
    Transfer(timeout=5, retries=1)
    """

    timeout: float | tuple[float, float] = 30.0
    deadline: float = 3600.0
    retries: int = 4
    backoff: float = 0.5

    def __post_init__(self) -> None:
        waits = (*self.timeouts, self.deadline) if len(self.timeouts) == 2 else ()
        if not waits or not all(type(wait) in (int, float) and wait > 0 and isfinite(wait) for wait in waits):
            raise BadArgument(f"timeout and deadline must be finite numbers of seconds above 0, in {self!r}")
        if type(self.retries) is not int or self.retries < 0 or not 0 <= self.backoff <= LONGEST_PAUSE:
            raise BadArgument(
                f"retries must be an integer from 0 on, and backoff between 0 and {LONGEST_PAUSE} seconds, in {self!r}"
            )

    def __repr__(self) -> str:
        values = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        return f"Transfer({', '.join(f'{name}={value!r}' for name, value, default in values if value != default)})"

    @property
    def timeouts(self) -> tuple[float, float]:
        """Seconds for connecting, and for each wait for data."""
        return self.timeout if isinstance(self.timeout, tuple) else (self.timeout, self.timeout)


DEFAULT = Transfer()


class Clock:
    """Seconds and attempts that one file has left. The time within ``with clock:`` counts."""

    def __init__(self, transfer: Transfer, label: str) -> None:
        self.transfer = transfer
        self.label = label
        self.failed = 0
        self._spent = 0.0
        self._since: float | None = None
        self._token: Token[Clock | None] | None = None

    def __enter__(self) -> Clock:
        self._since, self._token = monotonic(), _running.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._since is not None and self._token is not None:
            self._spent += monotonic() - self._since
            _running.reset(self._token)
            self._since = self._token = None

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        ending = _ending.get()
        if ending is not None and ending.is_set():
            return 0.0
        running = 0.0 if self._since is None else monotonic() - self._since
        return self.transfer.deadline - self._spent - running

    @property
    def timeouts(self) -> tuple[float, float]:
        """Seconds for connecting, and for the next wait for data; none goes past the deadline."""
        connect, read = self.transfer.timeouts
        left = max(self.left, 0.001)
        return min(connect, left), min(read, left)

    def check(self) -> None:
        """Raise TransferTimeout if the deadline has passed."""
        if self.left <= 0:
            raise self._too_late("")

    def again(self, error: Exception) -> None:
        """Pause before the next attempt. Raise if no attempt is left, or the error is permanent."""
        if self.left <= 0:
            raise self._too_late(f"; the last error was {type(error).__name__}: {hide(str(error))[:200]}") from None
        if self.failed >= self.transfer.retries or not may_pass(error):
            raise for_good(transfer_error(without_secrets(error), self.label)) from None
        pause = min(LONGEST_PAUSE, self.transfer.backoff * 2.0**self.failed) * _chance.uniform(0.5, 1.0)
        self.failed += 1
        with self:
            seconds = max(0.0, min(max(pause, _asked_for(error)), self.left))
            # A server does not announce when it is ready again.
            (_ending.get() or Event()).wait(seconds)

    def tried(self, make: Callable[[], T]) -> T:
        """Call ``make``, with retries after temporary errors."""
        while True:
            try:
                with self:
                    made = make()
                    self.check()  # a wait that ended at the deadline may have ended without an error
                    return made
            except Exception as error:
                self.again(error)

    def _too_late(self, why: str) -> TransferTimeout:
        return TransferTimeout(
            f"{self.label}: not read within deadline={self.transfer.deadline:g} seconds of waiting "
            f"(set it by transfer=Transfer(deadline=...)){why}"
        )


_running: ContextVar[Clock | None] = ContextVar("clock", default=None)
_ending: ContextVar[Event | None] = ContextVar("ending", default=None)


@contextmanager
def waits_end_with(ending: Event) -> Iterator[None]:
    """Leave the clocks in the block no time once an event is set: the session for which they run has ended."""
    token = _ending.set(ending)
    try:
        yield
    finally:
        _ending.reset(token)


def running_clock() -> Clock | None:
    """Return the clock of the file that is being waited for, or None."""
    return _running.get()


_PASSING = {
    ("aiohttp.client_exceptions", "ClientConnectionError"),
    ("aiohttp.client_exceptions", "ClientPayloadError"),
    ("aistore.sdk.errors", "AISRetryableError"),
    ("botocore.exceptions", "HTTPClientError"),
    ("botocore.exceptions", "IncompleteReadError"),
    ("http.client", "IncompleteRead"),
    ("http.client", "BadStatusLine"),
    ("requests.exceptions", "ChunkedEncodingError"),
    ("requests.exceptions", "ConnectionError"),
    ("requests.exceptions", "Timeout"),
    ("urllib3.exceptions", "ProtocolError"),
    ("urllib3.exceptions", "TimeoutError"),
}
_LASTING = {
    ("aiohttp.client_exceptions", "ClientConnectorCertificateError"),
    ("requests.exceptions", "SSLError"),
    ("urllib3.exceptions", "SSLError"),
}
_ENOUGH = "_tried_enough"  # set on an error after all attempts: readers around this one do not retry it again
_FOREIGN = ("aiohttp", "botocore", "http", "urllib3")


def may_pass(error: BaseException) -> bool:
    """Return whether a retry may succeed. Types of optional packages are recognized by their names.

    >>> may_pass(ConnectionResetError()), may_pass(FileNotFoundError())
    (True, False)
    """
    if _ENOUGH in vars(error):
        return False
    if isinstance(error, TransferError):
        return isinstance(error, CutShort)
    status = status_of(error)
    if status is not None:
        return may_pass_status(status)
    kinds = {(kind.__module__, kind.__qualname__) for kind in type(error).__mro__}
    if kinds & _LASTING or isinstance(error, ssl.SSLCertVerificationError):
        return False
    return isinstance(error, ConnectionError | TimeoutError) or bool(kinds & _PASSING)


def may_pass_status(status: int) -> bool:
    """Return whether a retry may succeed after an answer with an HTTP status."""
    return status in (408, 429) or status >= 500


def for_good(error: Exception) -> Exception:
    """Mark an error as permanent.

    >>> may_pass(for_good(ConnectionResetError()))
    False
    """
    error.__dict__[_ENOUGH] = True
    return error


def status_of(error: BaseException | None) -> int | None:
    """Return the HTTP status of an error, or of an error that caused it; None if there is none."""
    seen = 0
    while error is not None and seen < 5:
        answer: Any = getattr(error, "response", None)
        found = getattr(error, "status", getattr(answer, "status_code", getattr(error, "status_code", None)))
        if isinstance(answer, dict):  # the form of botocore
            found = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if type(found) is int and found:
            return found
        error, seen = error.__cause__, seen + 1
    return None


def transfer_error(error: Exception, label: str) -> Exception:
    """Return an error of a transfer as a TransferError that names the file and also has the error's own type.

    An error of another kind, such as a wrong option, is returned unchanged.
    """
    of_network = isinstance(error, OSError) or status_of(error) is not None or may_pass(error)
    if not of_network or (isinstance(error, TransferError) and label in str(error)):
        if label not in str(error):
            error.add_note(f"while reading {label}")
        return error
    text = str(error)
    named = _made(type(error), (text if label in text else f"{label}: {text}",), vars(error))
    named.errno = getattr(error, "errno", None)
    return named.with_traceback(error.__traceback__)


def _made(kind: type[Exception], arguments: tuple[Any, ...], state: Any) -> TransferError:
    of_both = _kind_of(kind)
    builtin = next(base for base in of_both.__mro__ if base.__module__ == "builtins")
    return put_together(of_both, builtin, arguments, state)


_of_both: dict[type[Exception], type[TransferError]] = {}


def _kind_of(kind: type[Exception]) -> type[TransferError]:
    """Return a class that is both a TransferError and ``kind``: a program that catches either of them catches it."""
    if issubclass(kind, TransferError):
        return kind

    def __reduce__(self: Exception) -> Any:  # pickle cannot find the class by a name
        return _made, (kind, self.args, vars(self))

    inside = {"__module__": __name__, "__reduce__": __reduce__}
    return _of_both.setdefault(kind, type(kind.__name__, (TransferError, kind), inside))


def _asked_for(error: BaseException) -> float:
    """Return the seconds that a server requests by ``Retry-After``, up to ``LONGEST_PAUSE``; 0 if there is none."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    asked = str(headers.get("Retry-After", ""))
    return min(float(asked), LONGEST_PAUSE) if asked.isdecimal() else 0.0


def without_secrets(error: Exception) -> Exception:
    """Return the error itself if neither it nor its causes show a secret, otherwise one of its kind without it.

    An error of an HTTP library that users do not expect becomes a TransferError.
    """
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in seen:
        seen.append(link)
        link = link.__cause__ or link.__context__
    foreign = type(error).__module__.partition(".")[0] in _FOREIGN
    if not foreign and all(
        hide(text) == text for link in seen for text in (str(link), repr(link), *getattr(link, "__notes__", ()))
    ):
        return error
    text = hide(str(error))
    if type(error).__module__ == "requests.exceptions":
        return type(error)(text)
    if type(error).__module__ == "builtins":
        alike = type(error)(*(hide(x) if isinstance(x, str) else x for x in error.args))
        if isinstance(error, OSError) and isinstance(alike, OSError) and isinstance(error.filename, str):
            alike.filename = hide(error.filename)
        return alike
    if isinstance(error, FileNotFoundError | PermissionError | TimeoutError | ConnectionError):
        kind: Any = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
        made: Exception = kind(text)
        return made
    return TransferError(f"{type(error).__name__}: {text}")
