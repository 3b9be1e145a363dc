"""A checkpointable service: what it saves travels in the state, and comes back in place of initializing."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import pytest

from datapipes.errors import NotCheckpointable, StateError
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import (
    CheckpointableReadingServiceInterface,
    ReadingServiceInterface,
    SequentialReadingService,
    ThreadingReadingService,
)


def graph() -> IterDataPipe[Any]:
    return IterableWrapper(range(12)).shuffle(buffer_size=5).batch(3)


class Bare(ReadingServiceInterface):
    """A service that saves nothing."""

    def initialize(self, datapipe: Any) -> Any:
        return datapipe


class Remembering(CheckpointableReadingServiceInterface):
    """Counts its epochs, and saves the count."""

    calls: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.epochs = 0

    def initialize(self, datapipe: Any) -> Any:
        self.calls.append("initialize")
        return datapipe

    def restore(self, datapipe: Any, serialized_state: bytes) -> Any:
        self.calls.append("restore")
        self.epochs = int(serialized_state)
        return datapipe

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: Any = None) -> None:
        self.epochs += 1

    def checkpoint(self) -> bytes:
        return str(self.epochs).encode()


def test_a_checkpoint_is_saved_and_restored_in_place_of_initializing() -> None:
    Remembering.calls.clear()
    loader = DataLoader2(graph(), reading_service=Remembering())
    loader.seed(1)
    epochs = [list(loader), list(loader), list(loader)]
    loader.seed(1)
    states = [loader.state_dict()]
    list(loader)
    states.append(loader.state_dict())
    next(iter(loader))
    states.append(loader.state_dict())
    assert [state["service"] for state in states] == [b"3", b"4", b"5"]
    Remembering.calls.clear()
    for state, expected in zip(states, (epochs[0], epochs[1], epochs[1][1:]), strict=True):
        again = DataLoader2.from_state(pickle.loads(pickle.dumps(state)), Remembering(), datapipe=graph())
        if state["status"] != "running":
            assert again.state_dict() == state
        assert list(again) == expected
        assert again.state_dict()["service"] == str(int(state["service"]) + 1).encode()
    assert Remembering.calls == ["restore"] * 3


def test_a_checkpoint_needs_a_service_that_takes_it() -> None:
    state = DataLoader2(graph(), reading_service=Remembering()).state_dict()
    for service in (Bare(), None):
        loader = DataLoader2(graph(), reading_service=service)
        name = type(service).__name__ if service else "None"
        with pytest.raises(NotCheckpointable, match=f"^service: .*Cannot restore from non-checkpointable .* {name}"):
            loader.load_state_dict(state)
        assert len(list(loader)) == 4
    assert issubclass(NotCheckpointable, StateError)
    assert issubclass(NotCheckpointable, TypeError)


@pytest.mark.parametrize("begin", [iter, list])
def test_a_service_that_has_begun_is_begun_again_for_a_state(begin: Any) -> None:
    loader = DataLoader2(graph(), reading_service=Remembering())
    loader.seed(1)
    list(loader)
    elements = iter(loader)
    next(elements)
    state, rest = loader.state_dict(), list(elements)
    again = DataLoader2(graph(), reading_service=Remembering())
    begin(again)
    begin(again)
    iter(again)
    Remembering.calls.clear()
    again.load_state_dict(state)
    assert Remembering.calls == ["restore"]
    assert list(again) == rest
    assert again.state_dict()["service"] == b"3"


def test_a_service_that_is_where_the_state_has_it_is_left_alone() -> None:
    service = SequentialReadingService(ThreadingReadingService(2), Bare())
    loader = DataLoader2(IterableWrapper(range(12)).shuffle().sharding_filter().batch(3), reading_service=service)
    with loader:
        loader.seed(1)
        elements = iter(loader)
        next(elements)
        state, rest = loader.state_dict(), list(elements)
        iter(loader)
        pool = loader.reading_service
        loader.load_state_dict(state)
        assert loader.reading_service is pool
        assert list(loader) == rest


class Ending(Remembering):
    """Counts the epochs that have ended, too."""

    ended = 0

    def finalize_iteration(self) -> None:
        self.ended += 1


def test_an_iterator_that_loads_a_state_ends_the_epoch_of_the_service_that_runs_it() -> None:
    loader = DataLoader2(graph(), reading_service=Ending())
    list(loader)
    next(iter(loader))
    other = DataLoader2(graph(), reading_service=Ending())
    elements = iter(other)
    elements.load_state_dict(loader.state_dict())
    list(elements)
    assert vars(other.reading_service)["ended"] == 1
