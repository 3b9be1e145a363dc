"""An error that a policy lets through keeps nothing alive, as any other: the garbage collector is not needed."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.iterator import iterate
from datapipes.position.session import Session
from loader2.testing.ending import nothing_left

NUMBERS: Any = IterableWrapper(range(1000))


def bad(x: Any) -> Any:
    raise ValueError(f"{x} is bad")


async def bad_coroutine(x: Any) -> Any:
    raise ValueError(f"{x} is bad")


@pytest.mark.parametrize(
    "build",
    [
        lambda options: NUMBERS.prefetch().map(bad, **options),
        lambda options: NUMBERS.prefetch().flatmap(bad, **options),
        lambda options: NUMBERS.prefetch().map_batches(bad, 2, **options),
        lambda options: NUMBERS.shuffled_flatmap(bad, **options).prefetch(),
        lambda options: NUMBERS.threadpool_map(bad, **options),
        lambda options: NUMBERS.async_map_batches(bad_coroutine, 2, **options),
    ],
)
@pytest.mark.parametrize("options", [{}, {"on_error": "retry(2)"}, {"on_error": "skip", "max_errors": 0}])
def test_an_iterator_that_is_left_at_an_error(
    build: Callable[[dict[str, Any]], IterDataPipe[Any]], options: dict[str, Any]
) -> None:
    def leave() -> None:
        it = iter(build(options))
        with warnings.catch_warnings(action="ignore"), pytest.raises((ValueError, RuntimeError)):
            next(it)

    with nothing_left("left at an error"):
        leave()


def test_an_iterator_that_is_left_at_an_error_that_waited_in_a_prefetch() -> None:
    """It waited there when an error below it came, and the prefetch began anew with a buffer full of it."""

    met = threading.Event()

    def above(x: int) -> int:
        if x == 1:
            met.set()
            bad(x)
        return x

    def below(x: int) -> int:
        assert met.wait(300)
        return bad(x) if x == 0 else x

    def leave() -> Session:
        it = iterate(NUMBERS.map(above).prefetch(1).map(below))
        for said in ("0 is bad", "1 is bad"):
            with pytest.raises(ValueError, match=said):
                next(it)
        return it.session

    with nothing_left("left at the second error"):
        assert leave().ended
