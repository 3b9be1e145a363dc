"""Plain aligned tables of figures, some of which are required.

A row either has figures or says why it has none; a table never drops a row. A requirement that is not shown to hold is
missed, except where the contender it speaks of is not installed: the table says so, and the requirement counts as kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True)
class Row:
    """Cells under the table's columns, then what is required and whether it was reached (`None`: cannot be told)."""

    cells: Sequence[str]
    required: str = ""
    reached: bool | None = None
    remark: str = ""

    @property
    def missed(self) -> bool:
        return self.reached is False

    @property
    def verdict(self) -> str:
        if self.reached is None:
            return ""
        return "reached" if self.reached else "MISSED"


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    @property
    def missed(self) -> int:
        return sum(row.missed for row in self.rows)

    def render(self) -> str:
        lines = [(*self.columns, "required", "")]
        lines += [
            (*row.cells, *[""] * (len(self.columns) - len(row.cells)), row.required, row.verdict) for row in self.rows
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        remarks = ["", *(row.remark for row in self.rows)]
        body = [
            "  ".join([*map(_aligned, line, widths, range(len(line))), remark]).rstrip()
            for line, remark in zip_longest(lines, remarks, fillvalue="")
        ]
        return "\n".join([self.title, "-" * len(self.title), *body, *(f"  {note}" for note in self.notes), ""])


def _aligned(cell: str, width: int, position: int) -> str:
    # The first column names the row; figures stand right under one another.
    return cell.ljust(width) if position == 0 else cell.rjust(width)
