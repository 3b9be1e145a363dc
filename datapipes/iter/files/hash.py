"""check_hash: only data with the expected hash passes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper, can_seek
from datapipes.errors import BadArgumentType
from datapipes.iter.files.contents import HASH_TYPES, Hashed, pair_of, pieces_of
from datapipes.messages.long_work import with_progress
from datapipes.messages.short import shortened
from datapipes.operator_support.checks import needs, same_length
from datapipes.position.on_error import Tolerant
from datapipes.position.steps import Step

_IN_MEMORY = 8 << 20  # bytes; a longer stream that cannot be sought is kept in a temporary file


@operator
class HashChecker(Tolerant, IterDataPipe[tuple[str, Any]]):
    """Each ``(name, data)`` whose hash is the expected one; any other is a ``HashMismatch``.

    Data is bytes, text (hashed as UTF-8), or a binary stream, which is read to its end.

    Args:
        hash_dict: The expected hash of each name, in hexadecimal digits, ignoring case. A name that is missing is a
            ``HashMismatch``.
        hash_type: ``"sha256"`` or ``"md5"``.
        rewind: Whether a stream goes back to its position. One that cannot be sought is kept while it is hashed, in
            memory or in a temporary file. ``False`` leaves a stream at its end.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a", b"")]).check_hash({"a": "d41d8cd98f00b204e9800998ecf8427e"}, "md5"))
    [('a', b'')]
    """

    _fluent: ClassVar[str | None] = "check_hash"

    source_datapipe: IterDataPipe[tuple[str, Any]]
    hash_dict: Mapping[str, str]
    hash_type: str = "sha256"
    rewind: bool = True

    def __post_init__(self) -> None:
        needs(
            self.hash_type in HASH_TYPES,
            self,
            f"hash_type should be one of {', '.join(HASH_TYPES)}, got {self.hash_type!r}",
        )
        super().__post_init__()

    def _step(self) -> Step:
        return Step("map", self._checked)

    def _checked(self, element: Any) -> tuple[str, Any]:
        name, data = pair_of(element, "check_hash")
        if isinstance(data, str | bytes | bytearray | memoryview):
            hashed = Hashed(name, self.hash_dict, self.hash_type)
            hashed.update(data)
            hashed.must_match()
            return name, data
        return name, self._checked_stream(name, data)

    def _checked_stream(self, name: str, stream: Any) -> StreamWrapper:
        hashed = Hashed(name, self.hash_dict, self.hash_type)
        again = self.rewind and can_seek(stream)
        start = stream.tell() if again else 0
        kept = None if again or not self.rewind else tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - handed on
        try:
            with pieces_of(stream) as pieces:
                for piece in with_progress("hashing", name, pieces):
                    if isinstance(piece, str):
                        raise BadArgumentType(f"check_hash() hashes bytes: open {shortened(name)} in mode 'rb'")
                    hashed.update(piece)
                    if kept is not None:
                        kept.write(piece)
                hashed.must_match()
        except BaseException:
            if kept is not None:
                kept.close()
            raise
        # Not earlier: a new wrapper would close the stream after a failure, but the stream may be retried.
        wrapped = stream if isinstance(stream, StreamWrapper) else StreamWrapper(stream, name=name)
        if kept is not None:
            wrapped.close()
            kept.seek(0)
            return StreamWrapper(kept, name=name)
        if again:
            wrapped.seek(start)
        return wrapped

    __len__ = same_length
