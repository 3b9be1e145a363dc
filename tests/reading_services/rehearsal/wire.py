"""The wire between two hosts: what leaves one arrives at the other, later by a delay and now and then not at all.

Each host has an ``eth0``, whose other end is a port here; frames are carried from port to port by two threads, one for
each direction, because few kernels have tc's netem built in. A loss is drawn from a fixed seed. ``cut`` takes one port
down, as if a cable were pulled: that host sees its carrier go, the other one sees nothing at all.
"""

from __future__ import annotations

import random
import select
import socket
import threading
from collections import deque
from contextlib import suppress
from time import monotonic

_EVERYTHING = 0x0003  # ETH_P_ALL
_SOL_PACKET = 263
_PACKET_VNET_HDR = 15
_PACKET_IGNORE_OUTGOING = 23
_LARGEST = 1 << 17  # hosts leave cutting a segment into packets, and its checksum, to the card that they do not have


class Wire:
    """Carries frames between two network devices of this namespace until it is closed.

    ``delay`` is in seconds, ``loss`` a share of the frames.
    """

    def __init__(self, one: str, other: str, delay: float = 0.0, loss: float = 0.0) -> None:
        self.delay = delay
        self.loss = loss
        self.carried = self.lost = 0
        self._woken, self._wake = socket.socketpair()
        ports = _port(one), _port(other)
        self._ends = [*ports, self._woken, self._wake]
        self._threads = [
            threading.Thread(target=self._carry, args=(source, target, random.Random(number)), daemon=True)
            for number, (source, target) in enumerate((ports, ports[::-1]))
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop carrying."""
        self._wake.close()
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def _carry(self, source: socket.socket, target: socket.socket, draw: random.Random) -> None:
        due: deque[tuple[float, bytes]] = deque()
        while True:
            wait = max(0.0, due[0][0] - monotonic()) if due else None
            ready, _, _ = select.select([source, self._woken], [], [], wait)
            if self._woken in ready:
                return
            if ready:
                with suppress(BlockingIOError, OSError):  # the port is down, and with it the frame is lost
                    frame = source.recv(_LARGEST)
                    if draw.random() < self.loss:
                        self.lost += 1
                    else:
                        due.append((monotonic() + self.delay, frame))
            while due and due[0][0] <= monotonic():
                with suppress(OSError):  # as above
                    target.send(due.popleft()[1])
                    self.carried += 1


def _port(device: str) -> socket.socket:
    """All that arrives at a device, and a way to send; with each frame what the card would have had to do to it."""
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    port.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    port.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    port.bind((device, _EVERYTHING))
    return port
