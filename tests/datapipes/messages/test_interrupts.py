"""Wherever Ctrl-C finds the library at work, its traceback ends in the user's code."""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any

import pytest

from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import InProcessReadingService, ThreadingReadingService

MOST_FRAMES = 6


@contextmanager
def interrupted_when(wanted: Callable[[FrameType], bool]) -> Iterator[None]:
    """Interrupt this thread when it makes the first such call from here on."""

    def each(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and wanted(frame):
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    # Ctrl-C at a terminal has no frame of its own: let this one pass for the library's.
    each.__code__ = each.__code__.replace(co_filename="<loop of calls>")
    gc.disable()  # what others have it call is no part of the start, and cannot be interrupted
    sys.setprofile(each)
    try:
        yield
    finally:
        sys.setprofile(None)
        gc.enable()


def opened(make_service: Callable[[], Any], call: int) -> list[traceback.FrameSummary] | None:
    """The frames that an interrupt shows at a call before the first element; None if there were fewer calls."""
    graph = IterableWrapper(range(100)).shuffle().sharding_filter().map(str).filter(str.isdigit).batch(3)
    dl: DataLoader2[Any] = DataLoader2(graph, reading_service=make_service())
    calls = count()
    try:
        with interrupted_when(lambda _: next(calls) == call):
            elements = iter(dl)
            next(elements)
    except KeyboardInterrupt as interrupt:
        return traceback.extract_tb(interrupt.__traceback__)
    finally:
        dl.shutdown()
    return None


@pytest.mark.parametrize(
    "make_service",
    [lambda: None, InProcessReadingService, lambda: ThreadingReadingService(2)],
    ids=["none", "in process", "threads"],
)
def test_at_any_call_of_the_start(make_service: Callable[[], Any]) -> None:
    looked = 0
    for call in count(0, 17):
        frames = opened(make_service, call)
        if frames is None:
            break
        shown = [frame for frame in frames if frame.filename not in (__file__, "<loop of calls>")]
        assert len(shown) <= MOST_FRAMES, "".join(traceback.format_list(frames))
        looked += 1
    assert looked > 10


@pytest.mark.parametrize("within", ["datapipes.", "namedtuple_"])
def test_a_constructor_that_python_wrote_is_not_the_users(within: str) -> None:
    def is_one(frame: FrameType) -> bool:
        return frame.f_code.co_filename == "<string>" and frame.f_globals["__name__"].startswith(within)

    dl = DataLoader2(IterableWrapper(range(100)).shuffle().sharding_filter().batch(3))
    with pytest.raises(KeyboardInterrupt) as interrupted, interrupted_when(is_one):
        next(iter(dl))
    assert {frame.filename for frame in traceback.extract_tb(interrupted.tb)} == {__file__}


def busy(x: int) -> int:
    if x == 2:
        signal.raise_signal(signal.SIGINT)
    return x


def test_a_function_of_the_users_is_shown() -> None:
    with pytest.raises(KeyboardInterrupt) as interrupted:
        list(IterableWrapper(range(5)).map(busy).batch(2))
    assert traceback.extract_tb(interrupted.tb)[-1].name == "busy"
