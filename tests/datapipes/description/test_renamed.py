"""A parameter's older name works, with a warning that has the new one; positions, prints and signatures are the new."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest

from datapipes.errors import BadArgumentType
from datapipes.iter import IterableWrapper, Packer, Rebatcher, Retrier, TimeLimiter, ToDevice

Make = Callable[..., Any]
SOURCE: Any = IterableWrapper([[1, 2], [3]])
CASES: list[tuple[Make, str, Make, tuple[Any, ...], dict[str, Any], dict[str, Any]]] = [
    (SOURCE.pack, "pack", Packer, (4,), {"length": 4}, {"size": 4}),
    (SOURCE.rebatch, "rebatch", Rebatcher, (4,), {"rows": 4}, {"batch_size": 4}),
    (
        SOURCE.retry,
        "retry",
        Retrier,
        (2, OSError, 0),
        {"times": 2, "on": OSError, "wait": 0},
        {"retries": 2, "backoff": 0},
    ),
    (SOURCE.timeout, "timeout", TimeLimiter, (4,), {"seconds": 4}, {"timeout": 4}),
    (SOURCE.to_device, "to_device", ToDevice, ("cpu", True, 3), {"device": "cpu", "ahead": 3}, {"prefetch_cnt": 3}),
]


@pytest.mark.parametrize(
    ("method", "name", "operator", "by_place", "older", "newer"), CASES, ids=lambda case: str(case)
)
def test_an_older_name_works_with_a_warning(
    method: Make, name: str, operator: Make, by_place: tuple[Any, ...], older: dict[str, Any], newer: dict[str, Any]
) -> None:
    expected = repr(method(*by_place))
    with pytest.warns(DeprecationWarning, match="is an older name") as told:
        assert repr(method(**older)) == expected
    said = [str(each.message) for each in told]
    assert len(said) == len(newer)
    for new in newer:
        assert any(f"write {name}({new}=...)" in each for each in said)
    assert {each.filename for each in told} == {__file__}
    assert (
        repr(method(**{**{k: v for k, v in older.items() if k in signature(method).parameters}, **newer})) == expected
    )
    with pytest.warns(DeprecationWarning, match="is an older name"):
        assert repr(operator(SOURCE, **older)) == expected
    assert not {*older} - {"on", "device"} & {*signature(operator).parameters}


def test_both_names_are_an_error() -> None:
    renamed: Any = Packer
    with pytest.raises(BadArgumentType, match=r"pack\(length=\.\.\., size=\.\.\.\): length is the older name of size"):
        renamed(SOURCE, length=3, size=3)
