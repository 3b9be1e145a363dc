"""Small server of made-up objects for measurements: S3's ListObjectsV2, HEAD and GET with Range, also plain HTTP.

It runs in a process of its own, so that a contender's CPU time is the contender's alone:
``with serving(objects, size) as url``. The bucket ``data`` has ``objects`` objects of ``size`` bytes; object ``n`` has
the key ``{n:06}`` and begins with it. Signatures are not checked. Requests on one connection are answered in order.
"""

import argparse
import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from urllib.parse import parse_qs, urlsplit

BUCKET = "data"
_DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_PAGE = 1000  # keys in one answer to ListObjectsV2


class _Objects:
    """The objects of the server."""

    def __init__(self, count: int, size: int) -> None:
        self.keys = [f"{number:06}" for number in range(count)]
        self.size = size
        self._rest = Random(0).randbytes(size)

    def body(self, key: str) -> bytes | None:
        """Return the content of an object, or None if there is none."""
        if len(key) != 6 or not key.isdecimal() or int(key) >= len(self.keys):
            return None
        return key.encode() + self._rest[6:]

    def answer(self, method: str, target: str, headers: dict[str, str]) -> tuple[str, bytes, bytes]:
        """Return the status, the further headers and the body of an answer."""
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        if "list-type" in query:
            return "200 OK", b"Content-Type: application/xml\r\n", self._listing(query)
        key = parts.path.removeprefix(f"/{BUCKET}/")
        body = self.body(key)
        if body is None:
            return "404 Not Found", b"", b"" if method == "HEAD" else b"<Error><Code>NoSuchKey</Code></Error>"
        etag = f'"{key}"'
        if headers.get("if-match", etag) != etag:
            return "412 Precondition Failed", b"", b""
        named = f"ETag: {etag}\r\nLast-Modified: {_DATE}\r\nAccept-Ranges: bytes\r\n"
        if (found := _RANGE.fullmatch(headers.get("range", ""))) is None:
            return "200 OK", named.encode(), body
        start, end = int(found[1]), min(int(found[2] or self.size - 1), self.size - 1)
        named += f"Content-Range: bytes {start}-{end}/{self.size}\r\n"
        return "206 Partial Content", named.encode(), body[start : end + 1]

    def _listing(self, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", [""])[0]
        keys = [key for key in self.keys if key.startswith(prefix) and key > after]
        page = keys[:_PAGE]
        entries = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2015-10-21T07:28:00.000Z</LastModified>"
            f'<ETag>"{key}"</ETag><Size>{self.size}</Size><StorageClass>STANDARD</StorageClass></Contents>'
            for key in page
        )
        more = len(keys) > len(page)
        token = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if more else ""
        return (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>{prefix}</Prefix><KeyCount>{len(page)}</KeyCount>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{entries}</ListBucketResult>"
        ).encode()


class _Connection(asyncio.Protocol):
    """One client. Requests have no bodies."""

    transport: asyncio.Transport

    def __init__(self, objects: _Objects, latency: float) -> None:
        self._objects = objects
        self._latency = latency
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            asyncio.get_running_loop().call_later(self._latency, self._answer, method, target, headers)

    def _answer(self, method: str, target: str, headers: dict[str, str]) -> None:
        status, further, body = self._objects.answer(method, target, headers)
        head = b"HTTP/1.1 %s\r\n%bContent-Length: %d\r\n\r\n" % (status.encode(), further, len(body))
        if not self.transport.is_closing():
            self.transport.write(head if method == "HEAD" else head + body)
            if headers.get("connection", "").lower() == "close":
                self.transport.close()


async def _serve(objects: _Objects, latency: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(objects, latency), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # up to the end of the process that has started this one


@contextmanager
def serving(objects: int, size: int, latency: float = 0.0) -> Iterator[str]:
    """Run the server in a process of its own, and give its URL. ``latency`` is in seconds, before each answer."""
    command = [sys.executable, "-m", __name__, str(objects), str(size), str(latency)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("objects", type=int)
    parser.add_argument("size", type=int)
    parser.add_argument("latency", type=float)
    given = parser.parse_args()
    asyncio.run(_serve(_Objects(given.objects, given.size), given.latency))
