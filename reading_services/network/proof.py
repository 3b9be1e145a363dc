"""Mutual proof of a shared key, over a connection that other processes may read.

Each side sends a new random number. The peer returns an HMAC-SHA256 with the key over both numbers and its own role.
So the key is never sent, a recorded exchange cannot be used again, and a message cannot be sent back as its own answer.
The caller's description of itself is part of its proof, and is read only after the proof was checked. Later messages
are neither proved nor encrypted.
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
    """The peer does not know the key, or did not prove in time that it does."""


def introduce(line: socket.socket, key: str, says: dict[str, Any], until: float) -> None:
    """Prove the key as the caller, check the listener's proof, and send ``says``. Raise Refused if a proof fails."""
    _send(line, own := secrets.token_bytes(_NONCE), until)
    nonces = own + _read(line, _NONCE, until)
    if not hmac.compare_digest(_read(line, _PROOF, until), _proof(key, b"listens", nonces)):
        raise Refused("the process that listens there does not know the key")
    said = json.dumps(says).encode()
    _send(line, _LENGTH.pack(len(said)) + said + _proof(key, b"calls", nonces + said), until)


def greet(line: socket.socket, key: str, until: float) -> dict[str, Any]:
    """Prove the key as the listener, check the caller's proof, and return what it says. Raise Refused if one fails."""
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
            raise Refused("the peer did not prove in time that it knows the key") from None
        if not part:
            raise Refused("the peer closed the connection before it proved that it knows the key")
        read += part
    return read
