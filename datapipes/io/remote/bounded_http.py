"""HTTP connections whose every wait is bounded by the deadline of the file that is read.

requests gives each wait for data a time, but a server that sends one byte in every such time could hold a reader
forever, in the headers already. Here each single wait asks the running clock how much is left. (Looking up a host's
name is the one thing that Python cannot bound.)
"""

from __future__ import annotations

import io
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import connection, connectionpool

from datapipes.io.remote.transfer import running_clock


class _Reads(io.RawIOBase):
    """Raw reader of a socket; each wait is as long as the clock says."""

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
    """A socket whose reads are bounded by the clock."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reads(self._sock), 64 * 1024)


class _Bounded:
    """A connection whose socket is bounded as soon as there is one."""

    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]  # that of urllib3, which comes after this in both classes
        self.sock = _Socket(self.sock)


# With the names that urllib3 has for them, because its errors show them.
class HTTPConnection(_Bounded, connection.HTTPConnection):  # type: ignore[misc]  # urllib3 is not looked into
    """A connection for http."""


class HTTPSConnection(_Bounded, connection.HTTPSConnection):  # type: ignore[misc]  # urllib3 is not looked into
    """A connection for https."""


class HTTPConnectionPool(connectionpool.HTTPConnectionPool):  # type: ignore[misc]  # urllib3 is not looked into
    """The connections to one host for http."""

    ConnectionCls = HTTPConnection


class HTTPSConnectionPool(connectionpool.HTTPSConnectionPool):  # type: ignore[misc]  # urllib3 is not looked into
    """The connections to one host for https."""

    ConnectionCls = HTTPSConnection


_POOLS = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}
_THEIRS = {connectionpool.HTTPConnectionPool, connectionpool.HTTPSConnectionPool}


class BoundedAdapter(HTTPAdapter):  # type: ignore[misc]  # requests is not looked into
    """Connections for a session of requests, kept for further files."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        if set(manager.pool_classes_by_scheme.values()) == _THEIRS:  # not SOCKS
            manager.pool_classes_by_scheme = _POOLS
        return manager
