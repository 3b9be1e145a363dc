"""A graph is pickled and copied stage by stage, however deep it is; what its stages share is shared afterwards."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import cloudpickle
import pytest
import torch.utils.data.datapipes.iter as torch_pipes

from datapipes.errors import GraphError
from datapipes.graph import parents, walk
from datapipes.iter import IterableWrapper, IterDataPipe, Mapper
from datapipes.map import MapDataPipe, SequenceWrapper

DEPTH = 700  # more than twice what Python's own way of pickling stands

Copy = Callable[[Any], Any]


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def through_forking_pickler(value: Any) -> Any:
    return pickle.loads(ForkingPickler.dumps(value))


def through_cloudpickle(value: Any) -> Any:
    return pickle.loads(cloudpickle.dumps(value))


def by_old_protocol(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value, protocol=0))


every_way = pytest.mark.parametrize(
    "twin_of", [through_pickle, by_old_protocol, through_forking_pickler, through_cloudpickle, copy.deepcopy]
)


def deep(pipe: Any, depth: int = DEPTH) -> Any:
    for _ in range(depth):
        pipe = pipe.map(abs)
    return pipe


class WithoutCache(IterDataPipe[Any]):
    """Leaves out of its pickled state what cannot be pickled, and tells the hook, as torchdata's pipes did."""

    def __init__(self, source_datapipe: IterDataPipe[Any], helper: Any = None) -> None:
        self.source_datapipe = source_datapipe
        self.helper = helper

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source_datapipe)

    def __getstate__(self) -> Any:
        state = (self.source_datapipe,)
        if IterDataPipe.getstate_hook is not None:
            return IterDataPipe.getstate_hook(state)
        return state

    def __setstate__(self, state: tuple[IterDataPipe[Any]]) -> None:
        (self.source_datapipe,) = state
        self.helper = "made anew"


class WithoutHelper(WithoutCache):
    """Does the same with a dict."""

    def __getstate__(self) -> Any:
        state = {**self.__dict__, "helper": None}
        if IterDataPipe.getstate_hook is not None:
            return IterDataPipe.getstate_hook(state)
        return state

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state, helper="made anew")


class Slotted(IterDataPipe[Any]):
    __slots__ = ("source_datapipe",)

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source_datapipe)


class Unpicklable(IterDataPipe[Any]):
    def __reduce__(self) -> Any:
        raise TypeError("nobody may pickle this")


@every_way
@pytest.mark.parametrize("depth", [1, 3, 150])
def test_a_twin_prints_and_iterates_alike(twin_of: Copy, depth: int) -> None:
    pipe = deep(IterableWrapper(range(4)).batch(2).map(len), depth)
    twin = twin_of(pipe)
    assert repr(twin) == repr(pipe)
    assert list(twin) == list(pipe) == [2, 2]
    assert not {id(stage) for stage in walk(twin)} & {id(stage) for stage in walk(pipe)}


@pytest.mark.parametrize("twin_of", [through_pickle, copy.deepcopy])
def test_a_chain_of_ten_thousand_stages(twin_of: Copy) -> None:
    twin = twin_of(deep(IterableWrapper([1, 2]), 10_000))
    assert len(walk(twin)) == 10_001
    assert list(twin) == [1, 2]


@every_way
def test_a_deep_map_style_graph(twin_of: Copy) -> None:
    twin = twin_of(deep(SequenceWrapper([1, 2])))
    assert len(walk(twin)) == DEPTH + 1
    assert isinstance(twin, MapDataPipe)


def test_the_size_grows_with_the_number_of_stages() -> None:
    small, large = (len(pickle.dumps(deep(IterableWrapper([1]), depth))) for depth in (1000, 4000))
    assert 3 < large / small < 5


@every_way
@pytest.mark.parametrize("depth", [0, DEPTH])
def test_what_two_pipes_share_is_shared_afterwards(twin_of: Copy, depth: int) -> None:
    left, right = deep(IterableWrapper([1, 2]), depth).fork(2)
    one, two = twin_of([left, right.map(str)])
    assert parents(one)[0] is parents(parents(two)[0])[0]
    assert list(one.zip(two)) == [(1, "1"), (2, "2")]
    assert len(walk(one, two)) == depth + 5


@every_way
def test_what_a_stage_and_its_source_share_is_shared_afterwards(twin_of: Copy) -> None:
    source = IterableWrapper([[1]], deepcopy=False)
    pipe = twin_of(deep(source.zip(source), 150))
    zipped = next(stage for stage in walk(pipe) if len(vars(stage).get("datapipes", ())) == 2)
    assert zipped.datapipes[0] is zipped.datapipes[1]


def test_a_failed_attempt_leaves_no_trace() -> None:
    broken = deep(IterableWrapper([1]).map(lambda x: x), 300)
    sound = deep(IterableWrapper([1]), 300)
    for _ in range(2):
        with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
            pickle.dumps([sound, broken])
    assert list(through_pickle(sound)) == [1]


@pytest.mark.parametrize("depth", [0, 150, DEPTH])
def test_a_shallow_copy_shares_what_it_holds(depth: int) -> None:
    pipe = deep(IterableWrapper([1, 2]), depth).map(abs)
    twin = copy.copy(pipe)
    assert twin is not pipe
    assert vars(twin) == vars(pipe)
    assert list(through_pickle(twin)) == [1, 2]


@every_way
@pytest.mark.parametrize("depth", [1, DEPTH])
@pytest.mark.parametrize("kind", [WithoutCache, WithoutHelper])
def test_a_class_decides_what_is_kept_of_it(twin_of: Copy, depth: int, kind: type[WithoutCache]) -> None:
    helper = Unpicklable()
    pipe = deep(kind(deep(IterableWrapper([1]), depth), helper), depth)
    twin = twin_of(pipe)
    (found,) = [stage for stage in walk(twin) if isinstance(stage, WithoutCache)]
    assert found.helper == "made anew"
    assert list(twin) == [1]


def test_a_torch_pipe_in_between_is_pickled_by_its_own_rules() -> None:
    between: Any = torch_pipes.Mapper(deep(IterableWrapper([1]), 300), abs)
    pipe = deep(Mapper(between, abs), 300)
    assert list(through_pickle(pipe)) == [1]


def test_slots_are_kept() -> None:
    assert list(through_pickle(Slotted(IterableWrapper([1, 2])))) == [1, 2]


@pytest.fixture
def no_hooks_left() -> Iterator[None]:
    yield
    for base in (IterDataPipe, MapDataPipe):
        base.set_getstate_hook(None)
        base.set_reduce_ex_hook(None)


@pytest.mark.usefixtures("no_hooks_left")
@pytest.mark.parametrize("depth", [1, 150])
def test_the_getstate_hook_filters_what_is_pickled(depth: int) -> None:
    pipe = deep(WithoutCache(IterableWrapper([1], deepcopy=False)), depth)
    seen: list[Any] = []

    def hook(state: Any) -> Any:
        seen.append(state)
        return state

    IterDataPipe.set_getstate_hook(hook)
    assert list(through_pickle(pipe)) == [1]
    assert len(seen) == depth + 2
    assert sum(isinstance(state, tuple) for state in seen) == 1
    assert list(through_pickle(SequenceWrapper([1]))) == [1]
    assert len(seen) == depth + 2


@pytest.mark.usefixtures("no_hooks_left")
def test_the_reduce_hook_replaces_how_a_pipe_is_pickled() -> None:
    source, pipe = IterableWrapper([1]), IterableWrapper([2]).map(abs)

    def hook(stage: object) -> Any:
        if stage is not source:
            raise NotImplementedError
        return list, ([7],)

    IterDataPipe.set_reduce_ex_hook(hook)
    assert through_pickle(source) == [7]
    assert list(through_pickle(pipe)) == [2]


@pytest.mark.usefixtures("no_hooks_left")
@pytest.mark.parametrize("slot", ["getstate", "reduce_ex"])
def test_a_second_hook_is_refused(slot: str) -> None:
    class Derived(IterDataPipe[Any]):
        """Hooks that are set through a subclass belong to all."""

    def set_hook(cls: Any, hook: Any) -> None:
        getattr(cls, f"set_{slot}_hook")(hook)

    set_hook(Derived, lambda x: x)
    with pytest.raises(GraphError, match=f"Attempt to override existing {slot}_hook of IterDataPipe"):
        set_hook(IterDataPipe, lambda x: x)
    assert getattr(IterDataPipe, f"{slot}_hook") is not None
    assert getattr(MapDataPipe, f"{slot}_hook") is None
    set_hook(MapDataPipe, lambda x: x)
    set_hook(Derived, None)
    set_hook(IterDataPipe, lambda x: x)
