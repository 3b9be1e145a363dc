"""map_batches: a function of lists, and the elements that come of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import BatchMapper, IterableWrapper
from tests.datapipes.iter.mishaps import failing_at, outcomes


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


def test_batches() -> None:
    given = []

    def sums(batch: list[int]) -> list[int]:
        given.append((type(batch), batch))
        return [sum(batch)] * (len(batch) - 1)

    dp = numbers(7).map_batches(sums, batch_size=3)
    assert isinstance(dp, BatchMapper)
    assert list(dp) == [3, 3, 12, 12]
    assert given == [(list, [0, 1, 2]), (list, [3, 4, 5]), (list, [6])]
    with pytest.raises(TypeError, match="BatchMapper's length relies on the output of its function"):
        len(dp)


def test_columns() -> None:
    rows = IterableWrapper([{"x": 1, "y": 2}, {"x": 3, "y": 4}])
    assert list(rows.map_batches(lambda batch: [batch], 2, input_col="y")) == [[2, 4]]
    assert list(rows.map_batches(lambda batch: [batch], 2, input_col=["y", "x"])) == [[[2, 1], [4, 3]]]


def test_arguments() -> None:
    with pytest.raises(BadArgument, match=r"Batch size is required to be larger than 0, in \.map_batches"):
        numbers(1).map_batches(list, 0)
    with pytest.raises(BadArgumentType, match=r"A callable function is expected by map_batches\(\)"):
        numbers(1).map_batches(3, 1)  # type: ignore[arg-type]  # that is what is refused


def test_an_error_of_the_source_cuts_no_batch_short() -> None:
    dp = numbers(7).map(failing_at(1, 4)).map_batches(lambda batch: [batch], 2)
    assert outcomes(dp) == ["ValueError: 1 is bad", [0, 2], "ValueError: 4 is bad", [3, 5], [6]]


def test_an_error_of_the_function_costs_its_batch() -> None:
    def inverse(batch: list[int]) -> list[float]:
        return [1 / (x - 1) for x in batch]

    assert outcomes(numbers(4).map_batches(inverse, 2)) == ["ZeroDivisionError: division by zero", 1.0, 0.5]
    replaced: Any = []
    dp = numbers(4).map_batches(inverse, 2, on_error=lambda error, batch: replaced.append(batch))
    with pytest.warns(UserWarning, match="goes on after ZeroDivisionError"):
        assert list(dp) == [None, 1.0, 0.5]
    assert replaced == [[0, 1]]


def test_resumed_between_two_elements_of_a_cut_batch() -> None:
    def build() -> Any:
        return numbers(9).map(failing_at(1)).map_batches(lambda batch: (10 * x for x in batch), 3)

    it: Any = iter(build())
    with pytest.raises(ValueError, match="1 is bad"):
        next(it)
    for given in range(8):
        again: Any = iter(build())
        again.load_state_dict(it.state_dict())
        assert list(again) == [0, 20, 30, 40, 50, 60, 70, 80][given:]
        next(it)


def test_open_files_are_read_again_from_their_positions(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text("".join(f"{name}{i}\n" for i in range(3)))

    def lines(batch: list[tuple[str, Any]]) -> Iterator[str]:
        for _, stream in batch:
            yield from (line.rstrip() for line in stream)

    def build() -> Any:
        return IterableWrapper([str(tmp_path / name) for name in "abc"]).open_files().map_batches(lines, 2)

    whole = list(build())
    assert whole == ["a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2"]
    it: Any = iter(build())
    for given in range(10):
        again: Any = iter(build())
        again.load_state_dict(it.state_dict())
        assert list(again) == whole[given:]
        next(it, None)
