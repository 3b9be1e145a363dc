"""HTTP requests with checked redirects: bounded, never to a less secure scheme, without credentials to another host.

A redirect to another host does not get ``auth``, ``cookies``, client certificates, parameters, nor any header except
the few that control reading. A redirect may go from http to https, and otherwise only to the same scheme. The files of
one stage share connections; they do not share cookies.

requests prepares the first request to each host: proxies, certificates, netrc and the users' options. urllib3 sends
it and the first request of each further file to the same host, with the same headers. requests sends the requests that
follow in a file: redirects, and those that resume it. It sends all requests of a stage if an option of the user may
change each of them. fsspec has its own client, aiohttp: ``datapipes.io.remote.filesystems`` applies the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
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
_FOR_EACH_REQUEST = {"cookies", "data", "files", "hooks", "json", "params"}
# A URL that requests would send unchanged: no user, no character to quote, no segment of dots.
_PLAIN_URL = re.compile(r"(https?://[a-z0-9.-]+(?::[0-9]+)?)((?:/(?!\.)[\w.~-]*)+(?:\?[\w.~=&-]+)?)", re.ASCII)


class Web:
    """HTTP session of one stage: shared connections, and the user's options."""

    def __init__(self, transfer: Transfer, options: dict[str, Any], at_once: int = 1) -> None:
        needed("requests", "http")
        from requests.adapters import DEFAULT_POOLSIZE

        from datapipes.io.remote.bounded_http import BoundedAdapter

        self._transfer = transfer
        self._options = options
        self._adapter = BoundedAdapter(pool_maxsize=max(at_once, DEFAULT_POOLSIZE))
        self._routes: dict[str, Route] = {}
        auth = options.get("auth")
        self._has_routes = not _FOR_EACH_REQUEST & set(options) and (auth is None or type(auth) is tuple)

    def visit(self, label: str) -> Visit:
        """Prepare the requests for one file."""
        return Visit(self, self._options, Clock(self._transfer, label))

    def session(self) -> requests.Session:
        """Return a session of requests over the shared connections. It has no cookies."""
        import requests

        session = requests.Session()
        session.headers["Accept-Encoding"] = "identity"  # the bytes of the file: no reader would decode them
        session.mount("http://", self._adapter)
        session.mount("https://", self._adapter)
        return session

    def route(self, url: str) -> tuple[Route, str] | None:
        """Return the route to a URL, and the URL's path; None if requests has to prepare each request."""
        found = _PLAIN_URL.fullmatch(url) if self._has_routes else None
        if found is None:
            return None
        route = self._routes.get(found[1])
        if route is None or route.is_closed:
            route = self._routes[found[1]] = Route(self.session(), self._adapter, url, self._options)
        return route, found[2]


class Route:
    """Way to one host: its connection pool and the headers of a request, as requests prepares them."""

    def __init__(self, session: requests.Session, adapter: Any, url: str, options: dict[str, Any]) -> None:
        import requests

        self._adapter = adapter
        request = requests.Request("GET", url, headers=options.get("headers"), auth=options.get("auth"))
        self._prepared = session.prepare_request(request)
        names = {"proxies": options.get("proxies") or {}, "verify": options.get("verify"), "cert": options.get("cert")}
        sent = session.merge_environment_settings(url, stream=True, **names)
        self._pool = adapter.get_connection_with_tls_context(
            self._prepared, sent["verify"], proxies=sent["proxies"], cert=sent["cert"]
        )
        adapter.cert_verify(self._pool, url, sent["verify"], sent["cert"])
        # A proxy for http is sent the whole URL.
        self._whole = adapter.request_url(self._prepared, sent["proxies"]) != self._prepared.path_url
        self._headers = dict(self._prepared.headers)

    @property
    def is_closed(self) -> bool:
        """Whether the pool is closed: a manager of urllib3 closes the pools of the hosts that were used longest ago."""
        return self._pool.pool is None

    def get(self, url: str, path: str, timeouts: tuple[float, float]) -> Any:
        """Return the answer to a request, as a response of urllib3. Raise the errors of requests."""
        from urllib3 import Timeout

        from datapipes.io.remote.bounded_http import raise_as_requests

        try:
            return self._pool.urlopen(
                "GET",
                url if self._whole else path,
                headers=self._headers,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
                decode_content=False,
                retries=self._adapter.max_retries,
                timeout=Timeout(connect=timeouts[0], read=timeouts[1]),
            )
        except Exception as error:
            raise_as_requests(error, self.prepared(url))

    def prepared(self, url: str) -> requests.PreparedRequest:
        """Return the request for a URL in the form of requests."""
        prepared = self._prepared.copy()
        prepared.url = url
        return prepared

    def answered(self, url: str, answer: Any, session: requests.Session) -> requests.Response:
        """Return an answer in the form of requests, and give its cookies to a session."""
        from requests.cookies import extract_cookies_to_jar

        prepared = self.prepared(url)
        extract_cookies_to_jar(session.cookies, prepared, answer)
        response: requests.Response = self._adapter.build_response(prepared, answer)
        return response


class Visit:
    """Requests for one file, with one clock."""

    def __init__(self, web: Web, options: dict[str, Any], clock: Clock) -> None:
        self.clock = clock
        self._web = web
        self._options = {"proxies": None, **options}
        self._follows = self._options.pop("allow_redirects", True)

    @cached_property
    def session(self) -> requests.Session:
        """The session of requests for this file, with its cookies."""
        return self._web.session()

    def get(
        self, url: str, headers: dict[str, str] | None = None, answer: requests.Response | None = None
    ) -> requests.Response:
        """Return the answer to a request, before its body is read. Raise for a status from 400 on.

        ``answer`` is the first answer to the request if it was sent already.
        """
        url, options = _with_auth_apart(url, self._options)
        options["headers"] = {**(options.get("headers") or {}), **(headers or {})}
        for _ in range(MOST_REDIRECTS + 1):
            if answer is None:
                answer = self.session.get(
                    url, **{**options, "timeout": self.clock.timeouts, "stream": True, "allow_redirects": False}
                )
            if not answer.is_redirect:
                return _accepted(answer)
            answer.close()
            if not self._follows:
                raise TransferError(f"{hide(url)}: the answer is a redirect, and allow_redirects is False")
            url, options = _redirected(url, answer.headers["location"], options)
            answer = None
        raise TransferError(f"{self.clock.label}: more than {MOST_REDIRECTS} redirects, the last to {hide(url)}")

    def fetch(self, url: str) -> Callable[[dict[str, str]], Any]:
        """Return a function by which ``Body`` requests the file, or a part of it."""

        def fetched(headers: dict[str, str]) -> Any:
            found = None if headers else self._web.route(url)
            if found is None:
                return self.get(url, headers).raw
            route, path = found
            answer = route.get(url, path, self.clock.timeouts)
            if answer.status < 300 and "Set-Cookie" not in answer.headers:
                return answer
            return self.get(url, answer=route.answered(url, answer, self.session)).raw

        return fetched


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
