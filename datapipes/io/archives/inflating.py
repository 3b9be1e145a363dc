"""A decompressing stream that gives its last bytes only after their checksum is verified.

It reads concatenated streams, as gzip and similar formats allow. After a stream there may be another stream, zeros or
nothing; anything else is an error. Data that ends within a stream, and data without any stream, are errors too.
A file of concatenated streams that is cut exactly between two of them looks complete. An error is permanent: each
further read raises it again.

If isal is used and refuses the data, zlib reads the file again from its start: zlib's data or its error counts. So
damaged data behaves the same with and without isal.
"""

from __future__ import annotations

import io
import zlib
from collections import deque
from typing import Any, NamedTuple

from datapipes.elements.streams import can_seek
from datapipes.errors import CorruptData, CorruptStream, Loader2Error, without_frames
from datapipes.io.archives.codecs import LONGEST_BEGINNING, MARKED, UNMARKED, WBITS, Codec, codec_of, new_codec
from datapipes.io.archives.limits import FREE, Meter, Metered, Unpacking, meter_of

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
        self._isal = meter.isal if codec in WBITS else None
        self._input = _CompressedInput(source, head, self._isal is not None)
        self._name = codec
        self._label = label
        self._expected = expected
        self._corrupt = corrupt
        self.meter = meter
        self._failed: Exception | None = None  # raised by each further read
        self._late: Exception | None = None  # raised by the next read
        self._begin()

    def _begin(self) -> None:
        self._codec: Codec | None = None
        self._taken = 0
        self._given = 0  # bytes
        self._made = 0  # bytes, with those of the piece that is being made
        self._crc = 0
        self._streams = 0
        self._is_over = False

    def went_through(self, taken: int, given: int) -> None:
        """Move to the end without reading: the content was read in another way."""
        self._taken, self._given, self._made, self._is_over = taken, given, given, True

    def seekable(self) -> bool:
        return self._input.seeks

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if not self._input.seeks:
            raise io.UnsupportedOperation(f"{self._label}: the compressed file cannot be sought")
        if whence == io.SEEK_END:
            while self._some(_LARGE):
                pass
        target = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._given, io.SEEK_END: self._given}[whence])
        if target < self._given:
            self._restart()
        self._go_to(target)
        return self._given

    def _go_to(self, target: int) -> None:
        while self._given < target and self._some(min(_LARGE, target - self._given)):
            pass

    def _restart(self) -> None:
        self._input.restart()
        self.meter.took(-self._taken)
        self.meter.gave(-self._given)
        self._failed = self._late = None
        self._begin()

    def readinto(self, buffer: Any) -> int:
        at = 0
        for part in self._some(len(buffer)):
            buffer[at : at + len(part)] = part
            at += len(part)
        return at

    def readall(self) -> bytes:
        parts = []
        while some := self._some(_LARGE):
            parts += some
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, most: int) -> list[bytes]:
        """Return the next ``most`` bytes, in parts; fewer at the end or before an error, and no part at the end."""
        if self._failed is not None:
            raise without_frames(self._failed)
        try:
            try:
                parts = self._parts(most)
            except CorruptData:
                if not self._zlib_may_differ:
                    raise
                self._isal = None
                given = self._given
                self._restart()
                self._go_to(given)
                parts = self._parts(most)
            self.meter.gave(self._made - self._given)
            self._given = self._made
            return parts
        except Exception as error:
            if isinstance(error, Loader2Error):
                self._failed = without_frames(error)
            raise

    @property
    def _zlib_may_differ(self) -> bool:
        return self._isal is not None and self._input.restarts

    def _parts(self, most: int) -> list[bytes]:
        """Decompress until there are ``most`` bytes, so that where an error comes does not depend on the library."""
        if self._late is not None:
            raise self._taken_late()  # no variable of a frame of its traceback holds the error
        parts: list[bytes] = []
        while (left := most - (self._made - self._given)) > 0:
            try:
                made = self._next(left)
            except Exception as error:
                if not parts or (isinstance(error, CorruptData) and self._zlib_may_differ):
                    raise
                self._late = without_frames(error)  # after the parts that were made before it
                break
            if not made:
                break
            parts.append(made)
        return parts

    def _taken_late(self) -> Exception:
        late, self._late = self._late, None
        assert late is not None
        return late

    def _next(self, most: int) -> bytes:
        while not self._is_over and most:
            codec, data = self._codec, b""
            if codec is None or codec.eof:
                data = self._between_streams(b"" if codec is None else codec.unused_data)
                if not data:
                    break
                codec = self._codec = new_codec(self._name, self._isal, data)
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
                self._made += len(made)
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
        data = self._input.read()
        self._taken += len(data)
        self.meter.took(len(data))
        return data

    def _check(self, made: bytes) -> None:
        expected = self._expected
        if expected is not None:
            self._crc = zlib.crc32(made, self._crc)
            size = self._made + len(made)
            if size > expected.size:
                raise self._error(f"it has more than the expected {expected.size} bytes")
            if size == expected.size and self._crc != expected.crc:
                raise self._error("its checksum (CRC-32) does not match")

    def _check_end(self) -> None:
        if not self._streams and self._name not in UNMARKED:
            raise self._error(f"it is empty, which valid {self._name} data never is")
        if self._expected is not None and (self._made, self._crc) != self._expected:
            raise self._error(f"it should have {self._expected.size} bytes and CRC-32 {self._expected.crc:#x}")

    def _error(self, what: str) -> CorruptData:
        return self._corrupt(
            f"{self._label}: {what}; at byte {self._taken} of the compressed data, after {self._made} bytes of output"
        )


class _CompressedInput:
    """Compressed bytes of a file, which can be read again from the start if the file can be sought or is short.

    Args:
        source: The file.
        head: Bytes that were already read from the file.
        keeps: Whether to keep the first bytes of a file that cannot be sought.
    """

    def __init__(self, source: Any, head: bytes, keeps: bool) -> None:
        self._source = source
        self._head = head
        self._start = source.tell() if can_seek(source) else None
        self._unread = deque([head] if head else [])
        self._kept: list[bytes] | None = [] if keeps and self._start is None else None
        self._kept_size = 0

    @property
    def seeks(self) -> bool:
        return self._start is not None

    @property
    def restarts(self) -> bool:
        return self._start is not None or self._kept is not None

    def read(self) -> bytes:
        """Return the next bytes; none at the end."""
        if self._unread:
            return self._unread.popleft()
        data = bytes(self._source.read(CHUNK) or b"")
        if self._kept is not None:
            self._kept.append(data)
            self._kept_size += len(data)
            if self._kept_size > FREE:
                self._kept = None
        return data

    def restart(self) -> None:
        """Go back to the start."""
        if self._start is not None:
            self._source.seek(self._start)
        self._unread = deque(data for data in (self._head, *(self._kept or ())) if data)
        self._kept = None


def inflated(
    source: Any, codec: str, label: str, unpacking: Unpacking, head: bytes = b"", buffer_size: int = CHUNK
) -> io.BufferedReader:
    """Open the decompressed content of a file."""
    meter = Meter(unpacking, label, meter_of(source))
    return io.BufferedReader(Inflating(source, codec, label, meter, head), buffer_size)
