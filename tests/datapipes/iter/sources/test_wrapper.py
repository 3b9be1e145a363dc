"""IterableWrapper gives what an iterable gives, from its start, and leaves the user's data as it was."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from datapipes.errors import BadArgumentType, StateError, UnsavableElement
from datapipes.iter import IterableWrapper
from datapipes.position.iterator import iterate
from loader2 import DataLoader2
from tests.datapipes.iter.mishaps import outcomes


class Countdown:
    """An iterator that raises once and goes on."""

    def __init__(self, start: int, bad: int) -> None:
        self.next, self.bad = start, bad

    def __iter__(self) -> Countdown:
        return self

    def __next__(self) -> int:
        if self.next == 0:
            raise StopIteration
        self.next -= 1
        if self.next == self.bad:
            raise ValueError(f"{self.bad} is bad")
        return self.next


@pytest.mark.parametrize(
    ("iterable", "elements"),
    [
        ([3, None, 1], [3, None, 1]),
        ((1, 2), [1, 2]),
        (range(2, 8, 3), [2, 5]),
        ("ab", ["a", "b"]),
        ({"x": 1, "y": 2}, ["x", "y"]),
        ([], []),
        ({}, []),
    ],
)
def test_elements_and_length_of_a_collection(iterable: Any, elements: list[Any]) -> None:
    dp = IterableWrapper(iterable)
    assert list(dp) == list(dp) == elements
    assert len(dp) == len(elements)


def test_a_class_with_only_getitem_is_iterable() -> None:
    class Squares:
        def __getitem__(self, i: int) -> int:
            if i > 2:
                raise IndexError(i)
            return i * i

    squares: Any = Squares()
    assert list(IterableWrapper(squares)) == [0, 1, 4]


def test_a_length_ends_a_class_with_only_getitem() -> None:
    class Computed:
        def __getitem__(self, i: int) -> int:
            return i * i

        def __len__(self) -> int:
            return 4

    computed: Any = Computed()
    for copied in (True, False):
        dp = IterableWrapper[int](computed, deepcopy=copied)
        assert list(islice(dp, 6)) == [0, 1, 4, 9]
        assert len(dp) == 4
        iterator = iterate(dp)
        next(iterator)
        resumed = iterate(dp)
        resumed.load_state_dict(iterator.state_dict())
        assert list(islice(resumed, 6)) == [1, 4, 9]


def test_what_cannot_be_iterated_is_refused_at_once() -> None:
    number: Any = 5
    with pytest.raises(BadArgumentType, match=r"IterableWrapper needs an iterable, got int: 5"):
        IterableWrapper(number)


def test_elements_are_copies() -> None:
    data = [[1], [2]]
    for element in IterableWrapper(data):
        element.append(0)
    assert data == [[1], [2]]


def test_without_deepcopy_the_elements_are_the_objects_themselves() -> None:
    data = [[1], [2]]
    assert all(given is own for given, own in zip(IterableWrapper(data, deepcopy=False), data, strict=True))


def test_an_iterator_that_can_be_copied_starts_over() -> None:
    dp = IterableWrapper(iter([1, 2]))
    assert list(dp) == list(dp) == [1, 2]


def test_a_generator_is_used_as_it_is_and_says_so_each_time() -> None:
    dp = IterableWrapper(x for x in (1, 2))
    with pytest.warns(UserWarning, match="generator can not be deepcopied"):
        assert list(dp) == [1, 2]
    with (
        pytest.warns(UserWarning, match="generator can not be deepcopied"),
        pytest.warns(UserWarning, match="iterated before and continues where it is"),
    ):
        assert list(dp) == []


def test_an_element_that_cannot_be_copied_is_handed_out_itself() -> None:
    data = [(x for x in "a"), 1]
    with pytest.warns(UserWarning, match="generator can not be deepcopied"):
        assert list(IterableWrapper(data)) == data


def test_without_deepcopy_a_generator_gives_no_warning() -> None:
    assert list(IterableWrapper((x for x in (1, 2)), deepcopy=False)) == [1, 2]


def test_a_generator_that_two_iterations_share_is_not_split_in_silence() -> None:
    left, right = IterableWrapper((x for x in range(4)), deepcopy=False).fork(2)
    assert next(iter(left)) == 0
    with pytest.warns(UserWarning, match="iterated before and continues where it is, so elements are missing"):
        assert list(right) == [1, 2, 3]


def test_length_of_what_has_none() -> None:
    dp = IterableWrapper((x for x in (1, 2)), deepcopy=False)
    with pytest.raises(TypeError, match=r"^IterableWrapper instance doesn't have valid length: IterableWrapper\("):
        len(dp)


def test_an_iterator_that_raises_goes_on_with_what_follows() -> None:
    assert outcomes(IterableWrapper(Countdown(4, bad=2), deepcopy=False)) == [3, "ValueError: 2 is bad", 1, 0]


def test_a_copy_that_raises_costs_its_own_element_only() -> None:
    class Odd:
        def __init__(self, error: type[Exception] | None) -> None:
            self.error = error

        def __deepcopy__(self, memo: Any) -> str:
            if self.error is not None:
                raise self.error("no copy")
            return "copied"

    dp = IterableWrapper([Odd(None), Odd(ValueError), Odd(StopIteration), Odd(None)])
    assert outcomes(dp) == [
        "copied",
        "ValueError: no copy",
        "RuntimeError: copying Odd raised StopIteration, which would end the stream",
        "copied",
    ]


@pytest.mark.parametrize("deepcopy", [True, False])
def test_what_is_appended_to_a_list_meanwhile_comes_in_the_next_iteration(deepcopy: bool) -> None:
    for element in (int, str, list):
        data: list[Any] = [element() for _ in range(4)]
        source = IterableWrapper(data, deepcopy)
        sharded = source.sharding_filter()
        sharded.apply_sharding(2, 0)
        for dp, number in (
            (source, 4),
            (source.shuffle(buffer_size=2), 4),
            (sharded, 2),
            (source.map(str).batch(2), 2),
        ):
            del data[4:]
            it: Any = iter(dp)
            next(it)
            data += data[:2]
            state = it.state_dict()
            assert len(list(it)) == number - 1
            again: Any = iter(dp)
            with pytest.raises(StateError, match="had 4 elements and has 6 now"):
                again.load_state_dict(state)
            del data[4:]
            again.load_state_dict(state)
            assert len(list(again)) == number - 1
            data += data[:2]
            assert len(list(dp)) == number * 3 // 2


def test_what_was_removed_from_a_list_meanwhile_is_not_there() -> None:
    data = [0, 1, 2]
    it = iter(IterableWrapper(data))
    assert next(it) == 0
    data.pop()
    assert list(it) == [1]


def test_the_iterable_is_not_touched_before_the_first_element() -> None:
    class Untouched:
        def __iter__(self) -> Iterator[int]:
            raise AssertionError("iterated")

    iter(IterableWrapper(Untouched(), deepcopy=False).map(str))


def test_a_loader_has_no_position_of_the_graph() -> None:
    inner: DataLoader2[int] = DataLoader2(IterableWrapper(range(4)).shuffle())
    with DataLoader2(IterableWrapper(inner, deepcopy=False)) as dl:
        with pytest.warns(UserWarning, match="holds a loader"):
            next(iterator := iter(dl))
        with pytest.raises(UnsavableElement, match="use the loader's graph instead"):
            dl.state_dict()
        assert len(list(iterator)) == 3


def test_pipes_that_elements_become_have_orders_of_their_own() -> None:
    def shuffled(first: int) -> Any:
        return IterableWrapper(range(20)).shuffle()

    def epochs(seed: int) -> list[list[int]]:
        with DataLoader2(IterableWrapper(range(2)).flatmap(shuffled)) as dl:
            dl.seed(seed)
            return [list(dl), list(dl)]

    first, second = epochs(1)
    assert len({str(order) for order in (first[:20], first[20:], second[:20], second[20:])}) == 4
    assert epochs(1) == [first, second] != epochs(2)
