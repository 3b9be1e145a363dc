"""Specimens of the operators on data frames."""

from __future__ import annotations

from typing import Any

from tests.specimens.elements import is_even
from tests.specimens.specimen import Specimen, numbers, shuffled, unseekable


def named_row(x: int) -> dict[str, Any]:
    return {"number": x, "text": str(x)}


def small() -> str:
    return "Int8"


def columns_of(frame: Any) -> list[Any]:
    return [str(frame[name].dtype) for name in frame] + [frame.index[0], *frame.iloc[0]]


FRAMES = [
    Specimen(
        "iter.dataframe",
        "a dtype by column",
        lambda tap: (
            tap(numbers(7)).map(named_row).dataframe(3, dtype={"number": "float32", "text": "string"}).map(columns_of)
        ),
    ),
    Specimen(
        "iter.dataframe",
        "a generated dtype, prefetched",
        lambda tap: tap(unseekable(9)).filter(is_even).dataframe(2, dtype_generator=small, columns=["x"]).prefetch(2),
    ),
    shuffled(
        "iter.dataframe",
        "of shuffled rows, shuffled",
        lambda tap: tap(numbers(9)).shuffle().map(named_row).dataframe(2, device="cpu").shuffle(buffer_size=3),
    ),
]
