"""One small server for the remote specimens: the web, Google Drive, s3 and AIStore, as far as reading goes.

It has one thread, which lives as long as the process, and a connection for each request, so that no test has anything
to wait for. What it serves is made up; that the protocols are understood as they are meant is for the tests of each
operator to show.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

NAME = "server of the specimens"

FILES = {
    "a.csv": b'x,y\n1,one\n2,"two\nlines"\n3,three\n',
    "b.csv": b"x,y\n4,four\n",
    "c.csv": b"x,y\n5,five\n6,six\n7,seven\n8,\n",
    "empty.csv": b"",
}


class _Handler(BaseHTTPRequestHandler):
    timeout = 5

    def do_GET(self) -> None:
        parts, query = urlsplit(self.path), parse_qs(urlsplit(self.path).query)
        name = parts.path.rpartition("/")[2]
        if name == "missing.csv":
            self._answer(404, b"")
        elif parts.path.startswith("/v1/buckets/"):
            self._answer(200, _ais_listing(), {"Content-Type": "application/msgpack"})
        elif "list-type" in query:
            self._answer(200, _s3_listing(query.get("prefix", [""])[0]), {"Content-Type": "application/xml"})
        else:
            named = {"Content-Disposition": f'attachment; filename="{name}"', "ETag": f'"{name}"'}
            self._answer(200, FILES.get(name, b""), named)

    do_HEAD = do_GET

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(HTTPServer):
    request_queue_size = 128  # by default five may wait for the one thread, and others are turned away

    def handle_error(self, *_: Any) -> None:
        """A specimen that is left early is none of our business."""


def _s3_listing(prefix: str) -> bytes:
    entries = "".join(
        f'<Contents><Key>data/{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"{name}"</ETag>'
        f"<Size>{len(data)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for name, data in FILES.items()
        if f"data/{name}".startswith(prefix)
    )
    return (
        '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>bucket</Name><Prefix>{prefix}</Prefix><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
    ).encode()


def _ais_listing() -> bytes:
    import msgspec

    entries = [{"n": name, "s": len(data), "f": 64} for name, data in FILES.items()]
    return msgspec.msgpack.encode({"UUID": "1", "ContinuationToken": "", "Flags": 0, "Entries": entries})


@cache
def _started() -> str:
    server = _Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, name=NAME, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def address() -> str:
    """Return the server's URL. The first call starts it. It is the same whatever other tests have used."""
    url = _started()
    os.environ.update(
        AWS_ENDPOINT_URL_S3=url,
        AWS_ACCESS_KEY_ID="nobody",
        AWS_SECRET_ACCESS_KEY="nothing",
        AWS_DEFAULT_REGION="us-east-1",
        AWS_EC2_METADATA_DISABLED="true",
    )
    return url
