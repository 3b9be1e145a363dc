"""The arena: no two slots that are in use overlap, and all that is let go of can be taken again."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reading_services.workers.transport.arena import Writer, aligned, create, leased

SIZE = 1 << 14


@pytest.fixture(scope="module")
def fd() -> Iterator[int]:
    made = create(SIZE)
    yield made
    os.close(made)


Steps = st.lists(st.tuples(st.booleans(), st.integers(1, 6000), st.integers(0, 50)), max_size=60)


def check(leases: list[tuple[memoryview, bytes]]) -> None:
    for lease, content in leases:
        assert bytes(lease[: len(content)]) == content


@settings(max_examples=200)
@given(Steps)
def test_slots_in_use_keep_their_bytes_and_all_comes_back(fd: int, steps: list[tuple[bool, int, int]]) -> None:
    writer, memory = Writer(fd), mmap.mmap(fd, 0)
    live: list[tuple[memoryview, bytes]] = []
    for number, (lets_go, size, which) in enumerate(steps):
        if lets_go and live:
            live.pop(which % len(live))
        content = bytes([number % 251]) * size
        slot = writer.put([memoryview(content)])
        if slot is None:
            assert sum(aligned(len(kept)) for _, kept in live) + aligned(size) > SIZE // 3, "in pieces, but so small?"
        else:
            live.append((leased(memory, *slot), content))
        check(live)
    live.clear()
    slot = writer.put([memoryview(bytes(SIZE))])
    assert slot is not None, "all that was let go of is one piece again"
    leased(memory, *slot)


@given(st.lists(st.tuples(st.integers(1, 3000), st.booleans()), max_size=20))
def test_reserved_slots_are_handed_over_or_copied_and_come_back(fd: int, plan: list[tuple[int, bool]]) -> None:
    writer, memory = Writer(fd), mmap.mmap(fd, 0)
    kept_here: list[memoryview] = []
    there: list[tuple[memoryview, bytes]] = []
    for number, (size, keeps) in enumerate(plan):
        view = writer.reserve(size)
        if view is None:
            continue
        content = bytes([number + 1]) * size
        view[:] = content
        offset = writer.reserved_at(view)
        assert offset is not None
        if keeps:
            kept_here.append(view)
        del view
        handed = writer.copy_kept_values(offset)
        assert isinstance(handed, memoryview) is keeps
        if isinstance(handed, memoryview):
            assert bytes(handed) == content
        else:
            there.append((leased(memory, *handed), content))
        del handed
        check(there)
    kept_here.clear()
    there.clear()
    slot = writer.put([memoryview(bytes(SIZE))])
    assert slot is not None
    leased(memory, *slot)


def test_there_is_no_room_for_more_than_there_is(fd: int) -> None:
    writer, memory = Writer(fd), mmap.mmap(fd, 0)
    assert writer.put([memoryview(bytes(SIZE + 1))]) is None
    slot = writer.put([memoryview(bytes(SIZE))])
    assert slot is not None
    lease = leased(memory, *slot)
    assert writer.put([memoryview(b"x")]) is None
    del lease
    assert writer.put([memoryview(b"x")]) is not None


def test_what_is_to_be_copied_stays_until_it_is(fd: int) -> None:
    writer = Writer(fd)
    view = writer.reserve(SIZE // 2)
    assert view is not None
    offset = writer.reserved_at(view)
    assert offset is not None
    copied = writer.copy_kept_values(offset)
    assert isinstance(copied, memoryview)
    del view  # its user drops it in between
    assert writer.put([memoryview(bytes(SIZE))]) is None
    del copied
    assert writer.put([memoryview(bytes(SIZE))]) is not None
