"""Lines of JSON decoded by orjson, with the values, errors and texts of json.

orjson makes floats of integers from 2**64 on, and its limit of nesting is its own. So a line with a run of 19 or more
digits, or with many brackets, goes to json. So does what orjson refuses: NaN, lone surrogates, other encodings, and
every error. The check reads a whole block of lines at once, because it costs more than decoding if it reads each.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from datapipes.elements.streams import unwrapped

_BLOCK = 64 * 1024
_RUN = b"0" * 19
_DIGITS = bytes(b"0"[0] if code in b"0123456789" else 0 for code in range(256))
_DEEP = 500
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class LineBlocks(Iterator[Iterable[bytes]]):
    """Lines of a binary file, as many at a time as its buffer holds.

    The file is read as if for single lines. An error of a read comes after the lines before it, and the next block
    begins behind it. A block raises the error in place of a line, because ``chain`` ends after an error between blocks.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream  # kept, because a wrapper closes its file with the last reference
        self._file = unwrapped(stream)
        self.agreed = False
        """Whether orjson decodes each line of the last block as json does, if it decodes the line."""

    @staticmethod
    def fit(stream: Any) -> bool:
        """Return whether a stream can be read in blocks."""
        return type(unwrapped(stream)) in (io.BufferedReader, io.BytesIO)

    def __next__(self) -> Iterable[bytes]:
        file, block, self.agreed = self._file, b"", False
        try:
            block = file.read(_BLOCK) if type(file) is io.BytesIO else file.read1(len(file.peek()))
            if block[-1:] not in (b"\n", b""):
                block += file.readline()
        except Exception as error:
            return chain(io.BytesIO(block[: block.rfind(b"\n") + 1]), map(_raised, [error]))
        if not block:
            raise StopIteration
        lines = list(io.BytesIO(block))
        self.agreed = _RUN not in block.translate(_DIGITS) and max(map(len, lines)) < 2 * _DEEP
        return lines


def _raised(error: Exception) -> bytes:
    raise error


def decoder(orjson: Any, blocks: LineBlocks | None, loads: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that decodes a line by ``orjson``, or by ``loads`` if the two may not agree.

    ``blocks`` has read the line; None: it comes from elsewhere.
    """
    fast, refusal = orjson.loads, orjson.JSONDecodeError

    def decoded(line: Any) -> Any:
        if (blocks is not None and blocks.agreed) or _agreed(line):
            try:
                return fast(line)
            except refusal:
                pass
        return loads(line)

    return decoded


def _agreed(line: Any) -> bool:
    """Return whether orjson decodes a line as json does, if it decodes the line."""
    if type(line) is str:
        line = line.encode("utf-8", "replace")
    return type(line) is bytes and _RUN not in line.translate(_DIGITS) and not _may_be_deep(line)


def _may_be_deep(line: bytes) -> bool:
    """Return whether a line may be nested so deep that json's answer depends on the stack."""
    if len(line) < 2 * _DEEP or line.count(b"[") + line.count(b"{") < _DEEP:
        return False
    brackets = line.translate(None, _NO_BRACKETS)
    for _ in range(8):  # each removes the innermost level
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return len(brackets) >= 2 * _DEEP
