"""argument_validation and runtime_validation: what they let pass, what they refuse, and when they are off."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, Optional, TypedDict, TypeVar

import pytest
import torch.utils.data.datapipes.iter as torch_pipes
from torch.utils.data import IterDataPipe as TorchIterDataPipe

from datapipes import argument_validation, runtime_validation, runtime_validation_disabled
from datapipes.errors import BadArgumentType, WrongElement
from datapipes.graph.validation import is_of
from datapipes.iter import IterableWrapper, IterDataPipe, Shuffler
from datapipes.map import MapDataPipe, SequenceWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

T = TypeVar("T")


class Both(IterDataPipe[tuple[int, str]]):
    @argument_validation
    def __init__(
        self, numbers: IterDataPipe[int], names: MapDataPipe[str], /, start: int = 0, *, other: Both | None = None
    ) -> None:
        self.numbers = numbers
        self.names = names
        self.start = start
        self.other = other

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for number in self.numbers:
            yield number, self.names[number]


NAMES = SequenceWrapper("abc")


def test_arguments_annotated_as_pipes_must_be_pipes() -> None:
    dp = Both(IterableWrapper([2, 0]), NAMES)
    assert list(dp) == [(2, "c"), (0, "a")]
    assert Both.__init__.__name__ == "__init__"
    message = r"Both\.__init__\(\): Expected argument 'numbers' as a IterDataPipe, but found list: \[2, 0\]"
    with pytest.raises(BadArgumentType, match=message):
        Both([2, 0], NAMES)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(BadArgumentType, match="'names' as a MapDataPipe, but found IterableWrapper"):
        Both(IterableWrapper([2]), IterableWrapper("abc"))  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match="missing a required argument"):
        Both(IterableWrapper([2]))  # type: ignore[call-arg]  # on purpose


def test_the_base_classes_of_torch_stand_for_ours_and_a_class_of_a_pipe_for_itself() -> None:
    @argument_validation
    def of_any(source: TorchIterDataPipe[int], shuffled: Shuffler[int] | None = None) -> int:
        return len(list(source))

    @argument_validation
    def of_shuffler(source: Shuffler[int]) -> int:
        return len(source)

    numbers: Any = IterableWrapper(range(3))
    assert of_any(numbers) == of_any(torch_pipes.IterableWrapper(range(3))) == 3
    assert of_shuffler(numbers.shuffle()) == 3
    with pytest.raises(BadArgumentType, match="'source' as a Shuffler, but found IterableWrapper"):
        of_shuffler(numbers)


class Numbers(IterDataPipe[int]):
    def __init__(self, *numbers: Any) -> None:
        self.numbers = numbers

    @runtime_validation
    def __iter__(self) -> Iterator[int]:
        yield from self.numbers


class Derived(Numbers):
    """Has the type of its base."""


class Pairs(IterDataPipe[T]):
    """Declares no type of its own, so the hint of ``__iter__`` counts."""

    def __init__(self, *pairs: Any) -> None:
        self.pairs = pairs

    @runtime_validation
    def __iter__(self) -> Iterator[tuple[int, T]]:  # type: ignore[override]  # on purpose
        yield from self.pairs


@pytest.mark.parametrize(
    ("build", "wrong"),
    [
        (Numbers, "3"),
        (Derived, 3.5),
        (lambda *numbers: Pairs(*((number, number) for number in numbers)), "3"),
    ],
)
def test_each_element_must_be_what_the_class_declares(build: Callable[..., IterDataPipe[Any]], wrong: Any) -> None:
    assert len(list(build(1, True, 2))) == 3
    iterator = iter(build(1, wrong))
    next(iterator)
    with pytest.raises(WrongElement, match=r"Expected an instance as subtype of .*int.*, but found"):
        next(iterator)
    with runtime_validation_disabled():
        assert len(list(build(1, wrong))) == 2
    with pytest.raises(RuntimeError):
        list(build(wrong))


def test_elements_are_checked_in_workers_too() -> None:
    graph = Numbers(*range(9), "nine")
    with (
        DataLoader2(graph, reading_service=MultiProcessingReadingService(1, "fork")) as loader,
        pytest.raises(WrongElement, match="'nine'"),
    ):
        list(loader)


def test_only_an_iter_can_be_checked() -> None:
    def elsewhere(self: Any) -> Iterator[int]:
        yield 1

    with pytest.raises(BadArgumentType, match="Can not decorate function elsewhere with 'runtime_validation'"):
        runtime_validation(elsewhere)


class Row(NamedTuple):
    x: int


class Named(TypedDict):
    x: int


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, Any, True),
        (1, T, True),
        (True, int, True),
        (1, float, True),
        ("1", int, False),
        (None, None, True),
        (0, None, False),
        (None, Optional[int], True),  # noqa: UP045 - users write it
        ("a", int | str, True),
        (b"a", int | str, False),
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        ((1, "a"), tuple[int, str], True),
        ((1, "a", 2), tuple[int, str], False),
        ((1, "a"), tuple[int, ...], False),
        ((1, 2, 3), tuple[int, ...], True),
        ([1, "a"], list[int], False),
        ([[1], [2]], list[list[int]], True),
        (deque(["a"]), deque[int], False),
        ({"a": [1]}, dict[str, list[int]], True),
        ({"a": ["b"]}, dict[str, list[int]], False),
        (Row(1), Row, True),
        ({"x": 1}, Named, True),
        ([], Named, False),
        (len, Callable[[Any], int], True),
    ],
)
def test_what_is_of_a_type(value: object, hint: Any, expected: bool) -> None:
    assert is_of(value, hint) is expected
