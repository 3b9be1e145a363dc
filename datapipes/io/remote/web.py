"""HTTP requests with checked redirects: bounded, never to a less secure scheme, without credentials to another host.

A redirect to another host does not get ``auth``, ``cookies``, client certificates, parameters, nor any header except
the few that control reading. A redirect may go from http to https, and otherwise only to the same scheme. The files of
one stage share connections; they do not share cookies.

The HTTP client is requests, which also takes the users' options. fsspec has its own client, aiohttp:
``datapipes.io.remote.filesystems`` applies the same rules to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from datapipes.errors import TransferError
from datapipes.io.remote.transfer import Clock, Transfer
from datapipes.messages.extras import needed
from datapipes.messages.short import hide

if TYPE_CHECKING:
    import requests

MOST_REDIRECTS = 10
HARMLESS = {"accept", "accept-encoding", "accept-language", "if-range", "range", "user-agent"}
_FOR_ANYBODY = {"headers", "proxies", "verify"}


class Web:
    """HTTP session of one stage: shared connections, and the user's options."""

    def __init__(self, transfer: Transfer, options: dict[str, Any]) -> None:
        needed("requests", "http")
        from datapipes.io.remote.bounded_http import BoundedAdapter

        self._transfer = transfer
        self._options = options
        self._adapter = BoundedAdapter()

    def visit(self, label: str) -> Visit:
        """Prepare the requests for one file."""
        import requests

        session = requests.Session()
        session.headers["Accept-Encoding"] = "identity"  # the bytes of the file: no reader would decode them
        session.mount("http://", self._adapter)
        session.mount("https://", self._adapter)
        return Visit(session, self._options, Clock(self._transfer, label))


class Visit:
    """Requests for one file, with one clock."""

    def __init__(self, session: Any, options: dict[str, Any], clock: Clock) -> None:
        self.session = session
        self.clock = clock
        self._options = {"proxies": None, **options}
        self._follows = self._options.pop("allow_redirects", True)

    def get(self, url: str, headers: dict[str, str] | None = None) -> requests.Response:
        """Return the answer to a request, before its body is read. Raise for a status from 400 on."""
        url, options = _with_auth_apart(url, self._options)
        options["headers"] = {**(options.get("headers") or {}), **(headers or {})}
        for _ in range(MOST_REDIRECTS + 1):
            answer = self.session.get(
                url, **{**options, "timeout": self.clock.timeouts, "stream": True, "allow_redirects": False}
            )
            if not answer.is_redirect:
                return _accepted(answer)
            answer.close()
            if not self._follows:
                raise TransferError(f"{hide(url)}: the answer is a redirect, and allow_redirects is False")
            url, options = _redirected(url, answer.headers["location"], options)
        raise TransferError(f"{self.clock.label}: more than {MOST_REDIRECTS} redirects, the last to {hide(url)}")

    def fetch(self, url: str) -> Callable[[dict[str, str]], Any]:
        """Return a function by which ``Body`` requests the file, or a part of it."""
        return lambda headers: self.get(url, headers).raw


def host_of(url: str) -> str:
    """Return the host that a URL names, in lower case.

    >>> host_of("https://me@Drive.Google.com:443/uc?id=1")
    'drive.google.com'
    """
    return urlsplit(url).hostname or ""


def _with_auth_apart(url: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a URL without its user and password, and the options with them."""
    from requests.utils import get_auth_from_url

    user, password = get_auth_from_url(url)
    if not user and not password:
        return url, dict(options)
    parts = urlsplit(url)
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return bare, {**options, "auth": options.get("auth") or (user, password)}


def _redirected(url: str, location: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the target of a redirect, and the options that may be sent there."""
    target = urljoin(url, location)
    kept = {name: value for name, value in options.items() if name != "params"}
    if leads_elsewhere(url, target):
        kept = {name: value for name, value in kept.items() if name in _FOR_ANYBODY}
        kept["headers"] = {name: value for name, value in kept["headers"].items() if name.lower() in HARMLESS}
    return target, kept


def leads_elsewhere(url: str, target: str) -> bool:
    """Return whether a redirect leads to another host, which gets no secrets. Raise TransferError if it is refused.

    >>> leads_elsewhere("http://a/x", "https://a/y"), leads_elsewhere("https://a/x", "https://b/x")
    (False, True)
    """
    old, new = urlsplit(url), urlsplit(target)
    if new.scheme != old.scheme and (old.scheme, new.scheme) != ("http", "https"):
        raise TransferError(f"{hide(url)}: refused to follow a redirect from {old.scheme} to {hide(target)!r:.200}")
    ports = [part.port or {"http": 80, "https": 443}.get(part.scheme) for part in (old, new)]
    same_port = ports[0] == ports[1] or (old.scheme != new.scheme and ports == [80, 443])
    return old.hostname != new.hostname or not same_port


def _accepted(answer: Any) -> Any:
    if answer.status_code < 400:
        return answer
    import requests

    answer.close()
    shown = requests.Response()  # the status and headers only: the real response holds the request
    shown.status_code, shown.reason, shown.headers, shown.url = (
        answer.status_code,
        answer.reason,
        answer.headers,
        hide(answer.url),
    )
    shown._content = b""
    raise requests.HTTPError(f"{answer.status_code} {answer.reason} for url: {hide(answer.url)}", response=shown)
