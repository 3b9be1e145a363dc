"""Asked for a length that hangs on a stream without one, an operator says so of itself; lists do without."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from datapipes.iter import IterableWrapper, IterDataPipe


def unsized() -> IterDataPipe[int]:
    return IterableWrapper(range(3)).filter(lambda x: True)


def sized() -> IterDataPipe[int]:
    return IterableWrapper(range(3))


@pytest.mark.parametrize(
    ("build", "operator", "call"),
    [
        (lambda: unsized().map(str), "Mapper", ".map(str)"),
        (lambda: unsized().enumerate(), "Enumerator", ".enumerate()"),
        (lambda: unsized().repeat(2), "Repeater", ".repeat(2)"),
        (lambda: unsized().cycle(2), "Cycler", ".cycle(count=2)"),
        (lambda: unsized().batch(2), "Batcher", ".batch(2)"),
        (lambda: unsized().shuffle(), "Shuffler", ".shuffle()"),
        (lambda: unsized().prefetch(), "Prefetcher", ".prefetch()"),
        (lambda: unsized().sharding_filter(), "ShardingFilter", ".sharding_filter()"),
        (lambda: unsized().fork(2)[0], "_ForkChild", ""),
        (lambda: sized().concat(unsized()), "Concater", ".concat("),
        (lambda: sized().mux(unsized()), "Multiplexer", ".mux("),
        (lambda: sized().zip(unsized()), "Zipper", ".zip("),
        (lambda: sized().zip_longest(unsized()), "ZipperLongest", ".zip_longest("),
    ],
    ids=lambda value: value if type(value) is str else "",
)
def test_it_hangs_on_a_stream_without_one(build: Callable[[], Any], operator: str, call: str) -> None:
    with pytest.raises(TypeError, match=rf"^{operator} instance doesn't have valid length: .*{re.escape(call)}"):
        len(build())
    assert list(build())
