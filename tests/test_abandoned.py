"""An iterator without references is closed quietly, whichever thread finds it, its own prefetch included."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import pytest

from datapipes.iter import IterableWrapper


def test_the_prefetch_thread_itself_may_collect_its_iterator(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: said.append(repr(args.exc_value)))
    monkeypatch.setattr(threading, "excepthook", lambda args: said.append(repr(args.exc_value)))
    under_way, abandoned = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def collecting(x: int) -> int:
        if x == 1:
            threads.append(threading.current_thread())
            under_way.set()
            abandoned.wait()
            gc.collect()
        return x

    gc.disable()  # no other thread may find it first
    try:
        iterator = iter(IterableWrapper(range(9)).map(collecting).prefetch(1))
        assert next(iterator) == 0
        ring: list[Any] = [iterator]
        ring.append(ring)
        under_way.wait()
        del iterator, ring
        abandoned.set()
        threads[0].join()
    finally:
        gc.enable()
    assert said == []
