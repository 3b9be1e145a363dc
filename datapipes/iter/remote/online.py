"""read_from_remote: a stream for each URL, of Google Drive or of any other place."""

from __future__ import annotations

from typing import ClassVar

from datapipes.elements.streams import StreamWrapper
from datapipes.io.remote.web import host_of
from datapipes.iter.remote.gdrive import gdrive_opener
from datapipes.iter.remote.http import Opener, WebReader, http_opener

GOOGLE = {"drive.google.com", "docs.google.com"}


class OnlineReader(WebReader):
    """``(url or file name, stream)`` for each URL, as ``read_from_gdrive`` or ``read_from_http`` has it, by its host.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["https://example.org/a.csv"]).read_from_remote(timeout=5)
    IterableWrapper(['https://example.org/a.csv']).read_from_remote(timeout=5)
    """

    _parents: ClassVar[tuple[str, ...] | None] = ("source_datapipe",)
    _fluent: ClassVar[str | None] = "read_from_remote"

    def _opener(self) -> Opener:
        of_google = gdrive_opener(self._patience(), self.kwargs)
        of_others = http_opener(self._patience(), self.kwargs)

        def opened(url: str) -> tuple[str, StreamWrapper]:
            return (of_google if host_of(url) in GOOGLE else of_others)(url)

        return opened
