"""A warning shows the line of the user's loop, through any number of stages and threads of this library."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from datapipes.errors import CorruptData
from datapipes.iter import FileLister, IterableWrapper
from loader2 import DataLoader2


def cut(method: str) -> Any:
    return getattr(IterableWrapper([("a", io.BytesIO(b"cut"))], deepcopy=False), method)()


@pytest.mark.parametrize(
    "build",
    [
        lambda: FileLister("no such folder"),
        lambda: cut("load_from_tar"),
        lambda: cut("load_from_zip"),
        lambda: cut("load_from_tfrecord"),
        lambda: IterableWrapper([1]).map(lambda x: x / 0, on_error="skip").batch(2).map(len),
    ],
)
def test_the_line_of_the_loop_is_shown(build: Callable[[], Any]) -> None:
    for make in (build, lambda: DataLoader2(build())):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                for _ in make():
                    pass
            except (FileNotFoundError, CorruptData):
                caught.append(caught[-1])
        assert {warning.filename for warning in caught} == {__file__}
