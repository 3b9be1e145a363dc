"""read_from_http: a stream for each URL, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgumentType
from datapipes.io.remote.body import opened_body
from datapipes.io.remote.transfer import DEFAULT, Transfer
from datapipes.io.remote.web import Web
from datapipes.messages.extras import needed
from datapipes.messages.short import hide
from datapipes.messages.warnings import warn
from datapipes.operators.checks import check_options, needs, no_length, source_length
from datapipes.position.on_error import OnError, check_policy, may_leave_out
from datapipes.position.opening import Opening
from datapipes.position.steps import Step

Opener = Callable[[str], tuple[str, StreamWrapper]]

# Of requests' ``get``, but for the timeout; bodies are streamed whatever ``stream`` says.
_KNOWN = (
    *("params", "data", "json", "files", "headers", "cookies", "auth", "cert", "verify", "proxies", "hooks"),
    *("allow_redirects", "stream"),
)


@operator
class WebReader(IterDataPipe[tuple[str, StreamWrapper]]):
    """Base of the readers of URLs: a subclass says in ``_opener`` how one is opened."""

    source_datapipe: IterDataPipe[str]

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
        needed("requests", "http", str(self._fluent))
        check_policy(self)
        check_options(self, kwargs, _KNOWN)
        self._patience()
        needs(not self.skip_on_error or self.on_error == "raise", self, "skip_on_error and on_error exclude each other")

    def _patience(self) -> Transfer:
        chosen = self.transfer or DEFAULT
        return chosen if self.timeout is None else replace(chosen, timeout=self.timeout)

    def _opener(self) -> Opener:
        raise NotImplementedError(f"{type(self).__name__} has no _opener")

    def _step(self) -> Step | None:
        return None if self.skip_on_error else Step("map", self._checking_opener())

    def _open(self, at: Opening) -> Iterator[tuple[str, StreamWrapper]]:
        opened = self._checking_opener()

        def unless_it_fails(url: str) -> tuple[str, StreamWrapper] | None:
            try:
                return opened(url)
            except Exception as error:
                warn(f"{type(error).__name__}: {hide(str(error))}, skipping...")
                return None

        return filter(None, map(unless_it_fails, at.source(self.source_datapipe)))

    def _checking_opener(self) -> Opener:
        opener, method = self._opener(), self._fluent

        def opened(url: str) -> tuple[str, StreamWrapper]:
            if not isinstance(url, str):
                raise BadArgumentType(f"{method}() needs URLs as str, got {type(url).__name__}: {url!r:.80}")
            return opener(url)

        return opened

    def __len__(self) -> int:
        if self.skip_on_error or may_leave_out(self):
            raise no_length(self)
        return source_length(self, self.source_datapipe)


@operator
class HttpReader(WebReader):
    """``(url, stream)`` for each URL, the stream being the bytes as they are sent.

    A stream gives the whole file or raises: what breaks is resumed or tried again as ``transfer`` says. Secrets in a
    URL are hidden in the one that is handed on.

    Args:
        timeout: Seconds for connecting and for each wait for data, or a pair with a number for each, in place of those
            of ``transfer``. ``None``: those of ``transfer``.
        skip_on_error: Whether a URL that cannot be opened is left out, with a warning, as in torchdata. ``on_error``
            says more; only one of them can be given.
        **kwargs: Options of requests for each URL: ``headers``, ``auth``, ``proxies``, ``params``, ``cookies``,
            ``verify``, ``cert``, ``allow_redirects`` and so on. Where a redirect leads to another host, that is sent
            none that could be secret.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["https://example.org/a.csv"]).read_from_http(timeout=5, auth=("me", "secret"))
    IterableWrapper(['https://example.org/a.csv']).read_from_http(timeout=5, auth='***')
    """

    _fluent: ClassVar[str | None] = "read_from_http"

    def __init__(
        self,
        source_datapipe: IterDataPipe[str],
        timeout: float | tuple[float, float] | None = None,
        skip_on_error: bool = False,
        *,
        transfer: Transfer | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            source_datapipe,
            timeout=timeout,
            skip_on_error=skip_on_error,
            transfer=transfer,
            on_error=on_error,
            max_errors=max_errors,
            **kwargs,
        )

    def _opener(self) -> Opener:
        return http_opener(self._patience(), self.kwargs)


def http_opener(transfer: Transfer, options: dict[str, Any]) -> Opener:
    """Opener of URLs over HTTP, with connections that its files share."""
    web = Web(transfer, options)

    def opened(url: str) -> tuple[str, StreamWrapper]:
        label = hide(url)
        visit = web.visit(label)
        return label, StreamWrapper(opened_body(visit.fetch(url), visit.clock), name=label)

    return opened
