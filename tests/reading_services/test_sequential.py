"""Several services as one: the order of the calls, what goes from one to the next, and what is refused."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from datapipes import elements
from datapipes.errors import BadArgument, BadArgumentType, StateError
from datapipes.graph import Pipe
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from reading_services import (
    CheckpointableReadingServiceInterface,
    InProcessReadingService,
    MultiProcessingReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
)
from tests.reading_services.ranked import Ranked
from tests.reading_services.workers.in_turn import numbers, processes, threads


class Told(ReadingServiceInterface):
    """Writes down what it is asked, and puts its name on each element."""

    calls: ClassVar[list[str]] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def say(self, what: str) -> None:
        self.calls.append(f"{self.name} {what}")

    def initialize(self, datapipe: Pipe) -> Any:
        self.say("initialize")
        return datapipe.map(lambda x: f"{x}{self.name}")

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: Any = None) -> Any:
        self.say(f"begins, given {None if iter_reset_fn is None else iter_reset_fn.__name__}")

        def reset(datapipe: Pipe) -> Pipe:
            return datapipe if iter_reset_fn is None else iter_reset_fn(datapipe)

        reset.__name__ = f"reset_{self.name}"
        return reset

    def finalize_iteration(self) -> None:
        self.say("ends")

    def finalize(self) -> None:
        self.say("finalize")


class Saving(Told, CheckpointableReadingServiceInterface):
    """Saves its name."""

    def checkpoint(self) -> bytes:
        return self.name.encode()

    def restore(self, datapipe: Pipe, serialized_state: bytes) -> Any:
        self.say(f"restore {serialized_state.decode()}")
        return datapipe.map(lambda x: f"{x}{self.name}")


@pytest.fixture(autouse=True)
def calls() -> list[str]:
    Told.calls.clear()
    return Told.calls


def loaded(*services: Any, length: int = 3) -> DataLoader2[Any]:
    return DataLoader2(numbers(length), reading_service=SequentialReadingService(*services))


# -- the calls ---------------------------------------------------------------------------------------------------------


def test_each_gets_what_the_one_in_front_has_returned_and_the_last_is_ended_first(calls: list[str]) -> None:
    with loaded(Told("a"), Told("b"), Told("c")) as loader:
        assert list(loader) == ["0abc", "1abc", "2abc"]
    begun = ["a begins, given None", "b begins, given reset_a", "c begins, given reset_b"]
    ended = ["c ends", "b ends", "a ends"]
    finalized = ["c finalize", "b finalize", "a finalize"]
    assert calls == ["a initialize", "b initialize", "c initialize", *begun, *ended, *ended, *finalized]


def test_without_services_the_graph_is_as_it_was() -> None:
    with loaded() as loader:
        assert len(loader) == 3
        assert list(loader) == [0, 1, 2]
        assert loader.state_dict()["service"] is None


def test_a_service_that_says_nothing_of_epochs_hands_on_what_it_was_given() -> None:
    class Quiet(ReadingServiceInterface):
        def initialize(self, datapipe: Pipe) -> Pipe:
            return datapipe

    class Adding(Quiet):
        def initialize_iteration(self, seed_generator: Any, iter_reset_fn: Any = None) -> Any:
            assert iter_reset_fn is None
            return lambda datapipe: datapipe.map(str)

    with loaded(Adding(), Quiet(), InProcessReadingService(), Quiet()) as loader:
        assert list(loader) == ["0", "1", "2"]


def test_a_plugin_with_no_more_than_torchdata_asked_for() -> None:
    class Bare:
        def initialize(self, datapipe: Pipe) -> Any:
            return datapipe.header(2)

        def initialize_iteration(self, seed_generator: Any, iter_reset_fn: Any = None) -> None:
            pass

        def finalize_iteration(self) -> None:
            pass

        def finalize(self) -> None:
            pass

    with loaded(Bare(), InProcessReadingService(1)) as loader:
        assert list(loader) == [0, 1]


def test_one_that_fails_to_begin_has_the_others_ended_and_those_behind_it_left_alone(calls: list[str]) -> None:
    class Halfway(Told):
        def initialize(self, datapipe: Pipe) -> Any:
            raise ConnectionError("no worker answers")

    loader = loaded(Told("a"), Halfway("b"), Told("c"))
    with pytest.raises(ConnectionError, match="no worker answers"):
        iter(loader)
    loader.shutdown()
    assert calls == ["a initialize", "b ends", "a ends", "b finalize", "a finalize"]


def test_all_are_ended_whatever_some_of_them_raise(calls: list[str]) -> None:
    class Careless(Told):
        def finalize(self) -> None:
            self.say("finalize")
            raise OSError(self.name)

    loader = loaded(Told("a"), Careless("b"), Careless("c"))
    next(iter(loader))
    with pytest.raises(OSError, match=r"^c\b") as caught:
        loader.shutdown()
    assert calls[-3:] == ["c finalize", "b finalize", "a finalize"]
    (note,) = caught.value.__notes__
    assert note.endswith("Careless.finalize raised OSError('b')")


def test_what_is_no_graph_may_only_come_last() -> None:
    class Listing(Told):
        def initialize(self, datapipe: Pipe) -> Any:
            return [1, 2]

    with loaded(Told("a"), Listing("b")) as loader:
        assert list(loader) == [1, 2]
    with pytest.raises(BadArgumentType, match=r"Listing returned list: .* and Told after it needs a graph"):
        iter(loaded(Listing("a"), Told("b")))


# -- which order -------------------------------------------------------------------------------------------------------


def test_workers_in_front_of_ranks_are_refused_with_the_order_that_is_right() -> None:
    workers, ranks = MultiProcessingReadingService(2), Ranked(2, 0)
    with pytest.raises(BadArgument) as caught:
        SequentialReadingService(Told("a"), workers, Told("b"), ranks)
    assert str(caught.value).endswith(
        "Make it SequentialReadingService(Told, Ranked, MultiProcessingReadingService, Told)"
    )
    SequentialReadingService(Told("a"), ranks, Told("b"), workers, InProcessReadingService(), Told("c"))


@pytest.mark.parametrize(
    ("services", "said"),
    [
        ((processes(2), Told("a"), threads(2)), "MultiProcessing.* and ThreadingReadingService both split .* workers"),
        ((Ranked(2, 0), SequentialReadingService(Ranked(2, 0))), "Ranked and Ranked both split .* ranks"),
    ],
)
def test_two_of_a_kind_are_refused(services: Any, said: str) -> None:
    with pytest.raises(BadArgument, match=said):
        SequentialReadingService(*services)


def test_what_is_no_service_is_refused() -> None:
    for wrong in (2, [Told("a")], InProcessReadingService):
        with pytest.raises(BadArgumentType, match="expected reading services as separate arguments"):
            SequentialReadingService(wrong)  # type: ignore[arg-type]  # the mistakes under test


def test_graphs_are_checked_when_the_loader_is_made_or_when_another_service_has_changed_them() -> None:
    class Sharding(Told):
        def initialize(self, datapipe: Pipe) -> Any:
            return datapipe.sharding_filter()

    with pytest.warns(UserWarning, match="has no sharding_filter"):
        loaded(Ranked(1, 0), threads(2))
    with loaded(Sharding("a"), threads(2)) as loader:
        assert list(loader) == [0, 1, 2]
    unsharded = loaded(Told("a"), threads(2))
    with unsharded, pytest.warns(UserWarning, match="has no sharding_filter"):
        iter(unsharded)


# -- saving ------------------------------------------------------------------------------------------------------------


def test_each_is_given_what_it_saved(calls: list[str]) -> None:
    with loaded(Saving("a"), Told("b"), Saving("c")) as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
    calls.clear()
    with loaded(Saving("x"), Told("y"), Saving("z")) as again:
        again.load_state_dict(state)
        assert list(again) == ["1xyz", "2xyz"]
    assert calls[:3] == ["x restore a", "y initialize", "z restore c"]


@pytest.mark.parametrize("state", [None, [], "", bytearray()])
def test_a_state_that_is_no_bytes_is_refused(state: Any) -> None:
    service = SequentialReadingService(Saving("a"))
    with pytest.raises(StateError, match=r"^service: expected bytes, as checkpoint\(\) returned them, found"):
        service.restore(numbers(1), state)
    assert SequentialReadingService().restore(graph := numbers(1), b"") is graph


def test_services_that_save_nothing_may_come_and_go(calls: list[str]) -> None:
    with loaded(Told("a"), SequentialReadingService(Told("b"))) as loader:
        next(iter(loader))
        state = loader.state_dict()
    for services in ([], [Told("x")], [Saving("y"), Told("z")]):
        with loaded(*services) as again:
            again.load_state_dict(state)
            assert len(list(again)) == 2
    with DataLoader2(numbers(3)) as alone:
        alone.load_state_dict(state)
        assert list(alone) == [1, 2]


@pytest.mark.parametrize(
    ("services", "said"),
    [
        ((Saving("a"),), "service: saved by 2 services, and there are 1; use as many"),
        ((Told("a"), Told("b")), "service: Told replaces the service that saved 1 bytes here"),
    ],
)
def test_states_of_other_services_are_refused(services: Any, said: str) -> None:
    with loaded(Saving("a"), Told("b")) as loader:
        next(iter(loader))
        state = loader.state_dict()
    other = loaded(*services)
    with pytest.raises(StateError, match=said):
        other.load_state_dict(state)
    foreign = sealed({**state, "service": elements.encode([1], what="service")})
    with pytest.raises(StateError, match="not saved by a SequentialReadingService"):
        loaded(*services).load_state_dict(foreign)
