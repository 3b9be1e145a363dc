"""This host's address on the network of its process group, and free ports.

The address is that of the interface given to gloo, or else of the interface on the route to the group's master. A
process on another network of this host cannot connect.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from datapipes.errors import BadArgument

INTERFACE: Final = "GLOO_SOCKET_IFNAME"
PORTS: Final = "LOADER2_PORTS"
_GIVES_ADDRESS: Final = 0x8915
"""SIOCGIFADDR: the IPv4 address of an interface."""
_OUTSIDE: Final = "192.0.2.1"
"""An address that no host has: its route is the default route."""


def address(master: str | None) -> str:
    """Return the address of this host at which the other ranks reach it.

    >>> address("localhost")
    '127.0.0.1'
    """
    if names := os.environ.get(INTERFACE):
        return _of_interface(names.partition(",")[0])
    found = _towards(master or socket.gethostname())
    if found is not None and master is not None and ip_address(found).is_loopback and _is_name(master):
        found = _towards(_OUTSIDE) or found  # this host's own name, which other hosts resolve to another address
    return found or "127.0.0.1"


def listening(host: str, backlog: int) -> socket.socket:
    """Open a socket that listens at an address of this host, at the first allowed port that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in (ports := _ports()):
        try:
            return socket.create_server((host, port), family=family, backlog=backlog)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"all ports of {PORTS}={os.environ.get(PORTS)} are in use at {host}: {len(ports)}")


def _ports() -> range:
    if not (text := os.environ.get(PORTS)):
        return range(1)  # the system chooses one
    first, _, last = text.partition("-")
    try:
        ports = range(int(first), int(last or first) + 1)
    except ValueError:
        ports = range(0)
    if not ports or ports[0] < 1 or ports[-1] > 65535:
        raise BadArgument(f"{PORTS}={text!r}: expected the first and the last port, as 29600-29699")
    return ports


def _towards(name: str) -> str | None:
    """Return the address that this host would send from, IPv4 if possible. Return None if there is no route."""
    try:
        ways = socket.getaddrinfo(name, 9, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, _, _, there in sorted(ways):
        with closing(socket.socket(family, kind)) as way:
            try:
                way.connect(there)  # sends nothing
            except OSError:
                continue
            return str(way.getsockname()[0])
    return None


def _is_name(host: str) -> bool:
    """Return whether other hosts may resolve this name to another address."""
    try:
        ip_address(host)
    except ValueError:
        return host != "localhost"
    return False


def _of_interface(name: str) -> str:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as asking:
        try:
            answer = fcntl.ioctl(asking, _GIVES_ADDRESS, struct.pack("256s", name.encode()[:15]))
            return socket.inet_ntoa(answer[20:24])
        except OSError:
            pass  # it has no IPv4 address
    if found := next(_of_ipv6(name), None):
        return found
    others = ", ".join(interface for _, interface in socket.if_nameindex())
    raise BadArgument(f"{INTERFACE}={name!r}: no such interface with an address on this host; there are {others}")


def _of_ipv6(name: str) -> Iterator[str]:
    path = Path("/proc/net/if_inet6")
    for line in path.read_text().splitlines() if path.exists() else ():
        digits, _, _, scope, _, interface = line.split()
        if interface == name and scope != "20":  # a link-local address
            yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
