"""A decompressing stream that gives its last bytes only after their checksum is verified.

It reads concatenated streams, as gzip and similar formats allow. After a stream there may be another stream, zeros or
nothing; anything else is an error. Data that ends within a stream, and data without any stream, are errors too.
A file of concatenated streams that is cut exactly between two of them looks complete. An error is permanent: each
further read raises it again.
"""

from __future__ import annotations

import io
import zlib
from typing import Any, NamedTuple

from datapipes.elements.streams import can_seek
from datapipes.errors import CorruptData, CorruptStream, Loader2Error, without_frames
from datapipes.io.archives.codecs import CODECS, LONGEST_BEGINNING, MARKED, UNMARKED, Codec, codec_of
from datapipes.io.archives.limits import Limits, Meter, Metered, meter_of

CHUNK = 64 * 1024
_LARGE = 256 * 1024


class Expected(NamedTuple):
    """Expected size and CRC of the single stream of an archive member."""

    size: int
    crc: int


class Inflating(Metered):
    """Decompressed content of a file. It can be sought if the file can; seeking backwards decompresses again."""

    meter: Meter

    def __init__(
        self,
        source: Any,
        codec: str,
        label: str,
        meter: Meter,
        head: bytes = b"",
        expected: Expected | None = None,
        corrupt: type[CorruptData] = CorruptStream,
    ) -> None:
        self._source = source
        self._name = codec
        self._label = label
        self._head = head  # bytes that were already read from the source
        self._expected = expected
        self._corrupt = corrupt
        self._start = source.tell() - len(head) if can_seek(source) else None
        self.meter = meter
        self._failed: Exception | None = None
        self._begin()

    def _begin(self) -> None:
        self._codec: Codec | None = None
        self._taken = 0
        self._given = 0
        self._crc = 0
        self._streams = 0
        self._is_over = False

    def went_through(self, taken: int, given: int) -> None:
        """Move to the end without reading: the content was read in another way."""
        self._taken, self._given, self._is_over = taken, given, True

    def seekable(self) -> bool:
        return self._start is not None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if self._start is None:
            raise io.UnsupportedOperation(f"{self._label}: the compressed file cannot be sought")
        if whence == io.SEEK_END:
            while self._some(_LARGE):
                pass
        target = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._given, io.SEEK_END: self._given}[whence])
        if target < self._given:
            self.meter.took(-self._taken)
            self.meter.gave(-self._given)
            self._source.seek(self._start)
            self._head, self._failed = b"", None
            self._begin()
        while self._given < target and self._some(min(_LARGE, target - self._given)):
            pass
        return self._given

    def readinto(self, buffer: Any) -> int:
        data = self._some(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        parts = []
        while data := self._some(_LARGE):
            parts.append(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, most: int) -> bytes:
        """Return the next bytes, at most ``most``; none at the end."""
        if self._failed is not None:
            raise without_frames(self._failed)
        try:
            data = self._next(most)
            if data:
                self._given += len(data)
                self.meter.gave(len(data))
            return data
        except Exception as error:
            if isinstance(error, Loader2Error):
                self._failed = without_frames(error)
            raise

    def _next(self, most: int) -> bytes:
        while not self._is_over and most:
            codec, data = self._codec, b""
            if codec is None or codec.eof:
                data = self._between_streams(b"" if codec is None else codec.unused_data)
                if not data:
                    break
                codec = self._codec = CODECS[self._name]()
                self._streams += 1
            elif codec.needs_input:
                data = self._more()
                if not data:
                    if self._name not in UNMARKED:
                        raise self._error("it ends in the middle of its data")
                    break
            try:
                made = codec.decompress(data, most)
            except ImportError:
                raise
            except Exception as error:
                raise self._error(f"the {self._name} data is damaged: {error}") from error
            if made:
                self._check(made)
                return made
        if not self._is_over and most:
            self._check_end()
            self._is_over = True
        return b""

    def _between_streams(self, rest: bytes) -> bytes:
        """Return the beginning of the next stream, or no bytes if there is none."""
        if self._expected is not None and self._streams:
            if rest or self._more():
                raise self._error("there is more data after its compressed data")
            return b""
        data = rest or self._more()
        while self._streams and data and not (data := data.lstrip(b"\0")):
            data = self._more()
        if data and self._name in MARKED:
            while len(data) < LONGEST_BEGINNING and (more := self._more()):
                data += more
            if codec_of(data) != self._name:
                raise self._error(f"the data that begins there is not {self._name} data")
        return data

    def _more(self) -> bytes:
        data, self._head = self._head or self._source.read(CHUNK), b""
        self._taken += len(data)
        self.meter.took(len(data))
        return bytes(data or b"")

    def _check(self, made: bytes) -> None:
        expected = self._expected
        if expected is not None:
            self._crc = zlib.crc32(made, self._crc)
            size = self._given + len(made)
            if size > expected.size:
                raise self._error(f"it has more than the expected {expected.size} bytes")
            if size == expected.size and self._crc != expected.crc:
                raise self._error("its checksum (CRC-32) does not match")

    def _check_end(self) -> None:
        if not self._streams and self._name not in UNMARKED:
            raise self._error(f"it is empty, which valid {self._name} data never is")
        if self._expected is not None and (self._given, self._crc) != self._expected:
            raise self._error(f"it should have {self._expected.size} bytes and CRC-32 {self._expected.crc:#x}")

    def _error(self, what: str) -> CorruptData:
        return self._corrupt(
            f"{self._label}: {what}; at byte {self._taken} of the compressed data, after {self._given} bytes of output"
        )


def inflated(
    source: Any, codec: str, label: str, limits: Limits, head: bytes = b"", buffer_size: int = CHUNK
) -> io.BufferedReader:
    """Open the decompressed content of a file."""
    meter = Meter(limits, label, meter_of(source))
    return io.BufferedReader(Inflating(source, codec, label, meter, head), buffer_size)
