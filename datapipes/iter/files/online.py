"""read_from_remote: a stream for each URL, of Google Drive or of any other place."""

from __future__ import annotations

from typing import Any, ClassVar

from datapipes.iter.files.gdrive import gdrive_opener
from datapipes.iter.files.http import Opener, WebReader, http_opener
from datapipes.on_error import OnError
from datapipes.pipe import IterDataPipe
from datapipes.remote.transfer import Transfer
from datapipes.remote.web import host_of
from datapipes.streams import StreamWrapper

GOOGLE = {"drive.google.com", "docs.google.com"}


class OnlineReader(WebReader):
    """``(url or file name, stream)`` for each URL, as ``read_from_gdrive`` or ``read_from_http`` has it, by its host.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["https://example.org/a.csv"]).read_from_remote(timeout=5)
    IterableWrapper(['https://example.org/a.csv']).read_from_remote(timeout=5)
    """

    _fluent: ClassVar[str | None] = "read_from_remote"

    def __init__(
        self,
        source_datapipe: IterDataPipe[str],
        *,
        timeout: float | tuple[float, float] | None = None,
        skip_on_error: bool = False,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> None:
        self.source_datapipe = source_datapipe
        self.timeout = timeout
        self.skip_on_error = skip_on_error
        self.transfer = transfer
        self.on_error, self.max_errors = on_error, max_errors
        self.kwargs = kwargs
        self._checked()

    def _opener(self) -> Opener:
        of_google = gdrive_opener(self._patience(), self.kwargs)
        of_others = http_opener(self._patience(), self.kwargs)

        def opened(url: str) -> tuple[str, StreamWrapper]:
            return (of_google if host_of(url) in GOOGLE else of_others)(url)

        return opened
