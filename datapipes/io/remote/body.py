"""A readable HTTP body that resumes after a broken connection.

A broken connection is resumed at the byte where it broke, and only if the file is provably the same. If the first
answer names its version (a strong ETag, or Last-Modified and the length), a Range request on that condition gets the
rest. Otherwise the file is read again from its start, and its beginning must have the digest of the bytes already
given. A file that ends before its Content-Length, or within its chunks, is a broken connection and never a short file.
An answer with neither (as in HTTP/1.0) ends with its connection: a cut is undetectable.

After an error, each further read raises it again: a buffer in between may have dropped bytes.
"""

from __future__ import annotations

import hashlib
import io
import re
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from datapipes.elements.streams import unwrapped
from datapipes.errors import CutShort, TransferError, without_frames
from datapipes.io.remote.transfer import Clock
from datapipes.messages.long_work import long_work
from datapipes.messages.short import hide

BUFFER = 256 * 1024
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class Resumable(io.RawIOBase):
    """Readable file that resumes after broken connections as often as its clock allows, and then raises.

    A subclass implements how to receive bytes, describe an error, and resume after ``_at`` bytes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = 0
        self._ahead = b""  # bytes that were received ahead
        self._error: Exception | None = None
        self._work = long_work("downloading", clock.label)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._next(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """Return the rest of the file. io's own method reads 8 KiB at a time."""
        parts: list[bytes] = []
        while data := self._next(BUFFER):
            parts.append(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_ahead(self, most: int) -> bool:
        """Receive up to ``most`` bytes now, to be given later. Return whether that is the rest of the file.

        The error that ends it is raised behind them.
        """
        parts: list[bytes] = []
        while most > 0:
            try:
                data = self._received_next(min(most, BUFFER))
            except Exception as error:
                self._error = without_frames(error)
                break
            if not data:
                break
            parts.append(data)
            most -= len(data)
        self._ahead += b"".join(parts)
        return most > 0

    def _next(self, most: int) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead[:most], self._ahead[most:]
            return data
        return self._received_next(most)

    def _received_next(self, most: int) -> bytes:
        if self._error is not None:
            raise without_frames(self._error)
        while True:
            try:
                with self._clock:
                    data = self._received(most)
                    self._clock.check()
                break
            except Exception as error:
                self._recover(error)
        self._at += len(data)
        if self._work is not None:
            self._work.add(len(data))
        return data

    def tell(self) -> int:
        return self._at - len(self._ahead)

    def _recover(self, error: Exception) -> None:
        while True:
            try:
                self._clock.again(self._with_position(error))
            except Exception as final:
                self._error = without_frames(final)
                raise
            try:
                with self._clock:
                    self._resume()
                return
            except Exception as another:
                error = another

    def _broken_off(self, error: Exception) -> CutShort:
        what = f"{type(error).__name__}: {hide(str(error))}"
        return CutShort(f"{self._clock.label}: broken off after {self._at} bytes: {what}")

    def close(self) -> None:
        if not self.closed:
            self._let_go()
        super().close()

    @abstractmethod
    def _received(self, most: int) -> bytes:
        """Return the next bytes; none at the end. Raise if the file ends too early."""

    @abstractmethod
    def _with_position(self, error: Exception) -> Exception:
        """Return the error with its position in the file: ``CutShort`` for a broken connection."""

    @abstractmethod
    def _resume(self) -> None:
        """Continue after the bytes that were read."""

    @abstractmethod
    def _let_go(self) -> None:
        """Release the connection."""


class HTTPBody(Resumable):
    """HTTP body. ``fetch`` makes a request with additional headers and returns a response of urllib3."""

    def __init__(self, fetch: Callable[[dict[str, str]], Any], clock: Clock) -> None:
        super().__init__(clock)
        self._fetch = fetch
        self._answer: Any = None
        clock.tried(self._begin)
        self._work = long_work("downloading", clock.label, self._total)

    @property
    def headers(self) -> Any:
        """The headers of the first answer."""
        return self._answer.headers

    @property
    def etag(self) -> str | None:
        """The strong ETag of the file, if it has one."""
        return self._version if self._version is not None and self._version.startswith('"') else None

    def begin_at(self, at: int) -> None:
        """Continue at an offset of the file, which has a strong ETag, by a request for the rest."""
        self._let_go()
        self._at = at
        if at != self._total:
            self._clock.tried(self._resume)

    def _received(self, most: int) -> bytes:
        if self._total is not None and self._at == self._total:
            return b""
        data: bytes = self._answer.read1(most, decode_content=False)
        if not data and self._total is not None:
            raise CutShort(f"{self._clock.label}: the connection ended after {self._at} of {self._total} bytes")
        if self._digest is not None:
            self._digest.update(data)
        return data

    def _with_position(self, error: Exception) -> Exception:
        self._let_go()
        if isinstance(error, TransferError) or hasattr(error, "response"):
            return error
        of_http = type(error).__module__.partition(".")[0] in ("urllib3", "http", "requests")
        return self._broken_off(error) if of_http or isinstance(error, OSError) else error

    def _begin(self) -> None:
        """Request the file from its start."""
        self._answer = self._fetch({})
        headers = self._answer.headers
        length = headers.get("Content-Length", "")
        self._total = int(length) if length.isdecimal() and "Transfer-Encoding" not in headers else None
        self._version = _version(headers)
        self._digest = None if self._version else hashlib.blake2b()

    def _resume(self) -> None:
        if not self._at:
            self._begin()
        elif self._version is None:
            self._answer = self._fetch({})
            self._pass_over(hashlib.blake2b())
        else:
            self._answer = self._fetch({"Range": f"bytes={self._at}-", "If-Range": self._version})
            headers, partial = self._answer.headers, self._answer.status == 206
            version = _version(headers)
            if version != self._version and not (partial and version is None):  # If-Range has checked that case
                raise self._changed(f"its version was {self._version} and is now {version}")
            if partial:
                self._check_range(headers.get("Content-Range", ""))
            elif headers.get("Content-Length") != (None if self._total is None else str(self._total)):
                raise self._changed(f"its length was {self._total} and is now {headers.get('Content-Length')}")
            else:
                self._pass_over(None)

    def _check_range(self, given: str) -> None:
        found = _RANGE.fullmatch(given)
        if found is None or int(found[1]) != self._at or (self._total and found[3] not in ("*", str(self._total))):
            raise self._changed(f"the server was asked for the bytes from {self._at} on, and sent {given!r:.80}")
        if found[3] != "*":
            self._total = int(found[3])

    def _pass_over(self, digest: Any) -> None:
        """Read the bytes again that were given before, and check them."""
        left = self._at
        while left:
            data = self._answer.read1(min(left, BUFFER), decode_content=False)
            self._clock.check()
            if not data:
                raise CutShort(f"{self._clock.label}: read again, it ended {left} bytes before the place of the break")
            left -= len(data)
            if digest is not None:
                digest.update(data)
        if digest is not None and self._digest is not None and digest.digest() != self._digest.digest():
            raise self._changed("read again, its beginning differs from the bytes already given")

    def _changed(self, how: str) -> TransferError:
        return TransferError(
            f"{self._clock.label}: the connection broke after {self._at} bytes, and the file has changed since: {how}"
        )

    def _let_go(self) -> None:
        if self._answer is not None:
            with suppress(OSError):
                self._answer.close()


def opened_body(fetch: Callable[[dict[str, str]], Any], clock: Clock) -> io.BufferedReader:
    """Open a file of the bytes that ``fetch`` brings."""
    return io.BufferedReader(HTTPBody(fetch, clock), BUFFER)


def remote_file(stream: Any) -> Resumable | None:
    """Return the file of a stream if it is remote: the raw one below the buffers of bytes and text."""
    file = unwrapped(stream)
    while (inner := getattr(file, "buffer", None) or getattr(file, "raw", None)) is not None:
        file = inner
    return file if isinstance(file, Resumable) else None


def _version(headers: Any) -> str | None:
    """Return a proof that two answers are of one file: a strong ETag, or a date if the length is known; else None."""
    etag: str = headers.get("ETag", "")
    if etag.startswith('"'):
        return etag
    return headers.get("Last-Modified") if headers.get("Content-Length") else None
