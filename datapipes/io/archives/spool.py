"""A copy of a stream that can be sought, for what has to be read from its end; large ones wait on disk."""

from __future__ import annotations

import tempfile
from typing import Any

from datapipes.elements.streams import StreamWrapper, can_seek
from datapipes.io.archives.inflating import CHUNK
from datapipes.io.archives.limits import FREE, meter_of
from datapipes.io.archives.ranges import Shared


def seekable(file: Any, label: str) -> tuple[Any, Shared]:
    """The file and the shared parts of it; a copy, if it cannot be sought or only by decompressing it again."""
    meter = meter_of(file)
    if meter is not None or not can_seek(file):
        # It lives as long as its last reader, and the wrapper closes it then.
        copy = StreamWrapper(tempfile.SpooledTemporaryFile(max_size=FREE), name=label)  # noqa: SIM115 - see above
        while data := file.read(CHUNK):
            copy.write(data)
        copy.seek(0)
        file = copy
    file.seek(0)
    shared = Shared(file, label)
    shared.meter = meter
    return file, shared
