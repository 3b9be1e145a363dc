"""read_from_stream: all of each stream, in pieces of the size that was asked for."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument
from datapipes.iter import IterableWrapper
from tests.datapipes.iter.files.given import files


@given(st.binary(max_size=50), st.integers(1, 20))
def test_pieces_are_of_one_size_and_come_to_all(data: bytes, chunk: int) -> None:
    pieces = [piece for _, piece in files(("a", data)).read_from_stream(chunk)]
    assert b"".join(pieces) == data
    assert all(len(piece) == chunk for piece in pieces[:-1])
    assert all(pieces)


@pytest.mark.parametrize("chunk", [None, -1])
def test_all_at_once(chunk: int | None) -> None:
    text = IterableWrapper([("a", io.StringIO("text")), ("b", io.StringIO(""))], deepcopy=False)
    assert list(text.read_from_stream(chunk)) == [("a", "text")]


def test_a_stream_is_closed_after_its_last_piece() -> None:
    stream = StreamWrapper(io.BytesIO(b"12345"))
    iterator = iter(IterableWrapper([("a", stream)], deepcopy=False).read_from_stream(3))
    assert [next(iterator), next(iterator)] == [("a", b"123"), ("a", b"45")]
    assert not stream.closed
    assert list(iterator) == []
    assert stream.closed


def test_a_chunk_of_nothing_is_an_error() -> None:
    for chunk in (0, -2):
        with pytest.raises(BadArgument, match="'chunk' is required to be a positive integer"):
            files().read_from_stream(chunk)
