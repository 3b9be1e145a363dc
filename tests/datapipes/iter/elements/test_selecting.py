"""drop, slice and flatten choose columns; what they cannot do is a warning, and the element goes on."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.iter import Dropper, Flattener, IterableWrapper, Slicer
from tests.datapipes.iter.mishaps import outcomes

ROW = (10, 11, 12, 13)


def only(pipe: Any) -> Any:
    (element,) = pipe
    return element


def of(element: Any) -> IterableWrapper[Any]:
    return IterableWrapper([element])


@pytest.mark.parametrize(
    ("element", "indices", "left"),
    [
        (ROW, 1, (10, 12, 13)),
        (ROW, [0, 3], (11, 12)),
        (list(ROW), [0, 3], [11, 12]),
        (ROW, [], ROW),
        (ROW, -1, ROW),
        ({"x": 1, "y": 2}, "x", {"y": 2}),
        ({"x": 1, "y": 2}, ["y", "x"], {}),
        ({(0, 1): "a", 0: "b"}, (0, 1), {0: "b"}),
    ],
)
def test_drop(element: Any, indices: Any, left: Any) -> None:
    dp = of(element).drop(indices)
    assert isinstance(dp, Dropper)
    assert only(dp) == left
    assert type(only(dp)) is type(element)
    assert len(dp) == 1


def test_drop_of_what_is_not_there() -> None:
    with pytest.warns(UserWarning, match=r"\.drop\(\[1, 7\]\): the columns \[7\] are not in this tuple"):
        assert only(of(ROW).drop([1, 7])) == (10, 12, 13)
    with pytest.warns(UserWarning, match=r"the columns \['z'\] are not in this dict"):
        assert only(of({"x": 1}).drop("z")) == {"x": 1}
    for element in (5, "text", None):
        with pytest.warns(UserWarning, match=r"nothing can be dropped from an element of type"):
            assert only(of(element).drop(0)) == element


@pytest.mark.parametrize(
    ("element", "arguments", "part"),
    [
        (ROW, (1,), (11, 12, 13)),
        (ROW, (1, 3), (11, 12)),
        (ROW, (0, None, 2), (10, 12)),
        (ROW, (-2,), (12, 13)),
        (ROW, ([2, 0],), (10, 12)),
        (ROW, ([-1, 0],), (10, 13)),
        (ROW, ([],), ()),
        (list(ROW), ([1],), [11]),
        (list(ROW), (2,), [12, 13]),
        ({"x": 1, "y": 2}, ("x",), {"x": 1}),
        ({"x": 1, "y": 2, "z": 3}, (["z", "x"],), {"x": 1, "z": 3}),
    ],
)
def test_slice(element: Any, arguments: tuple[Any, ...], part: Any) -> None:
    dp = of(element).slice(*arguments)
    assert isinstance(dp, Slicer)
    assert only(dp) == part
    assert type(only(dp)) is type(element)
    assert len(dp) == 1


def test_slice_warns() -> None:
    with pytest.warns(
        UserWarning, match=r"together with `stop` or `step`, which are ignored, in \.slice\(\[1\], stop=3"
    ):
        dp = of(ROW).slice([1], stop=3)
    assert only(dp) == (11,)
    with pytest.warns(UserWarning, match=r"the columns \[4, -5\] are not in this tuple"):
        assert only(of(ROW).slice([4, -5, 1])) == (11,)
    with pytest.warns(UserWarning, match=r"the columns \['z'\] are not in this dict"):
        assert only(of({"x": 1}).slice("z")) == {"x": 1}
    for element in (5, "text"):
        for index in (0, [0]):
            with pytest.warns(UserWarning, match=r"no part can be taken of an element of type"):
                assert only(of(element).slice(index)) == element


@pytest.mark.parametrize(
    ("element", "indices", "flat"),
    [
        ((1, (2, [3]), [4]), None, (1, 2, [3], 4)),
        ([1, (2, 3)], None, [1, 2, 3]),
        (((1, 2), (3, 4)), 0, (1, 2, (3, 4))),
        (((1, 2), (3, 4)), [1], ((1, 2), 3, 4)),
        (((1, 2), (3, 4)), [], ((1, 2), (3, 4))),
        (("ab", (1,)), None, ("ab", 1)),
        ({"x": {"a": 1}, "y": {"b": {"c": 2}}}, None, {"a": 1, "b": {"c": 2}}),
        ({"x": {"a": 1}, "y": {"b": 2}}, "y", {"x": {"a": 1}, "b": 2}),
        ({"x": {"a": 1}, "y": {"a": 2}}, None, {"a": 2}),
        ({"x": [1, 2]}, None, {"x": [1, 2]}),
    ],
)
def test_flatten(element: Any, indices: Any, flat: Any) -> None:
    dp = of(element).flatten(indices)
    assert isinstance(dp, Flattener)
    assert only(dp) == flat
    assert type(only(dp)) is type(element)
    assert len(dp) == 1


def test_flatten_warns() -> None:
    with pytest.warns(UserWarning, match=r"the columns \[5\] are not in this tuple"):
        assert only(of(((1, 2), 3)).flatten([0, 5])) == (1, 2, 3)
    with pytest.warns(UserWarning, match=r"the keys \['x'\] of the dict at 'y' are left out"):
        assert only(of({"x": 1, "y": {"x": 2, "z": 3}}).flatten()) == {"x": 1, "z": 3}


def test_a_warning_that_all_elements_are_worth_comes_once() -> None:
    dp = IterableWrapper([(i, i) for i in range(200)] + [{"x": 1}, {"x": 2}]).drop([5])
    with pytest.warns(UserWarning, match=r"the columns \[5\] are not in this") as said:
        assert len(list(dp)) == 202
    assert [str(warning.message).split(": ")[1] for warning in said] == [
        "the columns [5] are not in this tuple",
        "the columns [5] are not in this dict",
    ]


def test_flatten_of_what_cannot_be_iterated() -> None:
    assert outcomes(IterableWrapper([(1,), 2, ((3,),)]).flatten()) == [
        (1,),
        "TypeError: 'int' object is not iterable",
        (3,),
    ]
    with pytest.warns(UserWarning, match="goes on after TypeError"):
        assert list(IterableWrapper([(1,), 2]).flatten(on_error="skip")) == [(1,)]


def test_the_element_is_not_changed() -> None:
    rows: list[Any] = [{"x": 1, "y": {"z": 2}}, [1, [2]]]
    source = IterableWrapper(rows, deepcopy=False)
    for dp in (source.drop([]), source.slice([]), source.flatten()):
        list(dp)
    assert rows == [{"x": 1, "y": {"z": 2}}, [1, [2]]]
