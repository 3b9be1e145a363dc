"""An HTTP server for tests: real sockets, and every way in which a server can misbehave.

``with serving() as server:`` starts it on a port that is free, and joins all of its threads at the end; handlers that
stall wait for that end. A path of the server is a ``Page``: a function of the request that answers it. What was asked
for is kept in ``server.requests``.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 300.0
"""The longest that a handler stalls; tests end long before."""


@dataclass(frozen=True)
class Seen:
    """One request, as it arrived."""

    method: str
    path: str
    headers: dict[str, str]


class Handler(BaseHTTPRequestHandler):
    """Answers with the page of a path."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def do_GET(self) -> None:
        self.server.requests.append(Seen(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
        page = self.server.pages.get(urlsplit(self.path).path)
        if page is None:
            self.send(404, b"nothing here")
        else:
            page(self)

    do_HEAD = do_GET

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole answer."""
        self.begin(status, {"Content-Length": str(len(body)), **{k.replace("_", "-"): v for k, v in headers.items()}})
        if self.command != "HEAD":
            self.wfile.write(body)

    def begin(self, status: int, headers: dict[str, str]) -> None:
        """The head of an answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def cut(self) -> None:
        """End the connection."""
        self.close_connection = True

    def stall(self) -> None:
        """Do nothing until the server ends."""
        self.server.ending.wait(PATIENCE)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


Page = Callable[[Handler], None]


class Server(ThreadingHTTPServer):
    """The server; threads are joined when it is closed."""

    daemon_threads = False
    block_on_close = True

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "http" if tls is None else "https"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.pages: dict[str, Page] = {}
        self.requests: list[Seen] = []
        self.ending = threading.Event()
        self._connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def end(self) -> None:
        """Wake the threads that stall or wait for a client."""
        self.ending.set()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def asked(self, path: str, method: str = "GET") -> list[Seen]:
        """The requests for one path."""
        return [seen for seen in self.requests if urlsplit(seen.path).path == path and seen.method == method]

    def handle_error(self, *_: Any) -> None:
        """A client that leaves early is none of our business."""


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server that runs until the end of the block."""
    server = Server(tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="http server")
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.end()
        server.server_close()
        thread.join(PATIENCE)


_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class File:
    """A page that serves a file, in parts as well, and breaks off as often as it is told to."""

    data: bytes
    etag: str | None = '"1"'
    modified: str | None = None
    encoding: str | None = None
    ranges: bool = True
    chunked: bool = False
    breaks: list[int] = field(default_factory=list)
    """After how many bytes each of the first answers ends."""
    stalls: bool = False
    """Whether it stalls where it breaks."""
    drips: bool = False
    """Whether it sends a byte at a time, and never comes to an end."""

    def __call__(self, handler: Handler) -> None:
        headers = {"ETag": self.etag, "Last-Modified": self.modified, "Content-Encoding": self.encoding}
        named = {name: value for name, value in headers.items() if value is not None}
        wanted = _RANGE.fullmatch(handler.headers.get("Range", "")) if self.ranges else None
        condition = handler.headers.get("If-Range")
        if handler.headers.get("If-Match") not in (None, self.etag):
            return handler.send(412)
        status, body = 200, self.data
        if wanted and (condition is None or condition in named.values()):
            start, end = int(wanted[1]), int(wanted[2] or len(self.data) - 1)
            if start >= len(self.data):
                return handler.send(416)
            status, body = 206, self.data[start : end + 1]
            named["Content-Range"] = f"bytes {start}-{start + len(body) - 1}/{len(self.data)}"
        named |= {"Transfer-Encoding": "chunked"} if self.chunked else {"Content-Length": str(len(body))}
        handler.begin(status, named)
        if handler.command != "HEAD":
            self._write(handler, body)

    def _write(self, handler: Handler, body: bytes) -> None:
        broken = self.breaks.pop(0) if self.breaks else None
        if self.drips:
            for i in range(len(body)):
                if handler.server.ending.wait(0.05):
                    return handler.cut()
                handler.wfile.write(body[i : i + 1])
        sent = body[:broken]
        for start in range(0, len(sent), 1000) if self.chunked else ():
            part = sent[start : start + 1000]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        if not self.chunked:
            handler.wfile.write(sent)
        if broken is None:
            handler.wfile.write(b"0\r\n\r\n" if self.chunked else b"")
        elif self.stalls:
            handler.stall()
        else:
            handler.cut()


@dataclass
class InTurn:
    """A page that answers with one page after the other, and then always with the last."""

    pages: list[Page]

    def __call__(self, handler: Handler) -> None:
        (self.pages.pop(0) if len(self.pages) > 1 else self.pages[0])(handler)


def status(code: int, **headers: str) -> Page:
    """A page that is an error."""
    return lambda handler: handler.send(code, b"no", **headers)


def redirect(location: str, code: int = 302) -> Page:
    """A page that leads elsewhere."""
    return lambda handler: handler.send(code, Location=location)
