"""Archives and their members, and closing what is nested in elements."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

from datapipes.elements.streams import StreamWrapper, janitor


def wrapped(parent: StreamWrapper | None = None) -> StreamWrapper:
    return StreamWrapper(io.BytesIO(b"one\ntwo\n"), parent)


def test_children_are_counted() -> None:
    archive = wrapped()
    first, second = wrapped(archive), wrapped(archive)
    assert archive.child_counter == 2
    first.close()
    first.close()
    assert archive.child_counter == 1
    del second
    assert archive.child_counter == 0
    assert not archive.closed


def test_autoclose_waits_for_the_last_child() -> None:
    archive = wrapped()
    first, second = wrapped(archive), wrapped(archive)
    archive.autoclose()
    first.close()
    assert archive.close_on_last_child
    assert not archive.closed
    del second
    assert archive.closed


def test_autoclose_without_children_closes_at_once() -> None:
    archive = wrapped()
    archive.autoclose()
    assert archive.closed


def test_autoclose_climbs_through_nested_archives() -> None:
    outer = wrapped()
    inner = wrapped(outer)
    member = wrapped(inner)
    outer.autoclose()
    inner.autoclose()
    member.close()
    assert inner.closed
    assert outer.closed


def test_archive_closes_even_if_its_last_member_fails_to() -> None:
    class Failing(io.BytesIO):
        def close(self) -> None:
            super().close()
            raise OSError("disk full")

    archive = wrapped()
    member = StreamWrapper(Failing(), archive)
    archive.autoclose()
    with pytest.raises(OSError, match="disk full"):
        member.close()
    assert member.closed
    assert archive.closed


def test_children_may_be_closed_by_many_threads() -> None:
    archive = wrapped()
    children = [wrapped(archive) for _ in range(400)]
    archive.autoclose()
    start = threading.Barrier(4)

    def close(mine: list[StreamWrapper]) -> None:
        start.wait()
        for child in mine:
            wrapped(archive).close()
            child.close()

    threads = [threading.Thread(target=close, args=(children[part:-1:4],)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert archive.child_counter == 1
    assert not archive.closed
    children[-1].close()
    assert archive.closed


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def test_janitor_closes_what_is_nested_in_lists_tuples_and_values() -> None:
    streams = [wrapped() for _ in range(5)]
    plain, listed, valued, deep, in_set = streams
    janitor(plain)
    janitor([1, ("name", listed), {"image": valued}, nested(deep, 3), {in_set}, "text"])
    assert [stream.closed for stream in streams] == [True, True, True, True, False]
    janitor(7)


def test_janitor_looks_ten_containers_deep() -> None:
    within, beyond = wrapped(), wrapped()
    janitor([nested(within, 9), nested(beyond, 10)])
    assert within.closed
    assert not beyond.closed


def test_janitor_ends_on_containers_that_hold_themselves() -> None:
    stream = wrapped()
    ring: list[object] = [stream]
    ring.extend([ring] * 100)
    janitor(ring)
    assert stream.closed


def test_janitor_closes_the_rest_if_one_fails() -> None:
    class Failing(io.BytesIO):
        def close(self) -> None:
            super().close()
            raise OSError("disk full")

    streams = [wrapped(), StreamWrapper(Failing()), wrapped()]
    with pytest.raises(OSError, match="disk full"):
        StreamWrapper.close_streams(streams)
    assert all(stream.closed for stream in streams)


def test_janitor_closes_archives_before_they_close_themselves() -> None:
    archive = wrapped()
    member = wrapped(archive)
    janitor((archive, member))
    assert archive.closed
    assert member.closed
    assert archive.child_counter == 0
