"""Elements on a device, whatever they are; and the steps of a copy in the background, on streams that note them."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from datapipes.memory import moving
from datapipes.memory.moving import SideStream, moved, mover
from datapipes.memory.pinning import pin_memory_fn

META = torch.device("meta")
DEVICES = ["cpu", "meta", *(["cuda"] if torch.cuda.is_available() else [])]

Pair = namedtuple("Pair", "left right")


@dataclass
class Batch:
    """A batch, as a user writes one."""

    rows: torch.Tensor
    names: list[str]
    more: dict[str, torch.Tensor] = field(default_factory=dict)
    unset: torch.Tensor = field(init=False)


@dataclass(frozen=True, slots=True)
class Frozen:
    """One that cannot be changed, nor its attributes."""

    rows: torch.Tensor


class MovesItself(UserDict[str, Any]):
    """As a tokenizer's result: ``to`` changes it in place, and takes nothing but the device."""

    def to(self, device: Any) -> MovesItself:
        self.data = {name: value.to(device) for name, value in self.data.items()}
        return self


def tensors_of(data: Any) -> Iterator[torch.Tensor]:
    if isinstance(data, torch.Tensor):
        yield data
    for each in data.values() if isinstance(data, dict | UserDict) else data if isinstance(data, list | tuple) else ():
        yield from tensors_of(each)
    if isinstance(data, Batch | Frozen):
        yield from tensors_of([data.rows, getattr(data, "more", {})])


def one() -> torch.Tensor:
    return torch.arange(3.0)


NESTED = [
    one(),
    {"a": one(), "b": [one(), (one(), "text")]},
    OrderedDict(a=one()),
    Pair(one(), 5),
    Batch(one(), ["a"], {"b": one()}),
    [Frozen(one())],
    MovesItself(a=one(), b=one()),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("data", NESTED, ids=lambda data: type(data).__name__)
def test_what_holds_tensors_is_rebuilt_around_moved_ones(data: Any, device: str) -> None:
    before = [tensor.device.type for tensor in tensors_of(data)]
    there = mover(torch.device(device), non_blocking=True)(data)()
    assert type(there) is type(data)
    assert [tensor.device.type for tensor in tensors_of(there)] == [device] * len(before)
    assert [tensor.device.type for tensor in tensors_of(data)] == before, "the element itself is as it was"
    assert len(before) > 0
    if device != "meta":
        assert [tensor.tolist() for tensor in tensors_of(there)] == [tensor.tolist() for tensor in tensors_of(data)]


@pytest.mark.parametrize("data", ["text", b"bytes", 1, None, {1, 2}, Batch, range(0)])
def test_what_holds_no_tensor_is_handed_on(data: Any) -> None:
    assert moved(data, META) is data or moved(data, META) == []


@pytest.mark.parametrize("device", DEVICES)
def test_what_knows_how_to_move_is_asked(device: str) -> None:
    packed = pack_sequence([one(), one()[:2]])
    there = mover(torch.device(device), non_blocking=True)(packed)()
    assert (there.data.device.type, there.batch_sizes.device.type) == (device, "cpu")


class Streams:
    """Streams that write down what is done, in the form of ``torch.cuda``."""

    def __init__(self, steps: list[str]) -> None:
        self.steps = steps
        self.within = "the loop's"
        self.Stream = lambda device: Noting("its own", steps)

    @contextmanager
    def stream(self, stream: Noting) -> Iterator[None]:
        before, self.within = self.within, stream.name
        yield
        self.within = before

    def current_stream(self, device: torch.device) -> Noting:
        return Noting(self.within, self.steps)


class Noting:
    """One of them."""

    def __init__(self, name: str, steps: list[str]) -> None:
        self.name, self.steps = name, steps

    def record_event(self) -> str:
        self.steps.append(f"an event in {self.name}")
        return f"the event of {self.name}"

    def wait_event(self, event: str) -> None:
        self.steps.append(f"{self.name} waits for {event}")


def test_the_loops_stream_waits_for_a_copy_that_is_made_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    streams = Streams(steps)

    class Hosted:
        """A tensor's part in it."""

        def pin_memory(self) -> Hosted:
            steps.append("pinned")
            return self

        def to(self, device: torch.device, non_blocking: bool = False) -> Hosted:
            steps.append(f"copied in {streams.within}, waiting: {not non_blocking}")
            return self

        def record_stream(self, stream: Noting) -> None:
            steps.append(f"used in {stream.name}")

    data = {"a": [Hosted()], "b": Hosted()}
    finish = SideStream(META, streams).begin(data)
    begun = ["pinned", "copied in its own, waiting: False"] * 2 + ["an event in its own"]
    assert steps == begun, "and no step has waited"
    assert set(finish()) == {"a", "b"}
    waited = ["the loop's waits for the event of its own", "used in the loop's", "used in the loop's"]
    assert steps == begun + waited


def test_tensors_that_are_there_already_or_are_sparse_are_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pytest.fail("pinned"))
    assert moved([one().to("meta"), one().to_sparse()], META, in_background=True)[1].device == META


def test_only_cuda_has_streams_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "SideStream", lambda device, streams: pytest.fail("a stream"))
    for device, non_blocking in (("cpu", True), ("meta", True), ("cuda:1", False)):
        mover(torch.device(device), non_blocking)


def test_dataclasses_are_pinned_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: "pinned")
    assert pin_memory_fn(Batch(one(), ["a"], {"b": one()})).more == {"b": "pinned"}
