"""_dataframes_shuffle, _dataframes_filter: other rows, in data frames as long as the first one that came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import torch

from datapipes.description.pipe import IterDataPipe
from datapipes.errors import StateError
from datapipes.iter.frames.making import needs_pandas
from datapipes.iter.frames.parting import one_below_the_other
from datapipes.operators.checks import needs_callable
from datapipes.position.cells import Cell, count, fields
from datapipes.position.opening import Opening
from datapipes.position.steps import refuse

Self = TypeVar("Self", bound="ShuffleDataFramesPipe")


class ShuffleDataFramesPipe(IterDataPipe[Any]):
    """The rows of all data frames in a random order; each frame is as long as the first.

    All frames are read before the first is handed on, and a position holds all rows. The order follows from the
    loader's seed, or that of ``set_seed``, where torch's own took Python's global generator.

    >>> from datapipes.iter import IterableWrapper
    >>> frames = IterableWrapper(range(5))._to_dataframes_pipe(2)
    >>> sorted(row for (row,) in frames._dataframes_shuffle()._dataframes_as_tuples())
    [0, 1, 2, 3, 4]
    """

    _fluent: ClassVar[str | None] = "_dataframes_shuffle"

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        needs_pandas("_dataframes_shuffle")
        self.source_datapipe = source_datapipe
        self._enabled = True
        self._seed: int | None = None

    def set_shuffle(self: Self, shuffle: bool = True) -> Self:
        """Switch shuffling off or on, for the iterations that start from now on; off, the frames are those above."""
        self._enabled = shuffle
        return self

    def set_seed(self: Self, seed: int) -> Self:
        """Pin this stage's seed: it is used instead of the loader's; epochs of a loader still differ."""
        self._seed = seed
        return self

    def _open(self, at: Opening) -> Iterator[Any]:
        source = at.source(self.source_datapipe)
        return self._shuffled(source, at.seed(self._seed), at.cell(_Rows)) if self._enabled else source

    def _shuffled(self, source: Iterator[Any], seed: int, rows: _Rows) -> Iterator[Any]:
        for frame in source:
            rows.add(frame, size=len(frame))
        if rows.frames:
            whole = one_below_the_other(rows.frames)
            order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(seed)).tolist()
            while rows.given < len(order):
                first, rows.given = rows.given, rows.given + rows.size
                yield whole.iloc[order[first : rows.given]]


class FilterDataFramesPipe(IterDataPipe[Any]):
    """The rows for which ``filter_fn(row)`` is true, a row being a series; each frame is as long as the first.

    An exception of ``filter_fn`` costs the whole frame that the row was in.

    >>> from datapipes.iter import IterableWrapper
    >>> frames = IterableWrapper(range(6))._to_dataframes_pipe(2, columns=["x"])
    >>> [list(frame["x"]) for frame in frames._dataframes_filter(lambda row: row.x % 2 == 0)]
    [[0, 2], [4]]
    """

    _fluent: ClassVar[str | None] = "_dataframes_filter"

    def __init__(self, source_datapipe: IterDataPipe[Any], filter_fn: Callable[[Any], Any]) -> None:
        needs_pandas("_dataframes_filter")
        needs_callable("_dataframes_filter", filter_fn)
        self.source_datapipe = source_datapipe
        self.filter_fn = filter_fn

    def _open(self, at: Opening) -> Iterator[Any]:
        return self._passing(at.source(self.source_datapipe), at.cell(_Rows))

    def _passing(self, source: Iterator[Any], rows: _Rows) -> Iterator[Any]:
        yield from rows.full_frames()
        for frame in source:
            rows.add(frame[[self._passes(row) for _, row in frame.iterrows()]], size=len(frame))
            yield from rows.full_frames()
        yield from rows.rest()

    def _passes(self, row: Any) -> bool:
        import numpy as np

        keep: Any = self.filter_fn(row)
        if not isinstance(keep, bool | np.bool_):  # numpy's is what comparing a value of a row gives
            refuse(keep)
        return bool(keep)


class _Rows(Cell):
    """The frames whose rows wait, how long the first one was that came, and how many rows were given of those here."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.size = 0
        self.given = 0

    def add(self, frame: Any, size: int) -> None:
        """Let the rows of a frame wait, which came out of one that was so long."""
        self.size = self.size or size
        if len(frame):
            self.frames.append(frame)

    def full_frames(self) -> Iterator[Any]:
        """As many frames of the first one's length as the rows are enough for."""
        while (waiting := sum(map(len, self.frames))) and waiting >= self.size:
            whole = one_below_the_other(self.frames)
            self.frames = [whole.iloc[self.size :]] if waiting > self.size else []
            yield whole.iloc[: self.size]

    def rest(self) -> Iterator[Any]:
        """The rows that are left, in one frame."""
        if self.frames:
            frames, self.frames = self.frames, []
            yield one_below_the_other(frames)

    def save(self) -> dict[str, Any] | None:
        return {"size": self.size, "given": self.given, "frames": self.pack(self.frames)} if self.size else None

    def load(self, saved: Any) -> None:
        if saved is None:
            return
        size, given, frames = fields(saved, "size", "given", "frames")
        self.size, self.given, self.frames = count(size, "size"), count(given, "given"), self.unpack_list(frames)
        if not self.size or any(type(frame).__name__ != "DataFrame" or not len(frame) for frame in self.frames):
            raise StateError("frames: expected data frames with rows, and the length of the first")

    def close(self) -> None:
        self.frames = []
