"""HTTP connections that never wait past the deadline of the file that is read.

requests gives each wait for data a time, but a server that sends one byte in every such time could hold a reader
forever, in the headers already. Here each single wait asks the running clock how much is left. (Looking up a host's
name is the one thing that Python cannot bound.)
"""

from __future__ import annotations

import io
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from datapipes.remote.transfer import running_clock


class _Reads(io.RawIOBase):
    """What a socket receives; each wait is as long as the clock says."""

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
    """A socket whose incoming side is bounded."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reads(self._sock), 64 * 1024)


class _Connection(HTTPConnection):  # type: ignore[misc]  # urllib3 is not looked into
    sock: Any

    def connect(self) -> None:
        super().connect()
        self.sock = _Socket(self.sock)


class _SecureConnection(HTTPSConnection):  # type: ignore[misc]  # urllib3 is not looked into
    sock: Any

    def connect(self) -> None:
        super().connect()
        self.sock = _Socket(self.sock)


class _Pool(HTTPConnectionPool):  # type: ignore[misc]  # urllib3 is not looked into
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):  # type: ignore[misc]  # urllib3 is not looked into
    ConnectionCls = _SecureConnection


class BoundedAdapter(HTTPAdapter):  # type: ignore[misc]  # requests is not looked into
    """Connections for a session of requests, kept for further files."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def proxy_manager_for(self, proxy: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        if set(manager.pool_classes_by_scheme.values()) == {HTTPConnectionPool, HTTPSConnectionPool}:  # not SOCKS
            manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
        return manager
