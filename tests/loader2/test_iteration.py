"""The iterator of a loader: limits and pauses lose no element, and only the newest iterator of a loader goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from datapipes.errors import BadArgument
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2, DataLoader2Iterator
from reading_services import InProcessReadingService, ReadingServiceInterface

SERVICES: list[Callable[[], ReadingServiceInterface | None]] = [
    lambda: None,
    InProcessReadingService,
    lambda: InProcessReadingService(prefetch_cnt=2),
]


@pytest.fixture(params=SERVICES, ids=["no service", "in process", "prefetch"])
def loader(request: pytest.FixtureRequest) -> Any:
    """A loader of the numbers from 0 to 9, whatever service it has."""
    with DataLoader2(IterableWrapper(range(10)), reading_service=request.param()) as loader:
        yield loader


def test_a_limit_pauses_and_resume_goes_on(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    iterator.limit(4)
    assert list(iterator) == [0, 1, 2, 3]
    assert (iterator.limit_counter, iterator.limit_threshold, iterator.paused) == (0, 4, True)
    assert list(iterator) == []
    with pytest.raises(StopIteration):
        next(iterator)
    iterator.resume()
    assert list(iterator) == [4, 5, 6, 7]
    iterator.resume()
    assert list(iterator) == [8, 9]
    assert not iterator.paused
    assert list(iterator) == []


def test_a_limit_counts_from_its_call(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    assert [next(iterator), next(iterator)] == [0, 1]
    iterator.limit(3)
    assert next(iterator) == 2
    assert iterator.limit_counter == 1
    iterator.limit(2)
    assert list(iterator) == [3, 4]


def test_a_limit_may_be_changed_before_or_after_resume(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    iterator.limit(2)
    assert list(iterator) == [0, 1]
    iterator.limit(3)
    assert list(iterator) == []
    iterator.resume()
    assert list(iterator) == [2, 3, 4]
    iterator.resume()
    iterator.limit(1)
    assert list(iterator) == [5]
    iterator.resume()
    iterator.limit(None)
    assert list(iterator) == [6, 7, 8, 9]


@pytest.mark.parametrize(("limit", "parts"), [(10, [10, 0]), (5, [5, 5, 0]), (11, [10]), (1, [1] * 10 + [0])])
def test_an_epoch_in_parts(loader: DataLoader2[int], limit: int, parts: list[int]) -> None:
    """A limit that equals what is left pauses at the end; resume then gives nothing, and the epoch is over."""
    iterator = iter(loader)
    iterator.limit(limit)
    seen: list[int] = []
    for number, part in enumerate(parts):
        if number:
            iterator.resume()
        elements = list(iterator)
        assert len(elements) == part
        seen += elements
    assert seen == list(range(10))
    assert loader.state_dict()["status"] == "finished"


def test_a_limit_of_zero_gives_nothing(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    iterator.limit(0)
    for _ in range(2):
        assert list(iterator) == []
        iterator.resume()
    iterator.limit(None)
    assert list(iterator) == list(range(10))


def test_a_negative_limit_is_refused(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    with pytest.raises(BadArgument, match=r"limit\(-1\): .* must not be negative; None removes the limit"):
        iterator.limit(-1)
    assert len(list(iterator)) == 10


def test_resume_without_a_pause_warns(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    with pytest.warns(UserWarning, match=r"resume\(\) has no effect: the iterator is not paused"):
        iterator.resume()
    assert next(iterator) == 0


def test_a_pause_ends_the_loop_at_the_next_element(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    seen = []
    for element in iterator:
        seen.append(element)
        if element == 3:
            loader._pause()
    assert seen == [0, 1, 2, 3]
    assert list(iterator) == []
    loader._resume()
    assert list(iterator) == [4, 5, 6, 7, 8, 9]


def test_the_loader_limits_its_iterator(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    loader._limit(2)
    assert list(iterator) == [0, 1]
    loader._limit(None)
    loader._resume()
    assert len(list(iterator)) == 8


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda loader: loader._pause(), r"_pause\(\)"),
        (lambda loader: loader._resume(), r"_resume\(\)"),
        (lambda loader: loader._limit(3), r"_limit\(3\)"),
    ],
)
def test_pausing_what_is_not_iterated_warns(
    loader: DataLoader2[int], call: Callable[[DataLoader2[int]], None], name: str
) -> None:
    with pytest.warns(UserWarning, match=f"{name} has no effect: this DataLoader2 has no iterator") as warned:
        call(loader)
    assert warned[0].filename == __file__
    assert len(list(loader)) == 10


def test_pause_and_limit_end_with_their_iterator(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    iterator.limit(2)
    assert list(iterator) == [0, 1]
    following = iter(loader)
    assert (following.paused, following.limit_threshold) == (False, None)
    assert list(following) == list(range(10))


def test_saving_in_a_pause(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    iterator.limit(4)
    list(iterator)
    with DataLoader2(IterableWrapper(range(10)), reading_service=loader.reading_service) as again:
        again.load_state_dict(loader.state_dict())
        assert list(again) == [4, 5, 6, 7, 8, 9]
    iterator.resume()
    assert list(iterator) == [4, 5, 6, 7]


def test_an_exception_is_no_element_to_a_limit() -> None:
    iterator = iter(DataLoader2(IterableWrapper([1, 2, 0, 4, 5]).map(lambda x: 20 // x)))
    iterator.limit(3)
    assert [next(iterator), next(iterator)] == [20, 10]
    with pytest.raises(ZeroDivisionError):
        next(iterator)
    assert list(iterator) == [5]
    iterator.resume()
    assert list(iterator) == [4]


# -- several iterators of one loader -----------------------------------------------------------------------------------


def must_be_invalid(iterator: DataLoader2Iterator[Any]) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"iterator has been invalidated.* from the same DataLoader2"):
            next(iterator)


def test_two_iterators_without_an_element_between_share_the_epoch(loader: DataLoader2[int]) -> None:
    first = iter(loader)
    second = iter(loader)
    assert loader.valid_iterator_id == 1
    must_be_invalid(first)
    assert next(second) == 0
    must_be_invalid(first)
    assert list(second) == list(range(1, 10))


def test_a_new_iterator_in_the_middle_begins_a_new_epoch(loader: DataLoader2[int]) -> None:
    first = iter(loader)
    assert [next(first), next(first)] == [0, 1]
    second = iter(loader)
    assert next(second) == 0
    must_be_invalid(first)
    assert list(second) == list(range(1, 10))


@pytest.mark.parametrize("use", ["finished", "limited", "paused"])
def test_whatever_it_was_doing_a_replaced_iterator_says_so(loader: DataLoader2[int], use: str) -> None:
    first = iter(loader)
    if use == "finished":
        list(first)
    elif use == "limited":
        first.limit(1)
        list(first)
    else:
        first.pause()
        list(first)
    iter(loader)
    must_be_invalid(first)
    assert len(list(loader)) == 10


def test_the_order_of_a_shared_epoch_does_not_change() -> None:
    def seeded() -> DataLoader2[int]:
        loader = DataLoader2(IterableWrapper(range(20)).shuffle())
        loader.seed(2)
        return loader

    loader, straight = seeded(), seeded()
    iter(loader)
    iter(loader)
    assert [list(loader), list(loader)] == [list(straight), list(straight)]


# -- what the iterators of pipes and of loaders have in common ---------------------------------------------------------


def test_the_iterator_of_a_pipe_is_limited_and_paused() -> None:
    iterator: Any = iter(IterableWrapper(range(6)).map(abs))
    iterator.limit(2)
    assert list(iterator) == [0, 1]
    iterator.resume()
    assert next(iterator) == 2
    iterator.pause()
    assert list(iterator) == []
    state = iterator.state_dict()
    iterator.limit(None)
    iterator.resume()
    assert list(iterator) == [3, 4, 5]
    again: Any = iter(IterableWrapper(range(6)).map(abs))
    again.load_state_dict(state)
    assert list(again) == [3, 4, 5]


def test_the_iterator_of_a_loader_is_saved_and_loaded(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    assert [next(iterator), next(iterator)] == [0, 1]
    assert (iterator.step, iterator.errors) == (2, {})
    state = iterator.state_dict()
    assert state == loader.state_dict()
    with DataLoader2(IterableWrapper(range(10)), reading_service=loader.reading_service) as other:
        stale, again = iter(other), iter(other)
        again.load_state_dict(state)
        assert list(again) == list(iterator) == list(range(2, 10))
        must_be_invalid(stale)
        with pytest.raises(RuntimeError, match="iterator has been invalidated"):
            stale.state_dict()
        assert list(other) == list(loader) == list(range(10))
        assert (other.epoch, loader.epoch) == (1, 1)


def test_the_loader_keeps_the_position_of_an_iterator_that_is_closed(loader: DataLoader2[int]) -> None:
    iterator = iter(loader)
    assert [next(iterator), next(iterator)] == [0, 1]
    iterator.close()
    assert list(iterator) == []
    assert iterator.state_dict() == loader.state_dict()
    assert (loader.state_dict()["status"], loader.step) == ("running", 2)
    assert list(loader) == list(range(10))


# -- attributes --------------------------------------------------------------------------------------------------------


def test_an_iterator_has_no_attributes_but_its_own() -> None:
    iterator = iter(DataLoader2(IterableWrapper("ab")))
    assert not hasattr(iterator, "nothing_of_this_name")
    with pytest.raises(AttributeError, match="'DataLoader2Iterator' object has no attribute 'absent'"):
        iterator.absent  # noqa: B018 - looking it up is what fails
    iterator.pause()
    with pytest.raises(AttributeError, match="'DataLoader2Iterator' object has no attribute 'absent'"):
        iterator.absent  # noqa: B018 - looking it up is what fails
    assert iterator.dataloader.datapipe is not None


def test_elements_of_the_users_own_iterator_are_typed() -> None:
    pipe: IterDataPipe[int] = IterableWrapper([1, 2])
    first: int = next(iter(DataLoader2(pipe)))
    assert first == 1
