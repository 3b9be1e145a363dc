"""torch's own code with our pipes: its functions on graphs take them, and its pipes have our methods."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.utils.data.datapipes.iter as torch_pipes
from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data import MapDataPipe as TorchMapDataPipe
from torch.utils.data import functional_datapipe
from torch.utils.data import graph as torchs_graph
from torch.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from torch.utils.data.graph_settings import (
    apply_random_seed,
    apply_sharding,
    apply_shuffle_settings,
    get_all_graph_pipes,
)

from datapipes.graph import traverse_dps
from datapipes.iter import IterableWrapper, Mapper, Prefetcher, Shuffler
from datapipes.map import SequenceWrapper
from loader2 import DataLoader2


class OfTorch(TorchIterDataPipe[Any]):
    """A class as people write it who know torch only."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


class Letters(TorchMapDataPipe[str]):
    def __getitem__(self, key: int) -> str:
        return "abcd"[key]

    def __len__(self) -> int:
        return 4


def graph() -> Any:
    source: Any = IterableWrapper(range(12)).shuffle().map(lambda x: x)
    return OfTorch(source).sharding_filter().map(str)


def stages(pipe: Any) -> list[str]:
    return [type(stage).__name__ for stage in get_all_graph_pipes(torchs_graph.traverse_dps(pipe))]


def test_a_graph_of_ours_is_walked_by_torch() -> None:
    pipe: Any = IterableWrapper(range(3)).map(lambda x: x).zip(SequenceWrapper("abc").to_iter_datapipe())
    assert torchs_graph.traverse_dps(pipe) == traverse_dps(pipe)
    with pytest.warns(FutureWarning, match="traverse"):
        assert torchs_graph.traverse(pipe) == traverse_dps(pipe)
    assert stages(pipe) == ["Zipper", "Mapper", "IterableWrapper", "MapToIterConverter", "SequenceWrapper"]


def test_a_stage_of_ours_above_one_of_torchs_is_found() -> None:
    found = ["MapperIterDataPipe", "ShardingFilterIterDataPipe", "OfTorch", "Mapper", "Shuffler", "IterableWrapper"]
    assert stages(graph()) == found


def test_a_graph_of_torchs_is_its_own_affair() -> None:
    pipe = torch_pipes.IterableWrapper(range(3)).map(str)
    assert stages(pipe) == ["MapperIterDataPipe", "IterableWrapperIterDataPipe"]
    with pytest.raises(RuntimeError, match="Expected `IterDataPipe` or `MapDataPipe`"):
        torchs_graph.traverse_dps([1])  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("build", [graph, lambda: IterableWrapper(range(12)).shuffle().sharding_filter().map(str)])
def test_torchs_settings_reach_ours(build: Any) -> None:
    unshuffled = apply_shuffle_settings(build(), shuffle=False)
    assert list(unshuffled) == [str(i) for i in range(12)]
    sharded = apply_sharding(unshuffled, 3, 1, SHARDING_PRIORITIES.DISTRIBUTED)
    assert list(sharded) == ["1", "4", "7", "10"]
    orders = [list(apply_random_seed(build(), torch.Generator().manual_seed(seed))) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0], key=int) == [str(i) for i in range(12)]


def test_torchs_settings_add_a_shuffle_of_ours() -> None:
    unshuffled: Any = IterableWrapper(range(3))
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
        shuffled = apply_shuffle_settings(unshuffled, shuffle=True)
    assert isinstance(shuffled, Shuffler)


def test_pipes_of_torchs_kind_have_our_methods() -> None:
    files = OfTorch([("a.csv", io.StringIO("1,2\n3,4\n"))])
    assert list(files.parse_csv()) == [["1", "2"], ["3", "4"]]
    pipe = OfTorch(range(5)).enumerate().set_length(5).prefetch(2)
    assert len(pipe) == 5
    assert list(DataLoader2(pipe)) == [(i, i) for i in range(5)]
    assert list(OfTorch(range(5)).map(str).header(2)) == ["0", "1"]  # behind a method of torch's own
    assert list(Letters().to_iter_datapipe([3, 0])) == ["d", "a"]
    assert isinstance(OfTorch(range(5)).map(str), torch_pipes.Mapper)
    assert not isinstance(OfTorch(range(5)).map(str), Mapper)


def test_a_class_that_is_registered_with_torch_may_take_a_name_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TorchIterDataPipe, "functions", dict(TorchIterDataPipe.functions))
    functional_datapipe("prefetch")(OfTorch)
    pipe: Any = OfTorch(range(3))
    assert isinstance(pipe.prefetch(), OfTorch)
    assert isinstance(IterableWrapper(range(3)).prefetch(), Prefetcher)
    for name in ("prefetch", "map"):
        with pytest.raises(Exception, match="already taken"):
            functional_datapipe(name)(OfTorch)
