"""read_from_http, read_from_gdrive, read_from_remote: a stream for each URL over HTTP or from Google Drive."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from email.message import Message
from functools import partial
from pathlib import PurePosixPath
from typing import Any, ClassVar
from urllib.parse import urlencode, urljoin, urlsplit

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgumentType, StateError, TransferError
from datapipes.io.remote.body import BUFFER, HTTPBody, opened_body, remote_file
from datapipes.io.remote.transfer import DEFAULT, Transfer
from datapipes.io.remote.web import Visit, Web, host_of
from datapipes.iter.remote.ahead import MOST_BYTES_AHEAD, ReadsAhead
from datapipes.messages.extras import needed
from datapipes.messages.short import hide
from datapipes.messages.warnings import warn
from datapipes.operator_support.checks import check_options, needs, no_length, source_length
from datapipes.position.on_error import OnError, check_policy, may_leave_out
from datapipes.position.opening import Opening
from datapipes.position.reopening import UrlOrigins
from datapipes.position.steps import Step

Opener = Callable[[str], tuple[str, StreamWrapper]]

# Parameters of requests' ``get`` except the timeout; bodies are always streamed, for any ``stream``.
_KNOWN = (
    *("params", "data", "json", "files", "headers", "cookies", "auth", "cert", "verify", "proxies", "hooks"),
    *("allow_redirects", "stream"),
)

_LONGEST_PAGE = 1024 * 1024
_FILE_PAGE = re.compile(r"(https?://[^/]+)/file/d/([\w-]+)")

GOOGLE = {"drive.google.com", "docs.google.com"}


@operator
class WebReader(ReadsAhead[tuple[str, StreamWrapper]]):
    """Base of the readers of URLs: a subclass implements ``_opener_of_urls``."""

    _stream_key: ClassVar[tuple[type, ...] | None] = (str, str)
    _other_stream_keys: ClassVar[tuple[tuple[type, ...], ...]] = ((int, str),)

    source_datapipe: IterDataPipe[str]

    def __init__(
        self,
        source_datapipe: IterDataPipe[str],
        *,
        timeout: float | tuple[float, float] | None = None,
        skip_on_error: bool = False,
        ahead: int = 0,
        ahead_bytes: int = MOST_BYTES_AHEAD,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> None:
        self.source_datapipe = source_datapipe
        self._timeout = timeout  # `timeout` is a method
        self.skip_on_error = skip_on_error
        self.ahead = ahead
        self.ahead_bytes = ahead_bytes
        self.transfer = transfer
        self.on_error, self.max_errors = on_error, max_errors
        self.kwargs = kwargs
        needed("requests", "http", str(self._fluent))
        check_policy(self)
        check_options(self, kwargs, _KNOWN)
        self.check_ahead()
        self._patience()
        needs(not (ahead and skip_on_error), self, "skip_on_error and ahead exclude each other: use on_error")
        needs(not self.skip_on_error or self.on_error == "raise", self, "skip_on_error and on_error exclude each other")

    def _patience(self) -> Transfer:
        chosen = self.transfer or DEFAULT
        return chosen if self._timeout is None else replace(chosen, timeout=self._timeout)

    def _opener_of_urls(self) -> Opener:
        raise NotImplementedError(f"{type(self).__name__} has no _opener_of_urls")

    def _step(self) -> Step | None:
        return None if self.skip_on_error else super()._step()

    def _open(self, at: Opening) -> Iterator[tuple[str, StreamWrapper]]:
        if not self.skip_on_error:
            return super()._open(at)
        opened = self._opener()

        def unless_it_fails(url: str) -> tuple[str, StreamWrapper] | None:
            try:
                return opened(url)
            except Exception as error:
                warn(f"{type(error).__name__}: {hide(str(error))}, skipping...")
                return None

        return filter(None, map(unless_it_fails, at.source(self.source_datapipe)))

    def _opener(self) -> Opener:
        opener, method, origins = self._opener_of_urls(), self._fluent, UrlOrigins(self)

        def opened(url: str) -> tuple[str, StreamWrapper]:
            if not isinstance(url, str):
                raise BadArgumentType(f"{method}() needs URLs as str, got {type(url).__name__}: {url!r:.80}")
            name, stream = opener(url)
            if (etag := _etag_of(stream)) is not None:
                stream.origin = partial(origins.origin, url, etag)
            return name, stream

        return opened

    def _reopening(self, source: StreamWrapper | None) -> Callable[..., StreamWrapper]:
        opener = self._opener()

        def opened(url: str, etag: str) -> StreamWrapper:
            stream = opener(url)[1]
            if _etag_of(stream) != etag:
                stream.close()
                raise StateError(f"{hide(url)}: it has changed since the state was saved")
            return stream

        return opened

    def __len__(self) -> int:
        if self.skip_on_error or may_leave_out(self):
            raise no_length(self)
        return source_length(self, self.source_datapipe)


def _etag_of(stream: StreamWrapper) -> str | None:
    file = remote_file(stream)
    return file.etag if isinstance(file, HTTPBody) else None


@operator
class HttpReader(WebReader):
    """``(url, stream)`` for each URL; the stream has the bytes as they are sent.

    A stream gives the whole file or raises: ``transfer`` controls resuming and retries. The URL that is given shows no
    secrets.

    Args:
        timeout: Seconds for connecting and for each wait for data, or a pair with a number for each. ``None``: the
            timeout of ``transfer``.
        skip_on_error: Whether to leave out a URL that cannot be opened, with a warning. ``on_error`` can do more; only
            one of them can be given.
        ahead: Number of files to open before their turn, each in a thread, so that their servers' latency is hidden.
        ahead_bytes: Number of bytes to read of these files before their turn, in all.
        **kwargs: Options of requests for each URL: ``headers``, ``auth``, ``proxies``, ``params``, ``cookies``,
            ``verify``, ``cert``, ``allow_redirects`` and so on. If a redirect leads to another host, that host gets no
            option that could be secret.

    >>> from datapipes.iter import IterableWrapper
    >>> urls = IterableWrapper(["https://a.org"])
    >>> urls.read_from_http(timeout=5, auth=("me", "secret"))
    IterableWrapper(['https://a.org']).read_from_http(timeout=5, auth='***')
    """

    _fluent: ClassVar[str | None] = "read_from_http"

    def __init__(
        self,
        source_datapipe: IterDataPipe[str],
        timeout: float | tuple[float, float] | None = None,
        skip_on_error: bool = False,
        *,
        ahead: int = 0,
        ahead_bytes: int = MOST_BYTES_AHEAD,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            source_datapipe,
            timeout=timeout,
            skip_on_error=skip_on_error,
            ahead=ahead,
            ahead_bytes=ahead_bytes,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
            **kwargs,
        )

    def _opener_of_urls(self) -> Opener:
        return http_opener(self._patience(), self.kwargs, self.ahead + 1)


def http_opener(transfer: Transfer, options: dict[str, Any], at_once: int = 1) -> Opener:
    """Return an opener of URLs over HTTP, whose files share connections; ``at_once`` of them are read at once."""
    web = Web(transfer, options, at_once)

    def opened(url: str) -> tuple[str, StreamWrapper]:
        label = hide(url)
        visit = web.visit(label)
        return label, StreamWrapper(opened_body(visit.fetch(url), visit.clock), name=label)

    return opened


class GDriveReader(WebReader):
    """``(file name, stream)`` for each URL of a file on Google Drive; streams are like those of ``read_from_http``.

    Args:
        timeout: Seconds for connecting and for each wait for data, or a pair with a number for each. ``None``: the
            timeout of ``transfer``.
        skip_on_error: Whether to leave out a URL that cannot be opened, with a warning. ``on_error`` can do more; only
            one of them can be given.
        ahead: Number of files to open before their turn, each in a thread, so that their servers' latency is hidden.
        ahead_bytes: Number of bytes to read of these files before their turn, in all.
        transfer: Timeouts, deadline and retries, as a ``Transfer``. ``None``: those of ``Transfer()``.
        on_error: Policy for a URL that cannot be opened: ``"raise"``; ``"skip"`` leaves it out; ``"retry(n)"`` tries
            ``n`` more times; or a function of the error and the URL, whose result is handed on (``SKIP`` leaves the
            URL out).
        max_errors: The number of errors, or their share of the URLs (0.0 to 1.0), beyond which ``TooManyErrors`` is
            raised, whatever ``on_error`` is. ``None``: any number.
        **kwargs: Options of requests for each URL: ``headers``, ``auth``, ``proxies``, ``params``, ``cookies``,
            ``verify``, ``cert``, ``allow_redirects`` and so on. If a redirect leads to another host, that host gets no
            option that could be secret.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["https://drive.google.com/uc?id=1"]).read_from_gdrive()
    IterableWrapper(['https://drive.google.com/uc?id=1']).read_from_gdrive()
    """

    _parents: ClassVar[tuple[str, ...] | None] = ("source_datapipe",)
    _fluent: ClassVar[str | None] = "read_from_gdrive"

    def _opener_of_urls(self) -> Opener:
        return gdrive_opener(self._patience(), self.kwargs, self.ahead + 1)


def gdrive_opener(transfer: Transfer, options: dict[str, Any], at_once: int = 1) -> Opener:
    """Return an opener of Google Drive URLs; see ``http_opener``."""
    web = Web(transfer, options, at_once)

    def opened(url: str) -> tuple[str, StreamWrapper]:
        visit = web.visit(hide(url))
        body = HTTPBody(_Asked(visit, url), visit.clock)
        name = _file_name(body.headers["Content-Disposition"], visit.clock.label)
        return name, StreamWrapper(io.BufferedReader(body, BUFFER), name=name)

    return opened


class _Asked:
    """Callable that requests a file, and answers a page that asks for confirmation."""

    def __init__(self, visit: Visit, url: str) -> None:
        self._visit = visit
        self._confirmed = False
        self._address = _FILE_PAGE.sub(r"\1/uc?export=download&id=\2#", url).partition("#")[0]

    def __call__(self, headers: dict[str, str]) -> Any:
        answer = self._visit.get(self._address, headers)
        if not self._confirmed and not _is_file(answer):
            self._address, self._confirmed = self._confirmation(answer), True
            answer = self._visit.get(self._address, headers)
        if not _is_file(answer) and answer.status_code != 206:
            answer.close()
            raise RuntimeError(
                f"{self._visit.clock.label}: Google Drive sent a page without a content-disposition instead of a file; "
                "check that the link is public and that it is the link of a file"
            )
        return answer.raw

    def _confirmation(self, answer: Any) -> str:
        """Return the URL of the confirmation on a page. Raise if the page has another content."""
        text = bytearray()
        while len(text) < _LONGEST_PAGE and (data := answer.raw.read1(64 * 1024, decode_content=True)):
            text += data
            self._visit.clock.check()
        answer.close()
        from datapipes.io.remote.drive_page import Page

        page = Page(text.decode("utf-8", "replace"))
        if "quota exceeded" in page.title.lower() or "too many users have viewed" in page.text.lower():
            raise RuntimeError(
                f"{self._visit.clock.label}: Google Drive - Quota exceeded: too many users have read this file lately; "
                "try again later, or read a copy of it"
            )
        address = self._address
        warned = next((c.value for c in self._visit.session.cookies if c.name.startswith("download_warning")), None)
        if page.action is not None:
            target = urljoin(answer.url, page.action)
            address = f"{target}{'&' if urlsplit(target).query else '?'}{urlencode(page.fields)}"
        elif warned is not None:
            address = f"{address}&confirm={warned}"
        elif page.link is not None:
            address = urljoin(answer.url, page.link)
        if urlsplit(address).scheme not in ("https", urlsplit(self._address).scheme):
            raise TransferError(f"{self._visit.clock.label}: refused to follow a page to {hide(address)!r:.200}")
        return address


def _is_file(answer: Any) -> bool:
    return "Content-Disposition" in answer.headers


def _file_name(disposition: str, label: str) -> str:
    """Return the file name in a content-disposition. It never leads to another folder."""
    message = Message()
    message["Content-Disposition"] = disposition
    name = PurePosixPath((message.get_filename() or "").replace("\\", "/")).name
    if not name or name == ".." or "\0" in name:
        raise RuntimeError(f"{label}: the content-disposition {disposition!r:.100} has no file name")
    return name


class OnlineReader(WebReader):
    """``(url or file name, stream)`` for each URL, as from ``read_from_gdrive`` or ``read_from_http``, by its host.

    Args:
        timeout: Seconds for connecting and for each wait for data, or a pair with a number for each. ``None``: the
            timeout of ``transfer``.
        skip_on_error: Whether to leave out a URL that cannot be opened, with a warning. ``on_error`` can do more; only
            one of them can be given.
        ahead: Number of files to open before their turn, each in a thread, so that their servers' latency is hidden.
        ahead_bytes: Number of bytes to read of these files before their turn, in all.
        transfer: Timeouts, deadline and retries, as a ``Transfer``. ``None``: those of ``Transfer()``.
        on_error: Policy for a URL that cannot be opened: ``"raise"``; ``"skip"`` leaves it out; ``"retry(n)"`` tries
            ``n`` more times; or a function of the error and the URL, whose result is handed on (``SKIP`` leaves the
            URL out).
        max_errors: The number of errors, or their share of the URLs (0.0 to 1.0), beyond which ``TooManyErrors`` is
            raised, whatever ``on_error`` is. ``None``: any number.
        **kwargs: Options of requests for each URL: ``headers``, ``auth``, ``proxies``, ``params``, ``cookies``,
            ``verify``, ``cert``, ``allow_redirects`` and so on. If a redirect leads to another host, that host gets no
            option that could be secret.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["https://example.org/a"]).read_from_remote(timeout=5)
    IterableWrapper(['https://example.org/a']).read_from_remote(timeout=5)
    """

    _parents: ClassVar[tuple[str, ...] | None] = ("source_datapipe",)
    _fluent: ClassVar[str | None] = "read_from_remote"

    def _opener_of_urls(self) -> Opener:
        of_google = gdrive_opener(self._patience(), self.kwargs, self.ahead + 1)
        of_others = http_opener(self._patience(), self.kwargs, self.ahead + 1)

        def opened(url: str) -> tuple[str, StreamWrapper]:
            return (of_google if host_of(url) in GOOGLE else of_others)(url)

        return opened
