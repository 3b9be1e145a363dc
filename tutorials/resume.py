"""Resuming in the middle of an epoch.

One learns what a state holds and how large it is; that it may be taken
after any element, with a half-drained shuffle buffer, an open CSV file
or a fork whose branches are out of step; that functions are not called
again for what was delivered; and what becomes of the epochs after the
one that was interrupted.
"""

import pickle
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from loader2.state import StateError

State = dict[str, Any]


def main() -> None:
    a_shuffle_over_data_in_memory()
    a_buffer_that_is_being_emptied()
    with TemporaryDirectory() as folder:
        csv_files(Path(folder))
    a_fork_out_of_step()
    the_epochs_after()
    another_graph()


def stopped(
    graph: IterDataPipe[Any], after: int, seed: int = 0
) -> tuple[State, Iterator[Any]]:
    """The state after so many elements of an epoch, and what is left of
    that epoch without any interruption.
    """
    loader = DataLoader2(graph)
    loader.seed(seed)
    elements = iter(loader)
    for _ in islice(elements, after):
        pass
    return loader.state_dict(), elements


def resumed(graph: IterDataPipe[Any], state: State) -> list[Any]:
    """Return the elements of a new loader of the same graph that a
    state was loaded into.
    """
    return list(iter(DataLoader2.from_state(state, datapipe=graph)))


def size(state: State) -> str:
    return f"{len(pickle.dumps(state)):,} bytes"


def a_shuffle_over_data_in_memory() -> None:
    """Save elements that can be read again as positions: the state of a
    large buffer is small.
    """
    graph = (
        IterableWrapper(range(100_000))
        .shuffle(buffer_size=10_000)
        .batch(32)
    )
    state, rest = stopped(graph, after=1_000)
    print(
        "A full shuffle buffer of 10,000 elements above a range: "
        f"{size(state)}. The state:"
    )
    for field, value in state.items():
        print(f"  {field}: {value}")
    assert resumed(graph, state) == list(rest)
    assert len(pickle.dumps(state)) < 1_000


def a_buffer_that_is_being_emptied() -> None:
    """At every step: before the first element, while the buffer fills
    and drains, and after the last element.
    """
    graph = (
        IterableWrapper("abcdefghij")
        .map(str.upper)
        .shuffle(buffer_size=6)
    )
    for after in range(11):
        state, rest = stopped(graph, after, seed=1)
        left = list(rest)
        # After the last element there is nothing left of the epoch
        # until its end is seen: then the next one follows.
        assert resumed(graph, state) == left, after
    state, rest = stopped(graph, after=7, seed=1)
    print(
        "\nAfter 7 of 10 elements the source is spent and the buffer "
        f"is half empty; it still gives {list(rest)}."
    )


def csv_files(folder: Path) -> None:
    """An open file is resumed at its row. What only a file can give
    again is saved with the buffer.
    """
    for name in ("a", "b"):
        (folder / f"{name}.csv").write_text(
            "".join(f"{name}{i},{i}\n" for i in range(2_000))
        )
    parsed = 0

    def numbered(row: list[str]) -> tuple[str, int]:
        nonlocal parsed
        parsed += 1
        return row[0], int(row[1])

    rows = (
        IterableWrapper([str(folder / "a.csv"), str(folder / "b.csv")])
        .open_files()
        .parse_csv()
        .map(numbered)
    )

    state, rest = stopped(rows, after=3_000)
    left, parsed = list(rest), 0
    assert resumed(rows, state) == left
    print(
        f"\nIn the second of two CSV files: {size(state)}; "
        f"{len(left):,} rows were left, {parsed:,} rows were parsed."
    )
    assert parsed == len(left) == 1_000

    shuffled = rows.shuffle(buffer_size=1_000)
    state, rest = stopped(shuffled, after=2_000)
    assert resumed(shuffled, state) == list(rest)
    print(
        "The same with 1,000 parsed rows in a shuffle buffer: "
        f"{size(state)}."
    )

    state, rest = stopped(rows.batch(64).collate(), after=10)
    for (_, ours), (_, theirs) in zip(
        resumed(rows.batch(64).collate(), state), rest, strict=True
    ):
        assert torch.equal(ours, theirs)


def a_fork_out_of_step() -> None:
    """One branch is three elements behind the other; what it has not
    read yet is in the state.
    """
    ahead, behind = IterableWrapper(range(10)).map(float).fork(2)
    graph = ahead.batch(4).zip(behind)
    state, rest = stopped(graph, after=1)
    left = list(rest)
    assert resumed(graph, state) == left
    print(
        "\nTwo branches of a fork, read at different speeds: "
        f"{size(state)}; left were {left}."
    )


def the_epochs_after() -> None:
    """A seed starts a sequence of epochs. A state knows the seed and
    the number of its epoch.
    """
    graph = IterableWrapper(range(6)).shuffle()

    loader = DataLoader2(graph)
    loader.seed(123)
    epochs = [list(loader) for _ in range(3)]
    print(f"\nThree epochs after seed 123: {epochs}.")

    loader = DataLoader2(graph)
    loader.seed(123)
    list(loader)
    second = iter(loader)
    seen = [next(second), next(second)]
    state = loader.state_dict()

    later = DataLoader2(graph)
    later.load_state_dict(state)
    assert seen + list(later) == epochs[1]
    assert list(later) == epochs[2]
    print(
        "Resumed in the middle of the second, the rest of it and the "
        "third are the same."
    )


def another_graph() -> None:
    """A state only fits the graph that it was saved from; an error says
    what differs.
    """
    state, _ = stopped(
        IterableWrapper(range(6)).shuffle().batch(2), after=1
    )
    said = "nothing"
    try:
        DataLoader2(IterableWrapper(range(6)).batch(2)).load_state_dict(
            state
        )
    except StateError as error:
        said = str(error)
    print(f"\nLoaded into another graph: {said}")
    assert "-1 .shuffle()" in said


if __name__ == "__main__":
    main()
