"""to_device moves elements beforehand, and saves what is ahead as it was; a machine with CUDA runs the same with it."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch

from datapipes import iterate
from datapipes.errors import BadArgument, GraphError
from datapipes.graph import Pipe, find_dps, traverse_dps
from datapipes.iter import IterableWrapper, ToDevice
from datapipes.iter.placement import to_device
from datapipes.position.position_history import SnapshotBudget
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, ThreadingReadingService
from reading_services.workers.gather import Gathered
from tests.datapipes.iter.mishaps import failing_at, outcomes

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def rows(x: int) -> dict[str, Any]:
    return {"x": torch.full((4,), x), "name": str(x)}


def batches(length: int) -> Pipe:
    return IterableWrapper(range(length)).shuffle().set_seed(3).sharding_filter().map(rows).batch(2).collate()


def plain(batch: Any) -> Any:
    return batch["x"].tolist(), batch["name"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("non_blocking", [True, False])
def test_the_same_elements_on_a_device(device: str, non_blocking: bool) -> None:
    dp = batches(9).to_device(device, non_blocking=non_blocking, prefetch_cnt=3)
    found = list(dp)
    assert {batch["x"].device.type for batch in found} == {device}
    assert [plain(batch) for batch in found] == [plain(batch) for batch in batches(9)]
    assert len(dp) == 5


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("is_cheap", [True, False])
def test_resume_at_each_element(device: str, is_cheap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the position above is known, or what is ahead is saved."""
    monkeypatch.setattr(SnapshotBudget, "is_cheap", lambda self: is_cheap)
    it = iterate(batches(11).to_device(device))
    states = [pickle.dumps(it.state_dict())]
    taken = []
    for batch in it:
        taken.append(plain(batch))
        states.append(pickle.dumps(it.state_dict()))
    for done, state in enumerate(states):
        again = iterate(batches(11).to_device(device))
        again.load_state_dict(pickle.loads(state))
        rest = list(again)
        assert [plain(batch) for batch in rest] == taken[done:]
        assert all(batch["x"].device.type == device for batch in rest)


def test_so_many_are_moved_beforehand_in_a_thread() -> None:
    begun = threading.Semaphore(0)
    where = []

    class Noted:
        """An element that notes where it is moved."""

        def to(self, device: torch.device) -> Noted:
            where.append((threading.current_thread() is threading.main_thread(), device.type))
            begun.release()
            return self

    it = iter(IterableWrapper([Noted() for _ in range(9)], deepcopy=False).to_device("cpu", prefetch_cnt=3))
    next(it)
    for _ in range(4):  # the one handed on, and those ahead
        assert begun.acquire(timeout=300)
    list(it)
    assert where == [(False, "cpu")] * 9


def test_an_element_that_cannot_be_moved_is_an_error_of_its_own() -> None:
    class Unmovable:
        """One that does not fit."""

        def to(self, device: torch.device) -> None:
            raise ValueError("too large for the device")

    dp = IterableWrapper([1, Unmovable(), 3], deepcopy=False).to_device("cpu")
    assert outcomes(dp) == [1, "ValueError: too large for the device", 3]
    assert outcomes(IterableWrapper(range(4)).map(failing_at(1)).to_device("cpu")) == [0, "ValueError: 1 is bad", 2, 3]


@pytest.mark.parametrize("service", [ThreadingReadingService(2), MultiProcessingReadingService(2, "fork")])
def test_it_stays_in_the_process_that_trains(service: Any) -> None:
    with DataLoader2(batches(8).to_device("cpu").map(plain), reading_service=service) as loader:
        assert sorted(name for _, names in loader for name in names) == list("01234567")
        [stage] = find_dps(traverse_dps(loader.datapipe), ToDevice)
        assert isinstance(stage.source_datapipe, Gathered)


def test_in_a_worker_of_torch_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_device, "get_worker_info", object)
    with pytest.raises(GraphError, match=r"to_device\('cpu'\) is in a worker of torch's DataLoader"):
        next(iter(batches(4).to_device("cpu")))


def test_devices_that_are_not_there() -> None:
    with pytest.raises(BadArgument, match=r"to_device\('gpu'\): torch knows no such device"):
        batches(1).to_device("gpu")
    with pytest.raises(BadArgument, match="'prefetch_cnt' is required to be a positive integer"):
        batches(1).to_device("cpu", prefetch_cnt=0)
    if not torch.cuda.is_available():
        with pytest.raises(GraphError, match=r"to_device\('cuda:1'\) needs CUDA, but torch finds none here"):
            batches(1).to_device("cuda:1")


def test_the_device_is_the_one_in_use_where_the_iteration_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert ToDevice(IterableWrapper([1]), "cuda")._in_use() == torch.device("cuda", 3)
    assert ToDevice(IterableWrapper([1]), "cuda:1")._in_use() == torch.device("cuda", 1)


def test_what_is_left_ahead_ends_with_the_iterator() -> None:
    it: Iterator[Any] = iter(batches(99).to_device("cpu", prefetch_cnt=2))
    assert len(list(islice(it, 3))) == 3
    del it
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]
