"""Streams of remote files that a forked process reads on."""

from __future__ import annotations

import multiprocessing
from typing import Any

from tests.moto_server import PATIENCE


def must_read_on_in_a_fork(stream: Any, data: bytes) -> None:
    """Assert that a forked process, and then this one, reads the rest of a stream after its first bytes."""
    with stream:
        head = stream.read(10)
        process = multiprocessing.get_context("fork").Process(target=_must_be, args=(stream, data[10:]))
        process.start()
        process.join(PATIENCE)
        assert process.exitcode == 0
        assert head + stream.read() == data


def _must_be(stream: Any, data: bytes) -> None:
    assert stream.read() == data
