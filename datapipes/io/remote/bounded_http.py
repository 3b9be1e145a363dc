"""HTTP connections that bound each wait by the deadline of the file being read.

requests has a timeout for each wait for data. A server that sends one byte in each of these could block a reader
forever, even in the headers. Here each wait asks the running clock for the remaining time. Python cannot bound one
wait: the lookup of a host's name.
"""

from __future__ import annotations

import io
from typing import Any, NoReturn

from requests.adapters import HTTPAdapter
from urllib3 import connection, connectionpool

from datapipes.io.remote.transfer import running_clock


class _Reads(io.RawIOBase):
    """Raw reader of a socket; the clock bounds each wait."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._received = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        clock = running_clock()
        if clock is not None:
            if clock.left <= 0:
                raise TimeoutError("the deadline has passed")
            self._sock.settimeout(clock.timeouts[1])
        return self._received.readinto(buffer)

    def close(self) -> None:
        self._received.close()
        super().close()


class _Socket:
    """Socket whose reads the clock bounds."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reads(self._sock), 64 * 1024)


class _Bounded:
    """Connection that wraps its socket in ``_Socket`` when it connects."""

    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]  # urllib3's method: its class follows in both subclasses
        self.sock = _Socket(self.sock)


# These have urllib3's names, because its errors show them.
class HTTPConnection(_Bounded, connection.HTTPConnection):  # type: ignore[misc]  # urllib3 is not looked into
    """Connection for http."""


class HTTPSConnection(_Bounded, connection.HTTPSConnection):  # type: ignore[misc]  # urllib3 is not looked into
    """Connection for https."""


class HTTPConnectionPool(connectionpool.HTTPConnectionPool):  # type: ignore[misc]  # urllib3 is not looked into
    """Connections to one host for http."""

    ConnectionCls = HTTPConnection


class HTTPSConnectionPool(connectionpool.HTTPSConnectionPool):  # type: ignore[misc]  # urllib3 is not looked into
    """Connections to one host for https."""

    ConnectionCls = HTTPSConnection


_POOLS = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}
_THEIRS = {connectionpool.HTTPConnectionPool, connectionpool.HTTPSConnectionPool}


class BoundedAdapter(HTTPAdapter):  # type: ignore[misc]  # requests is not looked into
    """Adapter of a session of requests that keeps connections for further files."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        if set(manager.pool_classes_by_scheme.values()) == _THEIRS:  # not SOCKS
            manager.pool_classes_by_scheme = _POOLS
        return manager


def raise_as_requests(error: Exception, request: Any) -> NoReturn:
    """Raise an error of urllib3 as requests raises it for a prepared request."""
    _Raising(error).send(request, stream=True)
    raise AssertionError from error


class _Raising(HTTPAdapter):  # type: ignore[misc]  # requests is not looked into
    """Adapter whose connections raise an error. ``send`` translates it, so that the table of errors is requests'."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> Any:
        return self

    def cert_verify(self, *_: Any) -> None:
        """Do nothing: the request was sent."""

    def urlopen(self, **_: Any) -> NoReturn:
        raise self._error
