"""Specimens of the operators on data frames."""

from __future__ import annotations

from typing import Any

from datapipes.description.structure import Pipe
from tests.specimen import Specimen, Tap, numbers, shuffled, unseekable
from tests.specimens_of_elements import is_even


def row(x: int) -> tuple[int, str, float | None]:
    return x, "ab"[x % 2] * x, None if x % 3 else x / 2


def named_row(x: int) -> dict[str, Any]:
    return {"number": x, "text": str(x)}


def is_a(row: Any) -> bool:
    return bool(row["text"][:1] == "a")


def divided(row: Any) -> Any:
    return row["number"] % 3 != 1


def small() -> str:
    return "Int8"


def columns_of(frame: Any) -> list[Any]:
    return [str(frame[name].dtype) for name in frame] + [frame.index[0], *frame.iloc[0]]


def frames(source: Pipe, size: int = 2) -> Pipe:
    return source.map(row)._to_dataframes_pipe(size, columns=["number", "text", "half"])


def forked_frames(tap: Tap) -> Pipe:
    a, b = frames(tap(numbers(7))).fork(2)
    return a._dataframes_as_tuples().mux(b._dataframes_per_row())


def forked_regrouping(tap: Tap) -> Pipe:
    a, b = frames(tap(numbers(9)), 3).fork(2)
    return a._dataframes_filter(is_a).mux(b._dataframes_concat(2))


def pinned(tap: Tap) -> Pipe:
    return frames(tap(numbers(9)))._dataframes_shuffle().set_seed(3)


def switched_off(tap: Tap) -> Pipe:
    return frames(tap(numbers(7)))._dataframes_shuffle().set_shuffle(False)


def traced(tap: Tap) -> Pipe:
    df = frames(tap(numbers(7))).prefetch(2).trace_as_dataframe()
    df["twice"] = df["number"] * 2
    df["number"] = -df.number
    df.loc[df["twice"] > 8, "half"] = 0.5
    return df


def traced_value(tap: Tap) -> Pipe:
    df = frames(tap(numbers(7))).trace_as_dataframe()
    df["twice"] = df["number"] + df["number"]
    value: Pipe = df["twice"].max().as_datapipe()
    return value.batch(2)


def traced_and_forked(tap: Tap) -> Pipe:
    a, b = frames(tap(numbers(6))).trace_as_dataframe().fork(2)
    return a._dataframes_as_tuples().mux(b)


FRAMES = [
    Specimen("iter._to_dataframes_pipe", "of tuples", lambda tap: frames(tap(numbers(7)), 3)),
    Specimen("iter._to_dataframes_pipe", "of numbers", lambda tap: tap(unseekable(7))._to_dataframes_pipe(2)),
    shuffled("iter._to_dataframes_pipe", "shuffled", lambda tap: frames(tap(numbers(9))).shuffle(buffer_size=2)),
    shuffled(
        "iter._to_dataframes_pipe",
        "of shuffled elements, prefetched",
        lambda tap: frames(tap(numbers(9)).shuffle(buffer_size=4)).prefetch(2).batch(2),
    ),
    Specimen("iter._dataframes_as_tuples", "rows", lambda tap: frames(tap(numbers(7)), 3)._dataframes_as_tuples()),
    Specimen("iter._dataframes_as_tuples", "below a fork", forked_frames),
    shuffled(
        "iter._dataframes_as_tuples",
        "of shuffled frames, prefetched, in batches",
        lambda tap: frames(tap(numbers(7))).shuffle(buffer_size=2)._dataframes_as_tuples().prefetch(2).batch(2),
    ),
    Specimen("iter._dataframes_per_row", "frames", lambda tap: frames(tap(unseekable(7)), 3)._dataframes_per_row()),
    shuffled(
        "iter._dataframes_per_row",
        "of prefetched frames, shuffled",
        lambda tap: frames(tap(numbers(7)), 3).prefetch(2)._dataframes_per_row().shuffle(buffer_size=3),
    ),
    Specimen("iter._dataframes_concat", "three by three", lambda tap: frames(tap(numbers(9)))._dataframes_concat()),
    Specimen(
        "iter._dataframes_concat",
        "of rows, prefetched",
        lambda tap: frames(tap(unseekable(7)))._dataframes_per_row()._dataframes_concat(2).prefetch(2),
    ),
    shuffled("iter._dataframes_shuffle", "all rows", lambda tap: frames(tap(numbers(9)))._dataframes_shuffle()),
    shuffled(
        "iter._dataframes_shuffle",
        "of prefetched frames, prefetched and shuffled",
        lambda tap: frames(tap(unseekable(11)).prefetch(2))._dataframes_shuffle().prefetch(2).shuffle(buffer_size=2),
    ),
    Specimen("iter._dataframes_shuffle", "a pinned seed", pinned, random="pinned"),
    Specimen("iter._dataframes_shuffle", "switched off", switched_off),
    Specimen("iter._dataframes_shuffle", "nothing", lambda tap: frames(tap(numbers(0)))._dataframes_shuffle()),
    Specimen("iter._dataframes_filter", "rows", lambda tap: frames(tap(numbers(12)), 3)._dataframes_filter(is_a)),
    Specimen(
        "iter._dataframes_filter",
        "of prefetched frames, prefetched",
        lambda tap: frames(tap(numbers(14)).prefetch(2), 4)._dataframes_filter(divided).prefetch(2).map(len),
    ),
    Specimen("iter._dataframes_filter", "forked", forked_regrouping),
    shuffled(
        "iter._dataframes_filter",
        "of shuffled rows",
        lambda tap: frames(tap(numbers(14)).shuffle(), 4)._dataframes_filter(divided),
    ),
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
    Specimen("iter.trace_as_dataframe", "assignments", traced),
    Specimen("iter.trace_as_dataframe", "a value, in batches", traced_value),
    Specimen("iter.trace_as_dataframe", "above a fork", traced_and_forked),
    shuffled(
        "iter.trace_as_dataframe",
        "shuffled below",
        lambda tap: frames(tap(numbers(9))).trace_as_dataframe().shuffle(buffer_size=3),
    ),
]
