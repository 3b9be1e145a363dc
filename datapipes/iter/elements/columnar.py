"""rows2columnar: a batch of rows as one dict of columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.operators.checks import same_length
from datapipes.position.on_error import Tolerant
from datapipes.position.steps import Step


@operator
class Rows2Columnar(Tolerant, IterDataPipe[dict[Any, list[Any]]]):
    """Each batch of rows as a ``defaultdict(list)`` of columns.

    Args:
        column_names: The columns to take of rows that are dicts, each of which must have them; ``None``: all that a row
            has. Rows of another kind need it, as a list: it names their values by position, and may be longer.

    >>> from datapipes.iter import IterableWrapper
    >>> [batch] = IterableWrapper([(1, "a"), (2, "b")]).batch(2).rows2columnar(["x", "y"])
    >>> dict(batch)
    {'x': [1, 2], 'y': ['a', 'b']}
    """

    _fluent: ClassVar[str | None] = "rows2columnar"

    source_datapipe: IterDataPipe[Any]
    column_names: Collection[Any] | None = None

    def _step(self) -> Step:
        return Step("map", self._columns)

    def _columns(self, rows: Iterable[Any]) -> dict[Any, list[Any]]:
        columns: dict[Any, list[Any]] = defaultdict(list)
        for number, row in enumerate(rows):
            if isinstance(row, dict):
                if missing := [name for name in self.column_names or () if name not in row]:
                    raise KeyError(f"row {number} of the batch lacks the columns {missing}; it has {list(row)!s:.200}")
                for name in self.column_names or row:
                    columns[name].append(row[name])
            else:
                values = list(row)
                for name, value in zip(self._names_of(number, values), values, strict=False):
                    columns[name].append(value)
        return columns

    def _names_of(self, number: int, values: list[Any]) -> Sequence[Any]:
        names = self.column_names or ()
        if not isinstance(names, Sequence):
            raise TypeError(
                f"row {number} of the batch has no names of its own, and column_names, a {type(names).__name__}, has "
                "no order: give them as a list"
            )
        if len(values) > len(names):
            raise IndexError(
                f"row {number} of the batch has {len(values)} columns, and column_names names {len(names)}: "
                f"{list(names)!s:.200}"
            )
        return names

    __len__ = same_length
