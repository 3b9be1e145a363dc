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

    Args:
        timeout: Seconds for connecting and for each wait for data, or a pair with a number for each, in place of those
            of ``transfer``. ``None``: those of ``transfer``.
        skip_on_error: Whether a URL that cannot be opened is left out, with a warning, as in torchdata. ``on_error``
            says more; only one of them can be given.
        transfer: Timeouts, deadline and retries, as a ``Transfer``. ``None``: those of ``Transfer()``.
        on_error: What becomes of a URL that cannot be opened: ``"raise"``; ``"skip"`` leaves it out; ``"retry(n)"``
            tries ``n`` more times; or a function of the error and the URL, whose result is handed on (``SKIP`` leaves
            the URL out).
        max_errors: The number of errors, or their share of the URLs (0.0 to 1.0), beyond which ``on_error`` no longer
            counts and ``TooManyErrors`` is raised. ``None``: any number.
        **kwargs: Options of requests for each URL: ``headers``, ``auth``, ``proxies``, ``params``, ``cookies``,
            ``verify``, ``cert``, ``allow_redirects`` and so on. Where a redirect leads to another host, that is sent
            none that could be secret.

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
