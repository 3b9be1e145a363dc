"""What one sees when a function raises in a worker, when a worker dies,
and when one hangs.

One learns that an error comes in its turn and names the stage, the
element and the worker; that the loader goes on after it; that a worker
which died is replaced without losing an element; and how to find out
where one stands.
"""

import os
import threading
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datapipes.errors import BadArgumentType
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import (
    MultiProcessingReadingService,
    WorkerDied,
    WorkerTimeout,
)


def main() -> None:
    an_error_in_a_worker()
    a_worker_that_dies()
    a_worker_that_hangs()
    what_cannot_be_sent()


def in_workers(
    graph: IterDataPipe[Any], **arguments: Any
) -> DataLoader2[Any]:
    """A loader that runs a graph in two processes; leaving its ``with``
    block ends them.
    """
    return DataLoader2(
        graph,
        reading_service=MultiProcessingReadingService(
            num_workers=2, **arguments
        ),
    )


def inverse(number: int) -> float:
    return 1 / (number - 5)


def an_error_in_a_worker() -> None:
    """It comes in its turn, with its type, and the next element is the
    one after it.
    """
    with in_workers(
        IterableWrapper(range(10)).sharding_filter().map(inverse)
    ) as loader:
        elements = iter(loader)
        given: list[float] = []
        said: list[str] = []
        over_there = ""
        try:
            given.extend(elements)
        except ZeroDivisionError as error:
            said = "".join(
                traceback.format_exception_only(error)
            ).splitlines()
            # A traceback shows it, too.
            over_there = str(error.__cause__)
        assert "in inverse" in over_there, (
            "the traceback that the error had in its worker"
        )
        assert len(given) == 5
        assert len(list(elements)) == 4
    print("An error in a worker:", *said, sep="\n  ")
    assert "element 5 of IterableWrapper(range(0, 10))" in "".join(said)
    assert "in worker 1" in said[-1]


class Fatal:
    """Takes its process down once, as a crash in a library in C "
    "would."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, number: int) -> int:
        if number == 100 and not self.mark.exists():
            self.mark.touch()
            os._exit(9)
        return number


def a_worker_that_dies() -> None:
    """It is an error that says how it died. Going on starts another one
    in its place, and nothing is lost.
    """
    with TemporaryDirectory() as folder:
        graph = (
            IterableWrapper(range(200))
            .sharding_filter()
            .map(Fatal(Path(folder) / "died"))
        )
        with in_workers(graph) as loader:
            elements = iter(loader)
            given: list[int] = []
            try:
                given.extend(elements)
            except WorkerDied as error:
                print(f"\nA worker that died: {error}")
            assert (Path(folder) / "died").exists()
            assert len(given) <= 100
            assert given + list(elements) == list(range(200)), (
                "the same epoch, on from where it was"
            )
            assert list(loader) == list(range(200)), "and the next one"


def stuck(number: int) -> int:
    if number == 3:
        threading.Event().wait(60)  # stuck
    return number


def a_worker_that_hangs() -> None:
    """With a ``timeout``, one that has sent nothing for so many seconds
    is an error that shows its stack.
    """
    said = ""
    with in_workers(
        IterableWrapper(range(10)).sharding_filter().map(stuck),
        timeout=1,
    ) as loader:
        try:
            list(loader)
        except WorkerTimeout as error:
            said = str(error)
    first, *stack = said.splitlines()
    print(f"\nA worker that hangs: {first}\n  ...")
    print(next(line for line in stack if "stuck" in line))


def what_cannot_be_sent() -> None:
    """With spawn and forkserver, functions are sent with what they
    refer to. What cannot be is named beforehand.
    """
    lock = threading.Lock()

    def locked(number: int) -> int:
        with lock:
            return number

    said = ""
    try:
        in_workers(
            IterableWrapper(range(4)).sharding_filter().map(locked),
            multiprocessing_context="spawn",
        )
    except BadArgumentType as error:
        said = str(error)
    print(f"\nWhat cannot be sent: {said}")
    assert "because of its fn, locked" in said


if __name__ == "__main__":
    main()
