"""Batch sizes: number of rows of a step, which of them goes where, and which part of the data is a process's.

The tables are those of the seed and of the batching guide; a naive enumeration is the judge of everything else.
"""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reading_services.ipu import CommGroupType, Options
from reading_services.ipu.host.arithmetic import Batching

counts = st.integers(1, 4)


@st.composite
def batchings(draw: st.DrawFn) -> Batching:
    group_size = draw(counts)
    processes = draw(counts)
    return Batching(
        micro_batch=draw(counts),
        accumulation=draw(counts),
        replicas=group_size * draw(counts),
        group_size=group_size,
        group_type=draw(st.sampled_from([CommGroupType.Consecutive, CommGroupType.Orthogonal])),
        iterations=draw(counts),
        processes=processes,
        process=draw(st.integers(0, processes - 1)),
    )


@pytest.mark.parametrize(
    ("processes", "replicas", "drop_last", "combined", "steps"),
    [
        (1, 1, True, 32, [1562]),
        (4, 1, True, 32, [390] * 4),
        (4, 2, True, 64, [195] * 4),
        (4, 1, False, 32, [391] * 4),
        (4, 2, False, 64, [196] * 4),
    ],
)
def test_the_seeds_50_000_samples(
    processes: int, replicas: int, drop_last: bool, combined: int, steps: list[int]
) -> None:
    of_each = []
    for process in range(processes):
        options = Options().replicationFactor(replicas)
        options.Distributed.configureProcessId(process, processes)
        of_each.append(Batching.of(options, 32))
    assert [batching.combined for batching in of_each] == [combined] * processes
    assert [batching.steps(50_000, drop_last) for batching in of_each] == steps
    if processes > 1:
        expected = 12_480 if drop_last else 12_500
        assert [len(batching.part(50_000, drop_last)) for batching in of_each] == [expected] * processes
        assert expected - (steps[0] - 1) * combined == (combined if drop_last else 20)  # rows of the last step


@pytest.mark.parametrize(
    ("elements", "mb", "D", "A", "R", "G", "P", "combined", "steps"),
    [
        (10_000, 16, 50, 1, 1, 1, 1, 800, 12),
        (10_000, 16, 50, 1, 2, 1, 1, 1_600, 6),
        (10_000, 16, 50, 1, 4, 1, 1, 3_200, 3),
        (10_000, 2, 100, 1, 1, 1, 1, 200, 50),
        (100_000, 2, 100, 1, 4, 1, 1, 800, 125),
        (100_000, 2, 400, 8, 1, 1, 1, 6_400, 15),
        (2_000, 5, 5, 10, 1, 1, 1, 250, 8),
        (500, 1, 2, 1, 3, 1, 1, 6, 83),
        (100, 4, 1, 1, 1, 1, 3, 4, 8),
        (64, 1, 1, 1, 8, 4, 1, 2, 32),
        (64, 2, 2, 2, 4, 2, 1, 16, 4),
    ],
)
def test_the_batching_guides_examples(
    elements: int, mb: int, D: int, A: int, R: int, G: int, P: int, combined: int, steps: int
) -> None:
    options = Options().deviceIterations(D).replicationFactor(R).inputReplicaGrouping(G, CommGroupType.Consecutive)
    options.Training.gradientAccumulation(A)
    options.Distributed.configureProcessId(0, P)
    batching = Batching.of(options, mb)
    assert (batching.combined, batching.steps(elements, drop_last=True)) == (combined, steps)
    if G == 1:
        assert batching.global_batch == mb * A * R
        assert batching.combined == batching.global_batch * D


def test_blocks_of_the_contracts_table() -> None:
    batching = Batching(micro_batch=1, iterations=2, accumulation=2, replicas=2)
    assert [[batching.block(d, a, r) for a in range(2) for r in range(2)] for d in range(2)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]


def test_groups_of_the_contracts_example() -> None:
    consecutive = Batching(micro_batch=1, replicas=4, group_size=2)
    orthogonal = Batching(micro_batch=1, replicas=4, group_size=2, group_type=CommGroupType.Orthogonal)
    assert [consecutive.group_of(r) for r in range(4)] == [0, 0, 1, 1]
    assert [orthogonal.group_of(r) for r in range(4)] == [0, 1, 0, 1]


@given(batchings())
@settings(deadline=None)
def test_blocks_count_up_with_the_groups_fastest(batching: Batching) -> None:
    order = itertools.product(range(batching.iterations), range(batching.accumulation), range(batching.groups))
    assert [batching.block(d, a, g) for d, a, g in order] == list(range(batching.micro_batches))
    assert batching.combined == batching.micro_batch * batching.micro_batches  # type: ignore[operator]  # never None here


@given(batchings())
@settings(deadline=None)
def test_groups_are_equally_large(batching: Batching) -> None:
    groups = [batching.group_of(r) for r in range(batching.replicas)]
    assert sorted(groups) == sorted(list(range(batching.groups)) * batching.group_size)
    rows_of_groups = batching.replica_batch * batching.groups  # type: ignore[operator]  # as above
    assert batching.global_batch == rows_of_groups * batching.group_size


@given(batchings(), st.integers(0, 2_000))
@settings(deadline=None)
def test_parts_and_steps_are_those_of_a_naive_deal(batching: Batching, elements: int) -> None:
    def part(process: int, drop_last: bool) -> range:
        here = Batching(**{**batching.__dict__, "process": process})
        return here.part(elements, drop_last)

    combined, processes = batching.combined, batching.processes
    assert combined is not None
    everyone = range(processes)
    # What is left over is given to the first ones, one each, and nothing is lost.
    kept = [index for process in everyone for index in part(process, drop_last=False)]
    assert kept == list(range(elements))
    sizes = [len(part(process, drop_last=False)) for process in everyone]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1
    assert batching.steps(elements, drop_last=False) == len(
        range(0, len(part(batching.process, drop_last=False)), combined)
    )
    # Dropped, every process has as many whole steps as the poorest could have, one block after the other.
    steps = 0
    while (steps + 1) * combined * processes <= elements:
        steps += 1
    assert batching.steps(elements, drop_last=True) == steps
    if processes > 1:
        dealt = [index for process in everyone for index in part(process, drop_last=True)]
        assert dealt == list(range(steps * combined * processes))


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"micro_batch": 0}, "1 or more"),
        ({"micro_batch": 1, "replicas": 2, "group_size": 4}, "call replicationFactor before inputReplicaGrouping"),
        ({"micro_batch": 1, "processes": 2, "process": 2}, r"the order is configureProcessId\(process_id"),
    ],
)
def test_numbers_that_make_no_batches_are_refused(numbers: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Batching(**numbers)  # type: ignore[arg-type]  # only numbers are tried


def test_without_a_batch_size_there_is_nothing_to_reckon() -> None:
    batching = Batching.of(Options().deviceIterations(3), None)
    assert (batching.combined, batching.replica_batch, batching.global_batch) == (None, None, None)
    assert batching.micro_batches == 3
    assert batching.part(7, drop_last=True) == range(7)
    with pytest.raises(ValueError, match="dataset's own batches"):
        batching.steps(7, drop_last=True)
    with pytest.raises(ValueError, match="batch size"):
        Batching(micro_batch=None, processes=2).part(7, drop_last=True)
