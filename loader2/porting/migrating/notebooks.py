"""Old names in notebooks: all code cells are one program. Only changed lines of code change in the file.

A notebook is JSON. It is read as tokens with their places in the text, because writing it again would change its
layout. Lines that are not Python (``%matplotlib inline``, ``!pip install x``, ``dp?``) are left out while the code is
read.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from loader2.porting.migrating.notes import Note

_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_MAGIC: Final = re.compile(r"\s*(?:[%!?]|[\w.]+\?\??\s*$|[\w, ]+=\s*[%!])")
_TIMING: Final = re.compile(r"%%(?:time|timeit|capture|prun)\b")
"""Magics of a whole cell whose other lines are Python."""
_BETWEEN: Final = "# <the next cell of a notebook>"


@dataclass
class _NotebookCode:
    """Code cell: its number among all cells, and the tokens of its source."""

    number: int
    tokens: list[re.Match[str]] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """The source by lines, each with its end."""
        return _lines("".join(json.loads(token[0]) for token in self.tokens))


def migrated(source: bytes) -> tuple[bytes, list[Note]]:
    """Return a notebook with new names, and notes. Raise ValueError if it is not JSON.

    >>> cell = b'{"cells": [{"cell_type": "code", "source": ["%time\\\\n", "import poptorch"]}]}'
    >>> migrated(cell)[0]
    b'{"cells": [{"cell_type": "code", "source": ["%time\\\\n", "import reading_services.ipu as poptorch"]}]}'
    """
    from loader2.porting.migrating import programs

    text = source.decode()
    book = json.loads(text)
    if not isinstance(book, dict) or "cells" not in book:
        return source, [Note(1, "a notebook of a format before 4 is left: save it in format 4, and migrate it again")]
    if _language(book) not in (None, "python"):
        return source, []
    notes: list[Note] = []
    cells: list[_NotebookCode] = []
    codes: list[list[str]] = []  # the lines of each cell, with placeholders for its magic lines
    magics: list[list[str]] = []
    for cell in _code_cells(text):
        python = _python(cell.lines)
        if python is None:
            line = text.count("\n", 0, cell.tokens[0].start()) + 1
            notes.append(Note(line, f"cell {cell.number} cannot be read as Python and is left"))
            continue
        cells.append(cell)
        codes.append(python[0])
        magics.append(python[1])
    if not cells:
        return source, notes
    joined = f"{_BETWEEN}\n".join("".join(lines) for lines in codes)
    after, found = programs.migrated(joined.encode())
    notes += (_placed(note, cells, codes, text) for note in found)
    edits: list[tuple[int, int, str]] = []
    for cell, hidden, code in zip(cells, magics, after.decode().split(f"{_BETWEEN}\n"), strict=True):
        edits += _edit(cell, _shown(code, hidden), text)
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text.encode(), notes


def _language(book: dict[str, Any]) -> Any:
    """Return the language of a notebook's cells, or None if the notebook does not name it."""
    found: Any = book
    for key in ("metadata", "language_info", "name"):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _code_cells(text: str) -> Iterator[_NotebookCode]:
    """Return the code cells that have a source, in their order."""
    path: list[str | int] = []  # the keys and indices that lead to the next value
    cells: dict[int, _NotebookCode] = {}
    kinds: dict[int, str] = {}
    is_key = False
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{":
                path.append("")
                is_key = True
            case "[":
                path.append(0)
            case "}" | "]":
                path.pop()
            case ",":
                is_key = isinstance(path[-1], str)
                path[-1] = "" if isinstance(path[-1], str) else path[-1] + 1
            case ":":
                is_key = False
            case value if is_key:
                path[-1] = json.loads(value)
            case value:
                match path:
                    case ["cells", int(number), "cell_type"]:
                        kinds[number] = json.loads(value)
                    case ["cells", int(number), "source", *_] if value.startswith('"'):
                        cells.setdefault(number, _NotebookCode(number)).tokens.append(token)
    return (cell for number, cell in sorted(cells.items()) if kinds.get(number) == "code")


def _python(lines: list[str]) -> tuple[list[str], list[str]] | None:
    """Return a cell's lines with placeholders for magic ones, and these ones. Return None if it is not Python."""
    lines = [*lines[:-1], lines[-1].removesuffix("\n") + "\n"] if lines else lines
    if _is_python(lines):
        return lines, []
    magics: list[str] = []
    plain: list[str] = []
    whole = bool(lines) and lines[0].startswith("%%") and _TIMING.match(lines[0]) is None
    indent, goes_on = "", False
    for line in lines:
        if whole or goes_on or _MAGIC.match(line):
            if not (whole or goes_on):
                indent = line[: len(line) - len(line.lstrip())]
            goes_on = line.rstrip().endswith("\\")
            plain.append(f"{indent}pass  # magic {len(magics)}\n")
            magics.append(line)
        else:
            plain.append(line)
    return (plain, magics) if _is_python(plain) else None


def _is_python(lines: Sequence[str]) -> bool:
    with warnings.catch_warnings(action="ignore"):  # for escapes in strings
        try:
            ast.parse("".join(lines))
        except (SyntaxError, ValueError):
            return False
    return True


def _shown(code: str, magics: list[str]) -> list[str]:
    """Return the lines of a cell with its magic lines restored."""
    return _lines(
        re.sub(r"^[ \t]*pass  # magic (\d+)\n", lambda found: magics[int(found[1])], code, flags=re.MULTILINE)
    )


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _edit(cell: _NotebookCode, lines: list[str], text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the piece of the file to replace, with its replacement. Yield nothing if the cell is unchanged."""
    before = cell.lines
    if before and not before[-1].endswith("\n") and lines:
        lines = [*lines[:-1], lines[-1].removesuffix("\n")]
    if lines == before:
        return
    first, last = cell.tokens[0], cell.tokens[-1]
    ascii_only = text.isascii()

    def quoted(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_only)

    in_list = text[: first.start()].rstrip().endswith("[")
    if not in_list:
        yield first.start(), last.end(), quoted("".join(lines))
        return
    raw = {json.loads(token[0]): token[0] for token in cell.tokens}
    gap = text[first.end() : cell.tokens[1].start()] if len(cell.tokens) > 1 else None
    if gap is None:
        indent = re.search(r"\s*$", text[: first.start()])
        gap = "," + (indent[0] if indent and indent[0] else " ")
    yield first.start(), last.end(), gap.join(raw.get(line) or quoted(line) for line in lines)


def _placed(note: Note, cells: list[_NotebookCode], codes: list[list[str]], text: str) -> Note:
    """Return a note on a line of the joined program as a note on the line of the file."""
    line = note.line - 1
    for cell, code in zip(cells, codes, strict=True):
        if line < len(code):
            token = cell.tokens[min(line, len(cell.tokens) - 1)]
            return Note(text.count("\n", 0, token.start()) + 1, f"cell {cell.number}: {note.text}")
        line -= len(code) + 1
    return Note(1, note.text)
