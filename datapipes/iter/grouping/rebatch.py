"""rebatch: batches of a given number of rows, out of batches of columns of any size.

Rows are not handled one by one. A batch within one input batch is a slice of it, which shares its memory; a batch
across several is joined from their slices. Rows that were not handed on wait in the cell.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import torch

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.description.renamed import renamed
from datapipes.errors import BadArgument
from datapipes.iter.formats.tables import as_one_batch, shaped
from datapipes.operator_support.checks import needs_count
from datapipes.operator_support.random_order import Shuffling
from datapipes.position.cells import Cell, count, fields
from datapipes.position.opening import Opening
from datapipes.position.seeds import derive

_WHOLE: Final = ""


@renamed(rows="batch_size")
@operator
class Rebatcher(Shuffling, IterDataPipe[Any]):
    """Batches of ``batch_size`` rows, out of batches of columns of any size.

    The last one may be shorter, unless ``drop_last``.

    A batch is a dict of columns, each a tensor, a numpy array or a list; or a tensor or an array; or a record batch or
    a table of pyarrow. All must have the same columns, of the same kind.

    Args:
        batch_size: The number of rows in a batch.
        drop_last: Whether to leave out a last batch that is not full.
        shuffle_rows: Number of rows to shuffle together; whole batches are gathered until there are as many. So rows
            of several row groups are mixed; shuffle the row groups as well, above. 0 keeps the order.
        tensors: Whether to make tensors of arrays, lists and columns of pyarrow; other values are then an error.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([{"x": [1, 2, 3]}, {"x": [4]}, {"x": [5, 6]}]).rebatch(4))
    [{'x': [1, 2, 3, 4]}, {'x': [5, 6]}]
    """

    _fluent: ClassVar[str | None] = "rebatch"

    source_datapipe: IterDataPipe[Any]
    batch_size: int
    drop_last: bool = False
    shuffle_rows: int = 0
    tensors: bool = False

    def __post_init__(self) -> None:
        needs_count(self, "batch_size", 1, "A batch has at least one row")
        needs_count(self, "shuffle_rows", 0, "The number of rows to shuffle together must not be below 0")

    def _open(self, at: Opening) -> Iterator[Any]:
        return self._batches(at, at.source(self.source_datapipe), at.cell(_RebatchCell), at.seed(self._seed))

    def _batches(self, at: Opening, source: Iterator[Any], cell: _RebatchCell, seed: int) -> Iterator[Any]:
        least = self.shuffle_rows if self._enabled else 0
        while True:
            while sum(map(_rows, cell.ready)) >= self.batch_size:
                batch, left = cell.first(self.batch_size)
                cell.ready = left  # without a call: no signal can arrive in between
                yield batch
            if cell.gathered and sum(map(_rows, cell.gathered)) >= least:
                cell.get_ready(seed if least else None)
                continue
            for batch in source:
                try:
                    checked = self._checked(batch, cell)
                    new = [checked] if _rows(checked) else []
                except BaseException as error:
                    at.keep(batch, error)
                    raise
                cell.gathered += new
                break
            else:
                break
        if cell.gathered:
            cell.get_ready(seed if least else None)
        while (there := sum(map(_rows, cell.ready))) >= self.batch_size or (there and not self.drop_last):
            batch, rest = cell.first(min(there, self.batch_size))
            cell.ready = rest
            yield batch
        cell.ready.clear()

    def _checked(self, batch: Any, cell: _RebatchCell) -> Any:
        """Return a batch in its final form. Refuse one that cannot be joined with those that wait."""
        if self.tensors:
            batch = _as_tensors(batch)
        kinds = _kinds(batch)
        if kinds is None:
            raise BadArgument(
                f"{stage(self)} needs batches of rows: a dict of columns of one length, a tensor, an "
                f"array, or a record batch or table of pyarrow; got {type(batch).__name__}: {batch!r:.200}"
            )
        for other in (cell.ready + cell.gathered)[-1:] if _rows(batch) else ():
            if kinds != (known := _kinds(other)):
                raise BadArgument(f"{stage(self)}: rows of {kinds} cannot be in one batch with rows of {known}")
        return batch


class _RebatchCell(Cell):
    """Batches of rows to hand on in this order, those gathered for a shuffle, and the number of shuffles."""

    def __init__(self) -> None:
        self.ready: list[Any] = []
        self.gathered: list[Any] = []
        self._shuffled = 0

    def get_ready(self, seed: int | None) -> None:
        """Move the gathered batches to those to hand on, in a random order if there is a seed."""
        gathered, shuffled = self.gathered, self._shuffled
        if seed is not None:
            batch = _joined(gathered)
            generator = torch.Generator().manual_seed(derive(seed, shuffled))
            gathered = [_taken(batch, torch.randperm(_rows(batch), generator=generator))]
            shuffled += 1
        ready = [*self.ready, *(batch for batch in gathered if _rows(batch))]
        self.ready, self.gathered, self._shuffled = ready, [], shuffled  # without a call: no signal in between

    def first(self, rows: int) -> tuple[Any, list[Any]]:
        """Return the first rows of those to hand on as one batch, and the remaining batches."""
        parts, left = [], self.ready[:]
        while rows:
            first = left[0]
            if (there := _rows(first)) > rows:
                parts.append(_part(first, 0, rows))
                left[0] = _part(first, rows, there)
                break
            parts.append(left.pop(0))
            rows -= there
        return _joined(parts), left

    def save(self) -> dict[str, Any]:
        ready, gathered = (self.encode(batches) if batches else None for batches in (self.ready, self.gathered))
        return {"ready": ready, "gathered": gathered, "shuffled": self._shuffled}

    def load(self, saved: Any) -> None:
        ready, gathered, shuffled = fields(saved, "ready", "gathered", "shuffled")
        self.ready += [] if ready is None else self.decode_list(ready)
        self.gathered += [] if gathered is None else self.decode_list(gathered)
        self._shuffled = count(shuffled, "shuffled")

    def close(self) -> None:
        self.ready.clear()
        self.gathered.clear()


def _is_arrow(batch: Any) -> bool:
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(batch, arrow.RecordBatch | arrow.Table)


def _is_array(column: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(column, numpy.ndarray)


def _columns(batch: Any) -> dict[str, Any]:
    """Return the columns of a batch; a batch that is a column itself has no name."""
    return dict(batch) if isinstance(batch, Mapping) else {_WHOLE: batch}


def _like(batch: Any, columns: dict[str, Any]) -> Any:
    """Return these columns as a batch of the same kind."""
    return columns if isinstance(batch, Mapping) else columns[_WHOLE]


def _kinds(batch: Any) -> Any:
    """Return the kinds of a batch's columns, which must be equal to join batches. Return None if it is no batch."""
    if _is_arrow(batch):
        return type(batch).__name__, batch.schema
    columns = _columns(batch)
    arrays = [c for c in columns.values() if isinstance(c, torch.Tensor) or _is_array(c)]
    lists = [c for c in columns.values() if isinstance(c, list) and isinstance(batch, Mapping)]
    is_batch = columns and len(arrays) + len(lists) == len(columns) and all(c.ndim for c in arrays)
    if not is_batch or len({*map(len, columns.values())}) > 1:
        return None
    return {
        name: "list" if isinstance(c, list) else f"{type(c).__name__} of {c.dtype}, {tuple(c.shape[1:])}"
        for name, c in columns.items()
    }


def _rows(batch: Any) -> int:
    return int(batch.num_rows) if _is_arrow(batch) else len(next(iter(_columns(batch).values())))


def _part(batch: Any, start: int, stop: int) -> Any:
    if _is_arrow(batch):
        return batch.slice(start, stop - start)
    return _like(batch, {name: column[start:stop] for name, column in _columns(batch).items()})


def _joined(batches: list[Any]) -> Any:
    """Return several batches joined, or the only one itself."""
    first = batches[0]
    if len(batches) == 1:
        return first
    if _is_arrow(first):
        arrow = sys.modules["pyarrow"]
        return (arrow.concat_tables if isinstance(first, arrow.Table) else arrow.concat_batches)(batches)
    each = [_columns(batch) for batch in batches]
    return _like(first, {name: _one_column([columns[name] for columns in each]) for name in each[0]})


def _one_column(parts: list[Any]) -> Any:
    if isinstance(parts[0], torch.Tensor):
        return torch.cat(parts)
    return (
        [x for part in parts for x in part] if isinstance(parts[0], list) else sys.modules["numpy"].concatenate(parts)
    )


def _taken(batch: Any, order: torch.Tensor) -> Any:
    """Return the rows of a batch in another order."""
    if _is_arrow(batch):
        return batch.take(sys.modules["pyarrow"].array(order.tolist()))
    return _like(batch, {name: _column_taken(column, order) for name, column in _columns(batch).items()})


def _column_taken(column: Any, order: torch.Tensor) -> Any:
    if isinstance(column, torch.Tensor):
        return column.index_select(0, order)
    return [column[i] for i in order.tolist()] if isinstance(column, list) else column[order.numpy()]


def _as_tensors(batch: Any) -> Any:
    if _is_arrow(batch):
        arrow = sys.modules["pyarrow"]
        table = batch if isinstance(batch, arrow.Table) else arrow.Table.from_batches([batch])
        return shaped(as_one_batch(table), "tensors")
    return _like(batch, {name: _as_tensor(column) for name, column in _columns(batch).items()})


def _as_tensor(column: Any) -> Any:
    if _is_array(column):
        return torch.from_numpy(column if column.flags.writeable else column.copy())
    return torch.tensor(column) if isinstance(column, list) else column
