"""How many errors a stage lets pass, and how they are counted."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest

from datapipes import StreamWrapper
from datapipes.description.pipe import IterDataPipe
from datapipes.errors import TooManyErrors
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from tests.datapipes.position.test_on_error import failing_on

pytestmark = pytest.mark.filterwarnings("ignore:.*goes on after")


class TestLimit:
    @pytest.mark.parametrize("most", [0, 1, 3])
    def test_a_number_of_errors(self, most: int) -> None:
        it = iter(IterableWrapper(range(100)).map(failing_on(*range(10, 20)), on_error="skip", max_errors=most))
        given: list[int] = []
        with pytest.raises(TooManyErrors, match=rf"{most + 1} errors, more than max_errors={most}") as caught:
            given.extend(it)
        assert isinstance(caught.value.__cause__, ValueError)

    def test_a_share_is_judged_over_what_was_seen(self) -> None:
        numbers = IterableWrapper(range(1000))
        fine = numbers.map(failing_on(*range(99, 1000, 100)), on_error="skip", max_errors=0.01)
        assert len(list(fine)) == 990
        with pytest.raises(TooManyErrors, match=r"errors among .* elements, more than max_errors=0.01"):
            list(numbers.map(failing_on(*range(49, 1000, 50)), on_error="skip", max_errors=0.01))

    def test_a_share_of_a_short_stream_is_judged_at_its_end(self) -> None:
        dp = IterableWrapper(range(5)).map(failing_on(3), on_error="skip", max_errors=0.01)
        it = iter(dp)
        assert [next(it) for _ in range(4)] == [0, 1, 2, 4]
        with pytest.raises(TooManyErrors, match="1 errors among 5 elements"):
            next(it)

    def test_a_share_of_the_lines_of_a_long_file(self) -> None:
        text = b"".join(b"\xff\n" if i % 200 == 0 else b"%d\n" % i for i in range(2000))
        source = [("a", StreamWrapper(io.BytesIO(text)))]
        dp = IterableWrapper(source, deepcopy=False).readlines(decode=True, on_error="skip", max_errors=0.01)
        assert len(list(dp)) == 1990

    def test_counts_are_part_of_the_position(self) -> None:
        def graph() -> IterDataPipe[int]:
            return IterableWrapper(range(20)).map(failing_on(1, 2, 12), on_error="skip", max_errors=2)

        it: Any = iter(graph())
        for _ in range(5):
            next(it)
        again: Any = iter(graph())
        again.load_state_dict(it.state_dict())
        assert list(again.errors.values()) == [2]
        with pytest.raises(TooManyErrors):
            list(again)

    def test_laps_and_what_is_above_a_class_of_ones_own_are_counted(self) -> None:
        class Own(IterDataPipe[int]):
            def __init__(self, source_datapipe: IterDataPipe[int]) -> None:
                self.source_datapipe = source_datapipe

            def __iter__(self) -> Iterator[int]:
                yield from self.source_datapipe

        numbers = IterableWrapper(range(4))
        it: Any = iter(
            Own(numbers.map(failing_on(1), on_error="skip")).mux(numbers.map(failing_on(2), on_error="skip"))
        )
        assert list(it) == [0, 0, 2, 1, 3, 3]
        assert list(it.errors.values()) == [2]
        laps: Any = iter(numbers.map(failing_on(1), on_error="skip").cycle(3))
        assert list(laps) == [0, 2, 3] * 3
        assert list(laps.errors.values()) == [3]

    def test_each_epoch_counts_anew(self) -> None:
        with DataLoader2(IterableWrapper(range(5)).map(failing_on(3), on_error="skip", max_errors=1)) as dl:
            for _ in range(3):
                assert list(dl) == [0, 1, 2, 4]
                assert list(dl.errors.values()) == [1]
