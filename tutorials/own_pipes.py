"""Pipes of one's own.

This tutorial writes a pipe as a class with an ``__iter__``, and makes
it a method of every pipe. It shows the replay on resume, and how
``state_dict`` and ``load_state_dict`` avoid it. The last part shows
errors.
"""

import traceback
from collections.abc import Callable, Iterator
from typing import Any

from datapipes import functional_datapipe
from datapipes.errors import Loader2Error
from datapipes.graph import to_text
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2

calls: list[int] = []  # what `costly` was called with


def main() -> None:
    a_plain_class()
    what_is_replayed()
    a_class_that_says_where_it_is()
    an_error_in_a_function()
    mistakes_that_are_found_early()


@functional_datapipe("differences")
class Differences(IterDataPipe[int]):
    """The difference of each element to the one before it."""

    def __init__(self, source_datapipe: IterDataPipe[int]) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[int]:
        last = None
        for element in self.source_datapipe:
            if last is not None:
                yield element - last
            last = element


@functional_datapipe("resumable_differences")
class ResumableDifferences(IterDataPipe[int]):
    """The same, but what it remembers is in an attribute, which it can
    tell and take back.

    The state must be complete at each ``yield``: here, ``last`` is the
    element of the latest one already.
    """

    def __init__(self, source_datapipe: IterDataPipe[int]) -> None:
        self.source_datapipe = source_datapipe
        self.last: int | None = None

    def __iter__(self) -> Iterator[int]:
        for element in self.source_datapipe:
            before, self.last = self.last, element
            if before is not None:
                yield element - before

    def state_dict(self) -> dict[str, Any]:
        return {"last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last = state["last"]


def costly(number: int) -> int:
    calls.append(number)
    return number * number


def a_plain_class() -> None:
    """It is a stage like any other: it is drawn, seeded, sharded and
    loaded as the rest of the graph is.

    Type checkers know the library's own methods only, so that a slip is
    an error to them: where a name of one's own is called, the pipe is
    annotated as ``Any``, or else the class is called:
    ``Differences(squares)``.
    """
    squares: Any = IterableWrapper(range(8)).map(costly)
    graph = squares.differences().batch(3)
    print(f"{to_text(graph)}\n")
    loader = DataLoader2(graph)
    assert list(loader) == [[1, 3, 5], [7, 9, 11], [13]]

    # Where one stage reads it twice, it has two positions that know
    # nothing of each other.
    numbers = Differences(IterableWrapper([1, 4, 9]))
    assert list(numbers.zip(numbers)) == [(3, 3), (5, 5)]


def calls_after_resuming(graph: IterDataPipe[int]) -> list[int]:
    """Take three elements, save, resume in a new loader, and say what
    `costly` was called with from then on.
    """
    loader = DataLoader2(graph)
    elements = iter(loader)
    assert [next(elements) for _ in range(3)] == [1, 3, 5]
    state = loader.state_dict()
    resumed: DataLoader2[int] = DataLoader2.from_state(
        state, datapipe=graph
    )
    calls.clear()
    assert list(iter(resumed)) == [7, 9]
    return calls.copy()


def what_is_replayed() -> None:
    """All that is known of a plain class is how many elements it has
    given: it has to give as many once more.
    """
    called = calls_after_resuming(
        Differences(IterableWrapper(range(6)).map(costly))
    )
    print(
        "Resumed with a plain class:     costly() was called with "
        f"{called}"
    )
    assert called == [0, 1, 2, 3, 4, 5]


def a_class_that_says_where_it_is() -> None:
    """With ``state_dict`` and ``load_state_dict``, nothing is replayed;
    the stages above go on from where they were.
    """
    called = calls_after_resuming(
        ResumableDifferences(IterableWrapper(range(6)).map(costly))
    )
    print(
        "Resumed with a resumable class: costly() was called with "
        f"{called}\n"
    )
    assert called == [4, 5]


def inverse(number: int) -> float:
    return 1 / number


def an_error_in_a_function() -> None:
    """The error keeps its type and traceback, and a note tells the
    stage, the function and the element.
    """
    elements = iter(
        DataLoader2(IterableWrapper([2, 1, 0, 4]).map(inverse))
    )
    assert [next(elements), next(elements)] == [0.5, 1.0]
    said = ""
    try:
        next(elements)
    except ZeroDivisionError as error:
        said = "".join(traceback.format_exception_only(error))
    print(said)
    assert "on element 2 of IterableWrapper([2, 1, 0, 4])" in said
    # The element that failed is spent, and the loader is not: it goes
    # on with the one after.
    assert list(elements) == [0.25]


def mistakes_that_are_found_early() -> None:
    """Make mistakes: a wrong argument, an unknown name and a taken name
    are errors at their line.
    """
    numbers: Any = IterableWrapper(range(6))
    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: numbers.batch(0), "BadArgument"),
        (lambda: numbers.diferences(), "AttributeError"),
        (lambda: functional_datapipe("map")(Differences), "NameTaken"),
    ]
    for mistake, expected in mistakes:
        found = "nothing"
        try:
            mistake()
        except (Loader2Error, AttributeError) as error:
            found = type(error).__name__
            print(f"{found}: {error}")
        assert found == expected


if __name__ == "__main__":
    main()
