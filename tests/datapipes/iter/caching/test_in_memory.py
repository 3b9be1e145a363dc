"""in_memory_cache makes a stream once, keeps what it may keep, and never gives what the stream would not."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, GraphError, StateError
from datapipes.graph import apply_sharding, replace_dp, traverse_dps
from datapipes.iter import IterableWrapper
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from tests.datapipes.iter.mishaps import outcomes


def counting(calls: list[int]) -> Callable[[int], str]:
    def made(x: int) -> str:
        calls.append(x)
        return f"element {x}"

    return made


def test_the_first_whole_pass_makes_the_elements_of_all() -> None:
    calls: list[int] = []
    dp: Any = IterableWrapper(range(5)).map(counting(calls)).in_memory_cache()
    assert dp.cache is None
    partial = iter(dp)
    next(partial), next(partial)
    del partial
    assert calls == [0, 1], "what was left half-way is not remembered"
    first = list(dp)
    calls.clear()
    assert [all(a is b for a, b in zip(first, dp, strict=True)) for _ in range(3)] == [True] * 3
    assert [list(DataLoader2(dp)), list(dp.batch(5))] == [first, [first]]
    assert dp.cache == first
    assert calls == []


def test_a_loader_and_its_users_pipe_share_a_cache() -> None:
    calls: list[int] = []
    dp = IterableWrapper(range(4)).map(counting(calls)).in_memory_cache()
    loader = DataLoader2(dp.batch(2))
    epochs = [list(loader) for _ in range(3)]
    assert epochs[0] == epochs[1] == epochs[2]
    list(dp)
    assert calls == [0, 1, 2, 3]


def test_it_freezes_an_order_for_all_seeds() -> None:
    def build() -> Any:
        return IterableWrapper(range(20)).shuffle().in_memory_cache()

    dp = build()
    order = list(dp)
    assert sorted(order) == list(range(20)) != order
    assert list(dp) == order == list(build())
    loader = DataLoader2(build().batch(20))
    loader.seed(5)
    assert list(loader) == [order] == list(loader)
    (zipped,) = IterableWrapper([None]).zip(build().batch(20))
    assert zipped == (None, order), "it is the same wherever in a graph the cache is"


def test_another_setting_above_begins_anew() -> None:
    source = IterableWrapper(range(20))
    shuffled = source.shuffle()
    dp: Any = shuffled.in_memory_cache()
    order = list(dp)
    shuffled.set_seed(1)
    other = list(dp)
    assert order != other == list(dp)
    shuffled.set_shuffle(False)
    assert list(dp) == list(range(20))
    replace_dp(traverse_dps(dp), source, IterableWrapper("ab"))
    assert list(dp) == ["a", "b"] == list(dp)
    sharded = IterableWrapper(range(7)).sharding_filter().in_memory_cache()
    assert list(sharded) == list(range(7)) == list(sharded)
    assert list(apply_sharding(sharded, 3, 1)) == [1, 4]
    cache: Any = sharded
    assert cache.cache == [1, 4]
    apply_sharding(sharded, 3, 1)
    assert cache.cache == [1, 4], "the same shard once more"
    apply_sharding(sharded, 3, 2)
    assert cache.cache is None


def test_the_cache_is_pickled_with_the_pipe() -> None:
    dp: Any = IterableWrapper([[1], [2]]).map(list).in_memory_cache()
    list(dp)
    twin = pickle.loads(pickle.dumps(dp))
    assert twin.cache == [[1], [2]]
    assert next(iter(twin)) is next(iter(twin)) is not next(iter(dp))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 300), max_size=12), st.integers(1, 1500), st.integers(0, 12), st.booleans())
def test_what_has_to_make_room_is_made_again(lengths: list[int], size: int, after: int, filled: bool) -> None:
    made: list[int] = []

    def make(i: int) -> bytes:
        made.append(i)
        return bytes(lengths[i])

    dp: Any = IterableWrapper(range(len(lengths))).map(make).in_memory_cache(size / 1024**2)
    elements = list(dp)
    assert dp.size in (size, size - 1)  # as a float of megabytes tells it
    made.clear()
    assert list(dp) == elements == [bytes(length) for length in lengths]
    assert made == list(range(dp.idx if dp.cache is not None else len(lengths)))
    if dp.cache is not None:
        assert dp.cache == elements[dp.idx :]
        assert sum(33 + len(element) for element in dp.cache) <= size
    it: Any = iter(dp)
    assert [next(it) for _ in elements[:after]] == elements[:after]
    again: Any = iter(dp if filled else IterableWrapper(range(len(lengths))).map(make).in_memory_cache(1))
    again.load_state_dict(it.state_dict())
    assert list(again) == elements[after:]


def test_a_pass_with_an_error_is_not_remembered() -> None:
    broken = [2]

    def make(x: int) -> int:
        if x in broken:
            raise ValueError(f"{x} is bad")
        return x

    dp: Any = IterableWrapper(range(5)).map(make).in_memory_cache()
    assert outcomes(dp) == [0, 1, "ValueError: 2 is bad", 3, 4]
    assert dp.cache is None
    it: Any = iter(dp)
    assert [next(it), next(it)] == [0, 1]
    with pytest.raises(ValueError, match="2 is bad"):
        next(it)
    state = it.state_dict()
    broken.clear()
    assert list(dp) == [0, 1, 2, 3, 4] == dp.cache
    again: Any = iter(dp)
    again.load_state_dict(state)
    assert list(again) == [3, 4], "2 was lost in that pass"


def test_a_state_from_a_cache_makes_the_elements_again_where_there_is_none() -> None:
    calls: list[int] = []
    dp = IterableWrapper(range(5)).map(counting(calls)).in_memory_cache()
    list(dp)
    it: Any = iter(dp)
    next(it), next(it)
    new: Any = IterableWrapper(range(5)).map(counting(calls)).in_memory_cache()
    again: Any = iter(new)
    again.load_state_dict(it.state_dict())
    calls.clear()
    assert list(again) == ["element 2", "element 3", "element 4"]
    assert calls == [0, 1, 2, 3, 4]
    assert len(new.cache) == 5, "it was a whole pass"
    shorter: Any = iter(IterableWrapper(range(1)).map(counting(calls)).in_memory_cache())
    shorter.load_state_dict(it.state_dict(), strict=False)
    with pytest.raises(StateError, match="2 elements were given, but the source made only 1 again"):
        next(shorter)


def test_length() -> None:
    assert len(IterableWrapper("abc").in_memory_cache()) == 3
    dp: Any = IterableWrapper("abc").filter(str.isalpha).in_memory_cache()
    with pytest.raises(TypeError, match="doesn't have valid length until the cache is loaded"):
        len(dp)
    list(dp)
    assert len(dp) == 3


def test_open_files_are_refused() -> None:
    dp = IterableWrapper([StreamWrapper(io.BytesIO(b"x"))], deepcopy=False).in_memory_cache()
    with pytest.raises(TypeError, match="an open file can be read only once: read it above"):
        next(iter(dp))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(BadArgument, match=r"size is required to be larger than 0 .*, in \.in_memory_cache\(size=0\)"):
        IterableWrapper("a").in_memory_cache(size=0)
    a, b = IterableWrapper("ab").fork(2)
    with pytest.raises(GraphError, match=r"put in_memory_cache\(\) above the fork"):
        list(a.in_memory_cache().zip(b))


@pytest.mark.parametrize(
    "wrong", [{"given": -1}, {"taken": 9}, {"whole": 1}, {"above": 3}, {"above": {"a": 1}}, {"more": 1}]
)
def test_an_odd_state_is_refused(wrong: Any) -> None:
    dp = IterableWrapper(range(5)).in_memory_cache()
    it: Any = iter(dp)
    next(it)
    state = it.state_dict()
    (place,) = state["cells"]
    state["cells"][place] |= wrong
    with pytest.raises(StateError):
        iter(dp).load_state_dict(sealed(state))  # type: ignore[attr-defined]  # our iterator
