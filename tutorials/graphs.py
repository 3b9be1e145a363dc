"""Graphs: look at them, change them, and decide where they run.

This tutorial draws a graph, finds and replaces stages, and rewrites it
without changing it. Then it writes an adapter and a small reading
service.
"""

from typing import Any

from datapipes.graph import (
    find_dps,
    parents,
    remove_dp,
    replace_dp,
    rewrite,
    to_mermaid,
    to_text,
    traverse_dps,
    walk,
)
from datapipes.iter import (
    Batcher,
    IterableWrapper,
    IterDataPipe,
    Mapper,
    Shuffler,
)
from loader2 import DataLoader2
from loader2.adapters import Shuffle
from reading_services import ReadingServiceInterface


def main() -> None:
    drawing()
    finding_and_replacing()
    rewriting()
    adapters()
    a_reading_service()


def double(number: int) -> int:
    return 2 * number


def sample() -> IterDataPipe[Any]:
    return IterableWrapper(range(8)).shuffle().map(double).batch(2)


def drawing() -> None:
    """A graph prints as the call that makes it, as a tree, or as a
    Mermaid flowchart.
    """
    even, odd = IterableWrapper(range(8)).demux(
        2, lambda number: number % 2
    )
    graph = even.map(double).zip(odd)
    print(f"{sample()!r}\n\n{to_text(graph)}\n\n{to_mermaid(graph)}\n")
    assert list(graph) == [(0, 1), (4, 3), (8, 5), (12, 7)]
    # Both branches read one stage, which is drawn once.
    assert "(see above)" in to_text(graph)

    source, *_, end = walk(graph)  # every stage once, sources first
    assert isinstance(source, IterableWrapper)
    assert end is graph
    assert len(parents(end)) == 2


def finding_and_replacing() -> None:
    """torchdata's functions change the graph that they are given."""
    end = sample()
    graph = traverse_dps(end)
    [shuffle] = find_dps(graph, Shuffler)
    graph = remove_dp(graph, shuffle)
    [doubling] = find_dps(graph, Mapper)
    graph = replace_dp(graph, doubling, doubling.datapipe.map(str))
    print(f"Without its shuffle, and with str for double: {end!r}")
    assert list(end) == [["0", "1"], ["2", "3"], ["4", "5"], ["6", "7"]]


def rewriting() -> None:
    """``rewrite`` gives a new graph and leaves the old one alone. A
    rule is given each stage, its parents rewritten.
    """
    old = sample()

    def larger_batches(stage: Any) -> Any:
        return (
            stage.datapipe.batch(2 * stage.batch_size)
            if isinstance(stage, Batcher)
            else stage
        )

    new = rewrite(old, larger_batches)
    print(f"Rewritten: {new!r}")
    assert [len(batch) for batch in new] == [4, 4]
    assert [len(batch) for batch in old] == [2, 2, 2, 2]
    # What no rule changed is shared.
    assert parents(new) == parents(old)


def adapters() -> None:
    """An adapter changes the loader's own copy of a graph: one of the
    library's, or any function.
    """
    graph = sample()

    def first_two(datapipe: Any) -> Any:
        return datapipe.header(2)

    loader = DataLoader2(graph, [Shuffle(False), first_two])
    assert list(loader) == [[0, 2], [4, 6]]
    assert len(list(graph)) == 4
    print(f"Adapted: {loader!r}\n")


class Traced(ReadingServiceInterface):
    """Numbers the elements at the end of the graph, and tells what it
    is asked to do.

    A service is given the graph once and returns the one that the
    loader iterates. It may be copied, so what cannot be (a connection,
    a process) is opened in ``initialize`` and let go of in
    ``finalize``.
    """

    def initialize(self, datapipe: Any) -> Any:
        print("initialize")
        return datapipe.enumerate()

    def initialize_iteration(
        self, seed_generator: Any, iter_reset_fn: Any = None
    ) -> None:
        print("  initialize_iteration")

    def finalize_iteration(self) -> None:
        print("  finalize_iteration")

    def finalize(self) -> None:
        print("finalize")


def a_reading_service() -> None:
    """It needs ``initialize`` and nothing else. Positions are kept by
    the stages, so resuming needs no help from it.
    """
    graph: IterDataPipe[Any] = IterableWrapper("abc").map(str.upper)
    with DataLoader2(graph, reading_service=Traced()) as loader:
        assert list(loader) == [(0, "A"), (1, "B"), (2, "C")]
        elements = iter(loader)
        assert next(elements) == (0, "A")
        state = loader.state_dict()
    resumed: DataLoader2[Any] = DataLoader2.from_state(
        state, Traced(), datapipe=graph
    )
    with resumed:
        assert list(iter(resumed)) == [(1, "B"), (2, "C")]


if __name__ == "__main__":
    main()
