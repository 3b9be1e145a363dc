"""Seeds are reproduced exactly: the numbers in here are part of the contract, and shuffled orders hang on them."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loader2.random
from loader2.random import PhiloxEngine, SeedGenerator, checked_seed, dist_share_seed, philox_block

uint64 = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (2**64 - 1, 2**128 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (0x299F31D0_A4093822, 0x03707344_13198A2E_85A308D3_243F6A88, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_block_gives_the_known_answers_of_philox(key: int, counter: int, words: str) -> None:
    first, second, third, fourth = (int(word, 16) for word in words.split())
    assert philox_block(key, counter) == (first | second << 32, third | fourth << 32)


@pytest.mark.parametrize(
    ("seed", "drawn"),
    [
        (0, [6679402142117448868]),
        (123, [9025247384375923790, 16000952678483384606, 4620172586781465253]),
        (-1, [5433557989824845073]),
        (2**64 - 1, [5433557989824845073]),
    ],
)
def test_engine_is_golden(seed: int, drawn: list[int]) -> None:
    engine = PhiloxEngine(seed)
    assert [engine.generate() for _ in drawn] == drawn


def test_engine_without_seed_says_so() -> None:
    with pytest.raises(AssertionError, match="Please provide seed"):
        PhiloxEngine().generate()
    with pytest.raises(AssertionError, match="Please provide seed"):
        PhiloxEngine().spawn(0)


def test_engine_seed_returns_the_engine_at_its_start() -> None:
    engine = PhiloxEngine(0)
    engine.generate()
    assert engine.seed(123) is engine
    assert engine.generate() == PhiloxEngine(123).generate()


def test_engine_spawn_refuses_negatives() -> None:
    with pytest.raises(AssertionError, match="non-negative"):
        PhiloxEngine(1).spawn(-1)


def test_engine_spawns_from_even_blocks_under_the_spawn_key() -> None:
    engine = PhiloxEngine(99)
    spawn_key = philox_block(99, 0)[0]
    seeds = [*philox_block(spawn_key, 0), *philox_block(spawn_key, 2), *philox_block(spawn_key, 4)]
    assert [engine.spawn(i).generate() for i in range(6)] == [PhiloxEngine(seed).generate() for seed in seeds]


@pytest.mark.parametrize("drawn", [0, 1, 2, 3])
def test_engine_copies_stand_where_the_original_stands(drawn: int) -> None:
    engine = PhiloxEngine(5)
    for _ in range(drawn):
        engine.generate()
    copies = [engine.clone(), copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))]
    following = [engine.generate() for _ in range(3)]
    assert [[twin.generate() for _ in range(3)] for twin in copies] == [following] * 3


def test_spawned_generators_are_golden() -> None:
    parent = SeedGenerator(123)
    assert [parent.spawn(i).generate_seed() for i in (0, 1)] == [4163719935875787874, 13444131963280986346]


@given(seed=uint64)
def test_both_streams_start_from_one_seed(seed: int) -> None:
    generator = SeedGenerator(seed)
    first = PhiloxEngine(seed).generate()
    assert generator.generate_seed() == first
    assert generator.generate_shared_seed() == first
    assert 0 <= first < 2**64


@given(seed=uint64, worker_id=st.integers(0, 5000), drawn=st.integers(0, 5))
def test_spawn_shares_the_shared_stream_and_ignores_what_was_drawn(seed: int, worker_id: int, drawn: int) -> None:
    generator = SeedGenerator(seed)
    for _ in range(drawn):
        generator.generate_seed()
        generator.generate_shared_seed()
    spawned = generator.spawn(worker_id)
    assert spawned.generate_seed() == SeedGenerator(seed).spawn(worker_id).generate_seed()
    # Drawing from the one must not move the other.
    shared = [spawned.generate_shared_seed() for _ in range(3)]
    assert [generator.generate_shared_seed() for _ in range(3)] == shared


def test_spawn_inplace_replaces_the_worker_stream_only() -> None:
    generator = SeedGenerator(123)
    generator.generate_shared_seed()
    expected = generator.spawn(1)
    assert generator.spawn(1, inplace=True) is generator
    assert generator.generate_seed() == expected.generate_seed()
    assert generator.generate_shared_seed() == expected.generate_shared_seed()


def test_spawned_generators_spawn_again() -> None:
    seeds = {SeedGenerator(3).spawn(rank).spawn(worker).generate_seed() for rank in range(4) for worker in range(4)}
    assert len(seeds) == 16


def test_spawn_refuses_negatives() -> None:
    with pytest.raises(ValueError, match=r"non-negative worker_id.*Count from 0"):
        SeedGenerator(1).spawn(-1)


@pytest.mark.parametrize("seed", [2**64, -1])
def test_seeds_outside_of_uint64_are_refused(seed: int) -> None:
    with pytest.raises(ValueError, match="Expected an uint64 seed"):
        SeedGenerator(seed)
    generator = SeedGenerator(0)
    with pytest.raises(ValueError, match="Expected an uint64 seed"):
        generator.seed(seed)
    assert generator.generate_seed() == SeedGenerator(0).generate_seed()


def test_seeds_that_are_no_integers_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Expected an uint64 seed, but got float: 1\.5"):
        checked_seed(1.5)  # type: ignore[arg-type]  # the mistake under test
    assert type(checked_seed(numpy.uint64(2**64 - 1))) is int  # type: ignore[arg-type]  # an index, but not typed as int


def test_seed_and_streams_together_are_refused() -> None:
    with pytest.raises(ValueError, match="Pass one of both"):
        SeedGenerator(1, _rngs=(PhiloxEngine(1), PhiloxEngine(1)))


def test_streams_can_be_handed_over() -> None:
    generator = SeedGenerator(_rngs=(PhiloxEngine(1), PhiloxEngine(2)))
    assert generator.generate_shared_seed() == PhiloxEngine(1).generate()
    assert generator.generate_seed() == PhiloxEngine(2).generate()


def test_automatic_seeds_advance_torch_and_follow_its_seed() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, second = SeedGenerator(), SeedGenerator()
        second_seed = second.generate_seed()
        torch.manual_seed(0)
        again = SeedGenerator()
        assert first.generate_seed() == again.generate_seed()
        again.seed()
        assert again.generate_seed() == second_seed
        assert first.generate_seed() != second_seed


def test_automatic_seeds_do_not_depend_on_the_default_device() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        expected = SeedGenerator().generate_seed()
        torch.manual_seed(0)
        with torch.device("meta"):
            assert SeedGenerator().generate_seed() == expected


def test_generator_pickles_both_streams_where_they_stand() -> None:
    generator = SeedGenerator(9).spawn(4)
    generator.generate_seed()
    for _ in range(2):
        generator.generate_shared_seed()
    restored = pickle.loads(pickle.dumps(generator))
    for draw in (SeedGenerator.generate_seed, SeedGenerator.generate_shared_seed):
        assert [draw(restored) for _ in range(3)] == [draw(generator) for _ in range(3)]


def test_generator_prints_its_position() -> None:
    generator = SeedGenerator(9)
    generator.generate_seed()
    assert repr(generator) == "SeedGenerator(_rngs=(PhiloxEngine(seed=9, drawn=0), PhiloxEngine(seed=9, drawn=1)))"


def test_sharing_alone_returns_the_own_seed_once_checked() -> None:
    assert dist_share_seed(7) == 7
    with pytest.raises(ValueError, match="Expected an uint64 seed"):
        dist_share_seed(-1)


ONE_RANK = """
import atexit
import sys
import torch.distributed as dist
from loader2.random import dist_share_seed

rank, meeting = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=3)
atexit.register(dist.destroy_process_group)
last, alone = dist.new_group([1, 2]), dist.new_group([2])
print(dist_share_seed(2**64 - 1 - rank))
print(dist_share_seed(2**63 - rank))
for group in (last, alone):
    try:
        print(dist_share_seed(50 + rank, group))
    except RuntimeError as error:
        print(error)
dist.barrier()
"""


def test_all_ranks_of_a_group_get_the_seed_of_its_rank_0(tmp_path: Path) -> None:
    paths = [str(Path(loader2.random.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", ONE_RANK, str(rank), str(tmp_path / "meeting")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    try:
        outputs = [process.communicate(timeout=500) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(ranks, outputs, strict=True):
        assert process.returncode == 0, errors
    refused = "dist_share_seed: rank {} is not in the process group, so no seed would arrive."
    expected = [[refused.format(0), refused.format(0)], ["51", refused.format(1)], ["51", "52"]]
    for (output, _), of_groups in zip(outputs, expected, strict=True):
        *of_all, of_last, of_alone = output.splitlines()
        assert of_all == [str(2**64 - 1), str(2**63)]
        assert of_last.startswith(of_groups[0])
        assert of_alone.startswith(of_groups[1])
