"""Pinning rebuilds what an element holds, without an accelerator at hand: what can be pinned is played by stand-ins."""

from __future__ import annotations

from collections import ChainMap, OrderedDict, UserDict, defaultdict, deque, namedtuple
from typing import Any, NamedTuple

import pytest
import torch

from datapipes.elements.chunk import DataChunk
from datapipes.memory.pinning import pin_memory_fn

Untyped = namedtuple("Untyped", "left right")


class Pair(NamedTuple):
    """A typed namedtuple."""

    left: Any
    right: Any


class ForTorch:
    """A class whose ``pin_memory`` torch's own loader accepts: no argument."""

    def pin_memory(self) -> str:
        return "pinned"


class ForTorchdata:
    """A class whose ``pin_memory`` torchdata accepts: a device, always given."""

    def pin_memory(self, device: object) -> str:
        return f"pinned for {device}"


def test_objects_pin_themselves_with_or_without_a_device() -> None:
    assert pin_memory_fn(ForTorch()) == pin_memory_fn(ForTorch(), "cuda:1") == "pinned"
    assert pin_memory_fn(ForTorchdata()) == "pinned for None"
    assert pin_memory_fn(ForTorchdata(), "cuda:1") == "pinned for cuda:1"


def test_tensors_are_pinned_without_the_deprecated_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *device: (tensor.tolist(), device))
    assert pin_memory_fn([torch.ones(1)], "cuda:1") == [([1.0], ())]


@pytest.mark.parametrize("data", ["text", b"bytes", bytearray(b"bytes"), memoryview(b"bytes"), 1, None, {1, 2}])
def test_what_holds_nothing_to_pin_is_handed_on(data: object) -> None:
    assert pin_memory_fn(data) is data


@pytest.mark.parametrize(
    "data",
    [
        {"a": ForTorch(), "b": [ForTorch()]},
        OrderedDict(a=ForTorch()),
        UserDict(a=ForTorch()),
        ChainMap({"a": ForTorch()}),
        [ForTorch(), 1],
        (ForTorch(), 1),
        DataChunk([ForTorch()]),
        deque([ForTorch()]),
        Pair(ForTorch(), 1),
        Untyped(ForTorch(), [ForTorch()]),
    ],
)
def test_containers_keep_their_type(data: Any) -> None:
    before = repr(data)
    pinned = pin_memory_fn(data)
    assert type(pinned) is type(data)
    assert "ForTorch" not in repr(pinned)
    assert "pinned" in repr(pinned)
    assert repr(data) == before


def test_containers_that_decline_become_plain() -> None:
    assert pin_memory_fn(range(3)) == [0, 1, 2]
    pinned = pin_memory_fn(defaultdict(list, a=[ForTorch()]))
    assert type(pinned) is dict
    assert pinned == {"a": ["pinned"]}


def test_errors_of_a_pin_memory_method_come_through() -> None:
    class Failing:
        def pin_memory(self) -> None:
            raise TypeError("out of pinned memory")

    with pytest.raises(TypeError, match="out of pinned memory"):
        pin_memory_fn([Failing()], "cuda")
