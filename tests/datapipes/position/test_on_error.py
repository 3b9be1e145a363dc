"""on_error and max_errors: what becomes of elements that cannot be made, and who gets to know."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes import SKIP, StreamWrapper
from datapipes.description.pipe import IterDataPipe
from datapipes.errors import BadArgument
from datapipes.iter import IterableWrapper

pytestmark = pytest.mark.filterwarnings("ignore:.*goes on after")

NUMBERS = ["0", "1", "two", "3", "four", "5"]


def failing_on(*bad: int) -> Callable[[int], int]:
    def fn(x: int) -> int:
        if x in bad:
            raise ValueError(f"bad {x}")
        return x

    return fn


def parts(text: str) -> Iterator[int]:
    yield from map(int, text.split())


class TestMapping:
    def test_leaves_out_what_cannot_be_made(self) -> None:
        it = iter(IterableWrapper(NUMBERS).map(int, on_error="skip").batch(2))
        assert list(it) == [[0, 1], [3, 5]]
        assert it.errors == {".map(int, on_error='skip')": 2}  # type: ignore[attr-defined]  # a PipeIterator

    def test_warns_once_and_names_stage_and_error(self) -> None:
        with pytest.warns(
            UserWarning, match=r"map\(int, on_error='skip'\) goes on after ValueError: .*'two'"
        ) as caught:
            list(IterableWrapper(NUMBERS).map(int, on_error="skip"))
        assert len(caught) == 1

    def test_a_function_says_what_takes_the_place(self) -> None:
        def instead(error: Exception, element: Any) -> Any:
            assert isinstance(error, ValueError)
            return SKIP if element == "two" else f"<{element}>"

        assert list(IterableWrapper(NUMBERS).map(int, on_error=instead)) == [0, 1, 3, "<four>", 5]

    def test_a_function_may_raise(self) -> None:
        def instead(error: Exception, element: Any) -> Any:
            raise LookupError(element) from error

        with pytest.raises(LookupError, match="two"):
            list(IterableWrapper(NUMBERS).map(int, on_error=instead))

    def test_errors_from_above_are_not_its_own(self) -> None:
        dp = IterableWrapper(range(4)).map(failing_on(1)).map(str, on_error="skip")
        with pytest.raises(ValueError, match="bad 1"):
            list(dp)

    def test_a_filter_leaves_out_too(self) -> None:
        dp = IterableWrapper(range(5)).filter(lambda x: 4 // x > 1, on_error="skip")
        assert list(dp) == [1, 2]

    def test_runs_of_tolerant_stages_keep_apart(self) -> None:
        it: Any = iter(
            IterableWrapper(range(10))
            .map(failing_on(1, 2), on_error="skip")
            .filter(lambda x: x != 5)
            .map(failing_on(2, 3), on_error=lambda error, x: -x)
        )
        assert list(it) == [0, -3, 4, 6, 7, 8, 9]
        assert sorted(it.errors.values()) == [1, 2]

    def test_the_length_is_unknown_where_elements_may_be_left_out(self) -> None:
        source = IterableWrapper(range(4))
        assert len(source.map(int, on_error="retry(2)")) == 4
        with pytest.raises(TypeError, match="valid length"):
            len(source.map(int, on_error="skip").map(str))


class TestRetry:
    def test_tries_again_so_often(self) -> None:
        tries: Counter[int] = Counter()

        def flaky(x: int) -> int:
            tries[x] += 1
            if tries[x] <= 2 and x == 1:
                raise OSError("not yet")
            return x

        it: Any = iter(IterableWrapper(range(3)).map(flaky, on_error="retry(2)"))
        assert list(it) == [0, 1, 2]
        assert tries == {0: 1, 1: 3, 2: 1}
        assert sum(it.errors.values()) == 2

    def test_then_raises_and_goes_on_behind(self) -> None:
        it = iter(IterableWrapper(range(3)).map(failing_on(1), on_error="retry(2)"))
        assert next(it) == 0
        with pytest.raises(ValueError, match="bad 1") as caught:
            next(it)
        assert any("after retry(2)" in note for note in caught.value.__notes__)
        assert list(it) == [2]

    def test_a_reader_goes_back_to_the_start_of_its_stream(self) -> None:
        class Flaky(io.BytesIO):
            fails = 1

            def __next__(self) -> bytes:
                if self.fails and self.tell() > 3:
                    self.fails -= 1
                    raise OSError("the line is busy")
                return super().__next__()

        stream = StreamWrapper(Flaky(b"a\nb\nc\nd\n"))
        dp = IterableWrapper([("x", stream)], deepcopy=False).readlines(return_path=False, on_error="retry(1)")
        assert list(dp) == [b"a", b"b", b"c", b"d"]

    def test_a_reader_whose_stream_cannot_go_back_raises(self) -> None:
        def lines() -> Iterator[bytes]:
            yield b"a\n"
            raise OSError("gone")

        stream = StreamWrapper(lines())
        dp = IterableWrapper([("x", stream)], deepcopy=False).readlines(return_path=False, on_error="retry(3)")
        it = iter(dp)
        assert next(it) == b"a"
        with pytest.raises(OSError, match="gone"):
            next(it)
        assert list(it) == []


class TestReading:
    def test_one_line_is_left_out_and_the_next_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes(b"1,one\n2,\xff\n3,three\n")
        it: Any = iter(IterableWrapper([str(path)]).open_files("rb").parse_csv(on_error="skip"))
        assert list(it) == [["1", "one"], ["3", "three"]]
        assert sum(it.errors.values()) == 1

    def test_a_missing_file_is_left_out(self, tmp_path: Path) -> None:
        there = tmp_path / "there.txt"
        there.write_text("here\n")
        dp = IterableWrapper([str(tmp_path / "missing.txt"), str(there)]).open_files(on_error="skip").readlines()
        assert list(dp) == [(str(there), "here")]

    def test_a_broken_stream_costs_the_rest_of_it_and_one_error(self) -> None:
        class Broken(io.BytesIO):
            def __next__(self) -> bytes:
                if self.tell() > 3:
                    raise OSError("disk on fire")
                return super().__next__()

        streams = [("a", StreamWrapper(Broken(b"1\n2\n3\n4\n"))), ("b", StreamWrapper(io.BytesIO(b"5\n")))]
        it: Any = iter(IterableWrapper(streams, deepcopy=False).readlines(on_error="skip"))
        assert list(it) == [("a", b"1"), ("a", b"2"), ("b", b"5")]
        assert sum(it.errors.values()) == 1
        assert all(stream.closed for _, stream in streams)

    def test_a_generator_that_raises_costs_the_rest_of_its_element(self) -> None:
        it: Any = iter(IterableWrapper(["1 2", "3 x 4", "5"]).flatmap(parts, on_error="skip"))
        assert list(it) == [1, 2, 3, 5]

    def test_a_replacement_takes_the_place_of_one_element(self) -> None:
        dp = IterableWrapper(["1 2", "3 x 4", None, "5"]).flatmap(parts, on_error=lambda error, element: element)
        assert list(dp) == [1, 2, 3, "3 x 4", None, 5]

    def test_what_raises_for_ever_is_given_up(self) -> None:
        class Endless:
            def __iter__(self) -> Endless:
                return self

            def __next__(self) -> int:
                raise ValueError("again")

        dp: IterDataPipe[int] = IterableWrapper([Endless(), [1]]).flatmap(on_error="skip")
        assert list(dp) == [1]


@given(
    bad=st.sets(st.integers(0, 30)),
    lengths=st.lists(st.integers(0, 5), max_size=8),
    stop=st.integers(0, 40),
)
def test_resumes_behind_errors_wherever_it_is(bad: set[int], lengths: list[int], stop: int) -> None:
    starts = [sum(lengths[:i]) for i in range(len(lengths))]

    class Row:
        """Goes on after an element that it could not make."""

        def __init__(self, numbers: Any) -> None:
            self.numbers = iter(numbers)

        def __iter__(self) -> Row:
            return self

        def __next__(self) -> int:
            return failing_on(*bad)(next(self.numbers))

    def row(i: int) -> Row:
        return Row(range(starts[i], starts[i] + lengths[i]))

    def graph() -> IterDataPipe[int]:
        return IterableWrapper(range(len(lengths))).flatmap(row, on_error="skip")

    expected = [x for x in range(sum(lengths)) if x not in bad]
    it: Any = iter(graph())
    begun = [x for _, x in zip(range(stop), it, strict=False)]
    again: Any = iter(graph())
    if len(begun) == stop:
        again.load_state_dict(it.state_dict())
        assert begun + list(again) == expected
    else:
        assert begun == expected


@pytest.mark.parametrize(
    ("policy", "most", "message"),
    [
        ("ignore", None, "on_error must be"),
        ("retry(0)", None, "on_error must be"),
        ("retry", None, "on_error must be"),
        (None, None, "on_error must be"),
        ("skip", -1, "max_errors must be"),
        ("skip", 1.5, "max_errors must be"),
        ("skip", True, "max_errors must be"),
        ("raise", 3, "limits what on_error lets pass"),
    ],
)
def test_refuses_what_means_nothing(policy: Any, most: Any, message: str) -> None:
    with pytest.raises(BadArgument, match=rf"(?s){message}.*\.map\(int"):
        IterableWrapper("12").map(int, on_error=policy, max_errors=most)
