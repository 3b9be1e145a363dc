"""Mutual proof of a key that both sides know, over a connection that others may read.

Each side sends a number that was never used before, and has it back under HMAC-SHA256 with the key, together with its
peer's number and with who is who. So the key is never said, what was recorded is of no use a second time, and nobody
passes by sending back what he hears. What a caller says of itself is under its proof, and is looked at behind that.
Nothing that is said afterwards is proved or hidden.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import struct
from time import monotonic
from typing import Any, Final

_NONCE: Final = 32
_PROOF: Final = 32
_LENGTH: Final = struct.Struct("<H")


class Refused(ConnectionError):
    """The other side does not know the key, or did not say in time who it is."""


def introduce(line: socket.socket, key: str, says: dict[str, Any], until: float) -> None:
    """The part of who calls: prove and have it proved, and say who this is; ``Refused`` if that cannot be."""
    _send(line, own := secrets.token_bytes(_NONCE), until)
    nonces = own + _read(line, _NONCE, until)
    if not hmac.compare_digest(_read(line, _PROOF, until), _proof(key, b"listens", nonces)):
        raise Refused("whoever listens there does not know the key")
    said = json.dumps(says).encode()
    _send(line, _LENGTH.pack(len(said)) + said + _proof(key, b"calls", nonces + said), until)


def greet(line: socket.socket, key: str, until: float) -> dict[str, Any]:
    """The part of who is called: prove and have it proved; what the caller says of itself, or ``Refused``."""
    own = secrets.token_bytes(_NONCE)
    nonces = _read(line, _NONCE, until) + own
    _send(line, own + _proof(key, b"listens", nonces), until)
    (size,) = _LENGTH.unpack(_read(line, _LENGTH.size, until))
    said = _read(line, size, until)
    if not hmac.compare_digest(_read(line, _PROOF, until), _proof(key, b"calls", nonces + said)):
        raise Refused("a caller does not know the key")
    says: dict[str, Any] = json.loads(said)
    return says


def _proof(key: str, side: bytes, said: bytes) -> bytes:
    return hmac.digest(key.encode(), side + said, "sha256")


def _send(line: socket.socket, said: bytes, until: float) -> None:
    line.settimeout(max(0.001, until - monotonic()))
    line.sendall(said)


def _read(line: socket.socket, size: int, until: float) -> bytes:
    read = b""
    while len(read) < size:
        line.settimeout(max(0.001, until - monotonic()))
        try:
            part = line.recv(size - len(read))
        except TimeoutError:
            raise Refused("the other side did not say in time who it is") from None
        if not part:
            raise Refused("the other side has hung up before it said who it is")
        read += part
    return read
