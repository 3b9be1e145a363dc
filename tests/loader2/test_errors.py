"""An exception in a user's function reaches the user as it is, with a note that says where, and ends nothing else."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from datapipes.iter import IterableWrapper
from datapipes.map import SequenceWrapper
from loader2 import DataLoader2
from reading_services import InProcessReadingService
from tests.loader2.failing_graphs import CASES, HERE, STOPS, Failing, OfTorch, Passing, fail_on_3, numbers


class TwoParts(Exception):
    """An exception that cannot be made of a message alone."""

    def __init__(self, part: int, whole: str) -> None:
        super().__init__(part, whole)
        self.part = part


def first_error(graph: Any) -> BaseException:
    """The first exception of an epoch."""
    with pytest.raises(Exception) as error:  # noqa: PT011 - which one is the caller's question  # noqa: B017 - the same
        list(DataLoader2(graph))
    return error.value


def note_of(error: BaseException) -> list[str]:
    """The lines of the only note of an exception."""
    [note] = error.__notes__
    return str(note).splitlines()


ON_3 = r"  on element 3 of IterableWrapper\(.*\) \(counted from 0\)"


@pytest.mark.parametrize("case", CASES)
def test_the_note_names_stage_function_and_element(case: str) -> None:
    build, stage = CASES[case]
    raised, on = note_of(first_error(build()))
    assert re.fullmatch(f"raised in stage {stage}", raised), raised
    assert re.fullmatch(ON_3, on), on


@pytest.mark.parametrize("case", CASES)
def test_the_note_is_the_same_on_the_way_through_a_service(case: str) -> None:
    build, _ = CASES[case]
    with (
        DataLoader2(build(), reading_service=InProcessReadingService(prefetch_cnt=2)) as loader,
        pytest.raises(Exception) as error,  # noqa: PT011 - whichever the case raises  # noqa: B017 - the same
    ):
        list(loader)
    assert note_of(error.value) == note_of(first_error(build()))


def test_a_function_that_is_not_in_the_call_has_a_line_of_its_own() -> None:
    error = first_error(IterableWrapper([1, 2, object()]).batch(1).collate())
    assert isinstance(error, TypeError)
    raised, function, on = note_of(error)
    assert raised == "raised in stage .collate()"
    assert re.fullmatch(r"  function default_collate at collate\.py:\d+", function)
    assert on.startswith("  on element 2 of IterableWrapper(")


def test_a_map_style_function_is_named() -> None:
    raised = note_of(first_error(SequenceWrapper(range(5)).map(fail_on_3)))[0]
    assert re.fullmatch(rf"raised in stage \.map\(fn=<fail_on_3 {HERE}>\)", raised)


@pytest.mark.parametrize("build", [Failing, OfTorch])
def test_a_users_class_is_named_with_what_it_had_given(build: type) -> None:
    assert note_of(first_error(build(numbers()))) == [
        f"raised in stage {build.__name__}(...)",
        "  after it had given 3 elements",
    ]


def test_a_source_is_named_with_what_it_had_given() -> None:
    raised, given = note_of(first_error(IterableWrapper(map(fail_on_3, range(5)), deepcopy=False)))
    assert raised.startswith("raised in stage IterableWrapper(<map>")
    assert given == "  after it had given 3 elements"


# -- the exception itself ----------------------------------------------------------------------------------------------


def raising(error: BaseException) -> Callable[[int], int]:
    def fail(element: int) -> int:
        if element == 3:
            raise error
        return element

    return fail


@pytest.mark.parametrize(
    "error",
    [KeyError(5), KeyError(), TwoParts(1, "b"), ValueError("text", 2), KeyboardInterrupt(), SystemExit(3)],
    ids=repr,
)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_the_exception_is_the_one_that_was_raised(error: BaseException, prefetch: int) -> None:
    args = error.args
    service = InProcessReadingService(prefetch_cnt=prefetch)
    with DataLoader2(numbers().map(raising(error)), reading_service=service) as loader:
        iterator = iter(loader)
        assert [next(iterator), next(iterator), next(iterator)] == [0, 1, 2]
        with pytest.raises(type(error)) as raised:
            next(iterator)
        assert raised.value is error
        assert error.args == args
        assert error.__cause__ is error.__context__ is None
        frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert frames[-1] == "fail"
        assert list(iterator) == [4, 5]


def test_the_note_is_printed_with_the_traceback() -> None:
    printed = "".join(traceback.format_exception(first_error(numbers().map(fail_on_3))))
    assert "raise KeyError(5)\nKeyError: 5\nraised in stage .map(<fail_on_3 at" in printed
    assert "(counted from 0)\n" in printed


def test_notes_of_the_users_own_stay() -> None:
    error = ValueError("x")
    error.add_note("read the manual")
    assert first_error(numbers().map(raising(error))) is error
    assert error.__notes__[0] == "read the manual"
    assert len(error.__notes__) == 2


def test_an_exception_that_comes_again_has_one_note() -> None:
    error = ValueError("always the same object")

    def fail(element: int) -> int:
        raise error

    iterator = iter(DataLoader2(numbers(4).map(fail)))
    for _ in range(4):
        with pytest.raises(ValueError, match="always the same object"):
            next(iterator)
    assert list(iterator) == []
    assert len(error.__notes__) == 1


# -- StopIteration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", STOPS)
def test_a_stop_iteration_is_an_error_and_no_silent_end(case: str) -> None:
    iterator = iter(DataLoader2(STOPS[case]()))
    assert [next(iterator), next(iterator), next(iterator)] == [0, 1, 2]
    with pytest.raises(RuntimeError, match="raised StopIteration") as error:
        next(iterator)
    raised, stop, on = note_of(error.value)
    assert re.match(rf"raised in stage \.{'map' if case == 'builtin' else case}\(", raised)
    assert "StopIteration" in stop
    assert re.fullmatch(ON_3, on)
    assert list(iterator) == [4, 5]


# -- going on ----------------------------------------------------------------------------------------------------------

# Left out: a class that replays meets the error again, and iterators among the elements are used up by then.
GOING_ON = {name: build for name, (build, _) in CASES.items() if name != "above a user's class"}
GOING_ON |= {f"stop in {name}": build for name, build in STOPS.items() if name != "builtin"}


@pytest.mark.parametrize("case", GOING_ON)
def test_the_loop_can_go_on_and_the_state_says_where(case: str) -> None:
    loader = DataLoader2(GOING_ON[case]())
    iterator = iter(loader)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whichever the case raises
        list(iterator)
    state = loader.state_dict()
    assert state["status"] == "running"
    rest = [repr(element) for element in iterator]
    assert loader.state_dict()["status"] == "finished"
    again = DataLoader2.from_state(state, datapipe=GOING_ON[case]())
    assert [repr(element) for element in again] == rest


@pytest.mark.parametrize("build", [Failing, lambda source: Passing(source.map(fail_on_3))])
def test_a_users_class_that_raised_is_replayed_and_raises_again_while_the_cause_lasts(
    build: Callable[[Any], Any],
) -> None:
    loader = DataLoader2(build(numbers()))
    iterator = iter(loader)
    assert [next(iterator), next(iterator), next(iterator)] == [0, 1, 2]
    again = iterator
    for _ in range(2):
        with pytest.raises(KeyError) as error:
            next(again)
        assert error.value.args == (5,)
        assert list(loader.state_dict()["cells"].values()) == [3]
        again = iter(DataLoader2.from_state(loader.state_dict(), datapipe=build(numbers())))
