"""shuffle of a collection is a stream of the elements of its keys, each once, in a random order."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import pytest
import torch

from datapipes.errors import BadArgumentType
from datapipes.iter import IterDataPipe
from datapipes.map import MapDataPipe, SequenceWrapper, Shuffler
from datapipes.position.plain_data import sealed
from tests.datapipes.iter.mishaps import failing_at, outcomes


class Unsized(MapDataPipe[int]):
    def __getitem__(self, key: int) -> int:
        return 10 * key


def test_every_element_comes_once() -> None:
    dp = SequenceWrapper([*range(50), None]).shuffle()
    assert isinstance(dp, Shuffler)
    assert isinstance(dp, IterDataPipe)
    assert Counter(dp) == Counter([*range(50), None])
    assert len(dp) == 51
    assert list(SequenceWrapper([]).shuffle()) == []


@pytest.mark.parametrize("indices", [[0, 2, 2], {0: "", 2: ""}.keys()])
def test_given_keys(indices: Any) -> None:
    dp = SequenceWrapper("abc").shuffle(indices=indices)
    assert sorted(dp) == ["a", "c", "c"][: len(indices)]
    assert len(dp) == len(indices)
    assert sorted(SequenceWrapper({"x": 1, "y": 2}).shuffle(indices=["x", "y"])) == [1, 2]
    assert list(SequenceWrapper("abc").shuffle(indices=[])) == []


def test_a_pipe_without_a_length_needs_keys() -> None:
    with pytest.raises(
        BadArgumentType, match=r"shuffle\(\) needs to know the keys of Unsized\(\), which has no length"
    ):
        Unsized().shuffle()
    assert sorted(Unsized().shuffle(indices=[1, 5])) == [10, 50]


def test_all_orders_are_equally_likely() -> None:
    dp = SequenceWrapper("abc").shuffle()
    seen = Counter(tuple(dp.set_seed(seed)) for seed in range(1200))
    assert set(seen) == set(permutations("abc"))
    assert min(seen.values()) > 150  # 200 each is what to expect; 150 is four standard deviations off


def test_without_a_seed_torch_decides() -> None:
    dp = SequenceWrapper(range(50)).shuffle()
    torch.manual_seed(1)
    first, second = list(dp), list(dp)
    assert first != second
    torch.manual_seed(1)
    assert [list(dp), list(dp)] == [first, second]


def test_switched_off_it_keeps_the_order_of_the_keys() -> None:
    dp = SequenceWrapper("abc").shuffle(indices=[2, 0, 1])
    assert list(dp.set_shuffle(False)) == ["c", "a", "b"]
    assert sorted(dp.set_shuffle()) == ["a", "b", "c"]


def test_an_error_costs_one_key() -> None:
    dp = SequenceWrapper(range(6)).map(failing_at(3)).shuffle()
    found = outcomes(dp)
    assert sorted(map(str, found)) == ["0", "1", "2", "4", "5", "ValueError: 3 is bad"]
    missing = outcomes(SequenceWrapper({"x": 1}).shuffle())
    assert missing == ["KeyError: 0"]


def test_rows_that_nobody_could_lay_out() -> None:
    dp = SequenceWrapper(range(10**12)).shuffle().set_seed(7)
    it: Any = iter(dp)
    first = [next(it) for _ in range(20)]
    assert len(set(first)) == 20
    state = it.state_dict()
    state["cells"] = {place: cell and cell + 10**11 for place, cell in state["cells"].items()}
    far: Any = iter(dp)
    far.load_state_dict(sealed(state))
    assert not {next(far) for _ in range(20)} & set(first)
    near: Any = iter(dp)
    near.load_state_dict(it.state_dict())
    assert next(near) == next(it)


def test_the_shards_of_a_long_order_are_every_third_of_it() -> None:
    whole = list(SequenceWrapper(range(40_000)).shuffle().set_seed(7))
    assert sorted(whole) == list(range(40_000))
    for shard in range(3):
        dp: Any = SequenceWrapper(range(40_000)).shuffle().set_seed(7).map(float).sharding_filter()
        dp.apply_sharding(3, shard)
        it = iter(dp)
        taken = [next(it) for _ in range(9000)]
        again: Any = iter(dp)
        again.load_state_dict(it.state_dict())
        assert [*taken, *again] == whole[shard::3]
