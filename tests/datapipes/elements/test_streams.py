"""A file behind a wrapper is closed exactly when it should be, and read as fast as without one."""

from __future__ import annotations

import copy
import csv
import gc
import io
import itertools
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import datapipes.elements.streams
from datapipes.elements.streams import StreamWrapper


def wrapped(parent: StreamWrapper | None = None) -> StreamWrapper:
    return StreamWrapper(io.BytesIO(b"one\ntwo\n"), parent)


@pytest.fixture
def debugging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(StreamWrapper, "debug_unclosed_streams", True)
    yield
    for stream in list(StreamWrapper.session_streams):
        stream.close()


def test_attributes_are_those_of_the_file() -> None:
    stream = wrapped()
    assert stream.read(3) == b"one"
    assert stream.tell() == 3
    assert {"read", "getvalue", "autoclose", "file_obj"} <= set(dir(stream))
    with pytest.raises(AttributeError, match=r"BytesIO.*no attribute 'nothing'"):
        _ = stream.nothing
    with pytest.raises(TypeError, match="has no len"):
        len(stream)


def test_iter_and_next_are_those_of_the_file() -> None:
    stream = wrapped()
    assert next(stream) == b"one\n"
    assert list(stream) == [b"two\n"]
    stream.seek(0)
    assert list(stream) == [b"one\n", b"two\n"]
    with pytest.raises(TypeError, match="not iterable"):
        iter(StreamWrapper(5))


def test_lines_cost_no_call_in_python() -> None:
    calls: list[str] = []
    stream = wrapped()
    lines = iter(stream)
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        for _ in lines:
            pass
    finally:
        sys.setprofile(None)
    assert calls == []
    assert stream.tell() == 8


def test_an_iterator_keeps_its_file_open_until_it_is_gone() -> None:
    file = io.StringIO("a,b\r\nc,d\r\n")
    rows = csv.reader(StreamWrapper(file))
    assert next(rows) == ["a", "b"]
    assert not file.closed
    assert list(rows) == [["c", "d"]]
    assert file.closed
    file = io.StringIO("one\ntwo\n")
    lines = iter(StreamWrapper(file))
    assert next(lines) == "one\n"
    assert not file.closed
    del lines
    streams = (wrapped() for _ in range(2))
    assert list(itertools.chain.from_iterable(streams)) == [b"one\n", b"two\n"] * 2


def test_repr_shows_name_and_file() -> None:
    file = io.BytesIO()
    assert repr(StreamWrapper(file)) == f"StreamWrapper<{file!r}>"
    assert repr(StreamWrapper(file, name="cat.jpg")) == f"StreamWrapper<cat.jpg,{file!r}>"


def test_close_is_done_once() -> None:
    class Counting(io.BytesIO):
        closings = 0

        def close(self) -> None:
            self.closings += 1
            super().close()

    file = Counting()
    stream = StreamWrapper(file)
    assert not stream.closed
    for _ in range(2):
        stream.close()
    assert stream.closed
    assert file.closings == 1
    StreamWrapper("a thing without close").close()


def test_with_closes_also_after_an_error() -> None:
    with pytest.raises(KeyError, match="'user'"), wrapped() as stream:
        raise KeyError("user")
    assert stream.closed
    assert stream.file_obj.closed


def test_the_last_reference_closes() -> None:
    stream = wrapped()
    file = stream.file_obj
    del stream
    assert file.closed


def test_parent_must_be_wrapped_and_the_file_stays_with_its_owner() -> None:
    file = io.BytesIO()
    with pytest.raises(RuntimeError, match="Parent stream should be StreamWrapper"):
        StreamWrapper(file, parent_stream=io.BytesIO())  # type: ignore[arg-type]  # the mistake under test
    gc.collect()
    assert not file.closed


def test_half_built_wrappers_are_harmless() -> None:
    half_built = StreamWrapper.__new__(StreamWrapper)
    assert half_built.closed
    assert repr(half_built) == "StreamWrapper<None>"
    with pytest.raises(AttributeError, match="read"):
        half_built.read()
    half_built.close()
    del half_built  # an error in __del__ would be a warning, hence an error


@pytest.mark.usefixtures("debugging")
def test_open_streams_can_be_listed() -> None:
    archive = StreamWrapper(io.BytesIO(), name="cats.tar")
    member = wrapped(archive)
    assert set(StreamWrapper.session_streams) == {archive, member}
    assert StreamWrapper.session_streams[archive] == "cats.tar"
    member.close()
    assert list(StreamWrapper.session_streams) == [archive]
    file = archive.file_obj
    # The table is weak, and an archive is known to its members only while they live.
    del archive, member
    assert file.closed
    assert len(StreamWrapper.session_streams) == 0


def test_open_streams_are_not_listed_unasked() -> None:
    stream = wrapped()
    assert stream not in StreamWrapper.session_streams


def test_pickle_carries_the_file_only() -> None:
    archive = wrapped()
    stream = StreamWrapper(io.BytesIO(b"content"), archive, name="cat.jpg")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        twin = pickle.loads(pickle.dumps(stream, protocol))
        assert twin.read() == b"content"
        assert (twin.name, twin.parent_stream, twin.child_counter, twin.closed) == (None, None, 0, False)
        twin.close()
    assert archive.child_counter == 1
    assert copy.deepcopy(stream).read() == b"content"
    assert pickle.loads(pickle.dumps(StreamWrapper(None))).file_obj is None


def test_what_does_not_pickle_says_so_quietly() -> None:
    with StreamWrapper(Path(__file__).open("rb")) as stream, pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(stream)


def test_exit_of_the_interpreter_is_quiet() -> None:
    script = """
import io
from datapipes.elements.streams import StreamWrapper
StreamWrapper.debug_unclosed_streams = True
archive = StreamWrapper(io.BytesIO())
member = StreamWrapper(open(__file__) if "__file__" in globals() else io.BytesIO(), archive)
archive.autoclose()
archive.itself = archive, member
"""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=Path(datapipes.elements.streams.__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_wrappers_in_a_cycle_are_closed_by_the_collector() -> None:
    stream = wrapped()
    file = stream.file_obj
    ring: list[object] = [stream]
    ring.append(ring)
    del stream, ring
    assert not file.closed
    gc.collect()
    assert file.closed
