"""parse_csv, parse_csv_as_dict: rows of CSV streams, at the speed of the csv module.

No text is lost or misread without an error, and an error names the file and the line. The csv module alone accepts NUL
bytes as text, and reads the rest of a file as one field if a quote is never closed. No reader of CSV can detect a file
that was cut off within its last field or directly after a row.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress, islice, repeat, zip_longest
from typing import Any, ClassVar, Literal

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.iter.files.contents import lines_of
from datapipes.iter.files.lines import LineSource, source_of
from datapipes.messages.file_errors import located, named
from datapipes.operator_support.checks import check_options, needs, needs_count
from datapipes.operator_support.flattening import Flattening, Pieces
from datapipes.position.on_error import OnError, check_policy

Ragged = Literal["keep", "error"]

_DIALECT = (
    *("dialect", "delimiter", "quotechar", "escapechar", "doublequote", "skipinitialspace", "lineterminator"),
    *("quoting", "strict"),
)
_DICTS = ("fieldnames", "restkey", "restval")
_LINES = 256  # lines checked at once for NUL bytes, after the beginning of a file
_END = sys.maxsize - 1


@operator
class CSVParser(Flattening[Any]):
    """The rows of each CSV file, ``(path, stream)``, as lists or tuples of strings.

    NUL bytes and a quote that is never closed are errors.

    Args:
        skip_lines: Number of lines to skip at the beginning of each file.
        decode: Whether to decode bytes. ``False`` is for text streams; bytes are then an error.
        encoding: The encoding to decode.
        errors: Policy for bytes that cannot be decoded: ``"strict"`` raises, ``"ignore"`` drops them; any other value
            that ``bytes.decode`` takes is possible.
        return_path: Whether to give each row as ``(path, row)``.
        as_tuple: Whether rows are tuples instead of lists.
        ragged: ``"error"`` refuses a row that is shorter or longer than the first of its file, unless it is blank.
            ``"keep"`` or ``None`` hands it on.
        **fmtparams: The format, as ``csv.reader`` takes it: ``delimiter``, ``quotechar``, ``escapechar``,
            ``doublequote``, ``skipinitialspace``, ``quoting``, ``strict``, ``dialect``.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a.csv", io.StringIO("1,2\\n3,4\\n"))], deepcopy=False).parse_csv())
    [['1', '2'], ['3', '4']]
    """

    _fluent: ClassVar[str | None] = "parse_csv"
    _known: ClassVar[tuple[str, ...]] = _DIALECT

    source_datapipe: IterDataPipe[tuple[str, Any]]

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[str, Any]],
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "strict",
        return_path: bool = False,
        as_tuple: bool = False,
        ragged: Ragged | None = "keep",
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **fmtparams: Any,
    ) -> None:
        self.source_datapipe = source_datapipe
        self.skip_lines = skip_lines
        self.decode = decode
        self.encoding = encoding
        self.errors = errors
        self.return_path = return_path
        self.as_tuple = as_tuple
        self.ragged = ragged
        self.on_error = on_error
        self.max_errors = max_errors
        self.fmtparams = fmtparams
        check_policy(self)
        check_options(self, fmtparams, self._known)
        needs_count(self, "skip_lines", 0, "'skip_lines' is required to be a positive integer")
        needs(ragged in ("keep", "error", None), self, f"ragged must be 'keep' or 'error', got {ragged!r:.60}")

    def _inner(self, element: Any) -> Pieces[Any]:
        path, stream = lines_of(element, str(self._fluent))
        source = source_of(stream, self.skip_lines, self.encoding if self.decode else None, self.errors)
        rows = _CSVRows(named(path), source, self.skip_lines, self._format())
        try:
            rows.elements = self._shaped(rows.elements)
        except Exception as error:  # an error in the header, without which there are no rows
            rows.locate(error)
            raise
        if self.return_path:
            rows.elements = zip(repeat(path), rows.elements)
        return rows

    def _format(self) -> dict[str, Any]:
        """Return the format parameters for ``csv.reader``."""
        return self.fmtparams

    def _shaped(self, rows: Iterator[list[Any]]) -> Iterator[Any]:
        if self.ragged == "error":
            rows = map(_even(), rows)
        return map(tuple, rows) if self.as_tuple else rows


@operator
class CSVDictParser(CSVParser):
    """The rows of each CSV file, ``(path, stream)``, as dicts by column; the first line names the columns.

    Blank lines are skipped. NUL bytes and a quote that is never closed are errors. If the header names a column twice,
    the last one counts, as in ``csv.DictReader``.

    Args:
        skip_lines: Number of lines to skip at the beginning of each file, before the header.
        decode: Whether to decode bytes. ``False`` is for text streams; bytes are then an error.
        encoding: The encoding to decode.
        errors: Policy for bytes that cannot be decoded: ``"strict"`` raises, ``"ignore"`` drops them; any other value
            that ``bytes.decode`` takes is possible.
        return_path: Whether to give each row as ``(path, row)``.
        ragged: Policy for a row that is shorter or longer than the header: ``"error"`` refuses it, ``"keep"`` fills it
            up as ``csv.DictReader`` does. ``None``: refused, unless one of the keywords below allows it.
        **fmtparams: The format, as in ``parse_csv``, and three parameters of ``csv.DictReader``. ``restval`` replaces
            missing fields, and extra fields are a list under ``restkey``; with either, such rows are kept.
            ``fieldnames`` names the columns instead of the first line. It may name only the first ones: the rest of a
            row is then a list under None, unless ``ragged="error"``.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a.csv", io.StringIO("x,y\\n3,4\\n"))], deepcopy=False).parse_csv_as_dict())
    [{'x': '3', 'y': '4'}]
    """

    _fluent: ClassVar[str | None] = "parse_csv_as_dict"
    _known: ClassVar[tuple[str, ...]] = (*_DICTS, *_DIALECT)

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[str, Any]],
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "strict",
        return_path: bool = False,
        ragged: Ragged | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **fmtparams: Any,
    ) -> None:
        super().__init__(
            source_datapipe,
            skip_lines=skip_lines,
            decode=decode,
            encoding=encoding,
            errors=errors,
            return_path=return_path,
            ragged=ragged,
            on_error=on_error,
            max_errors=max_errors,
            **fmtparams,
        )

    def _format(self) -> dict[str, Any]:
        return {name: value for name, value in self.fmtparams.items() if name not in _DICTS}

    def _shaped(self, rows: Iterator[list[Any]]) -> Iterator[Any]:
        rows = filter(None, rows)
        given = self.fmtparams.get("fieldnames")
        names = next(rows, None) if given is None else list(given)
        if names is None:
            return iter(())  # a file without any rows
        if self.ragged == "keep" or not self.fmtparams.keys().isdisjoint(("restkey", "restval")):
            return map(_filled(names, self.fmtparams.get("restkey"), self.fmtparams.get("restval")), rows)
        return map(_named(names, may_go_on=given is not None and self.ragged is None), rows)


def _even() -> Callable[[list[Any]], list[Any]]:
    """Return a function that refuses rows of another length than the first, unless they are blank."""
    width = 0

    def checked(row: list[Any]) -> list[Any]:
        nonlocal width
        if len(row) != width and row:
            if width:
                raise csv.Error(f"{len(row)} fields in a row, but the first row has {width}")
            width = len(row)
        return row

    return checked


def _named(names: list[Any], may_go_on: bool) -> Callable[[list[Any]], dict[Any, Any]]:
    """Return a function that makes a dict of a row with a field for each name; ``may_go_on``: or with more fields."""
    filled = _filled(names, None, None)

    def as_dict(row: list[Any]) -> dict[Any, Any]:
        if len(row) == len(names):
            return dict(zip(names, row, strict=True))
        if may_go_on and len(row) > len(names):
            return filled(row)
        raise csv.Error(f"{len(row)} fields in a row, but the header has {len(names)}")

    return as_dict


def _filled(names: list[Any], restkey: Any, restval: Any) -> Callable[[list[Any]], dict[Any, Any]]:
    """Return a function that makes a dict of a row: ``restval`` fills it up, and ``restkey`` has the list of extras."""

    def as_dict(row: list[Any]) -> dict[Any, Any]:
        filled = dict(zip_longest(names, row[: len(names)], fillvalue=restval))
        if len(row) > len(names):
            filled[restkey] = row[len(names) :]
        return filled

    return as_dict


class _CSVRows(Pieces[Any]):
    """Rows of one file. A line that cannot be used is an error, and costs its whole row."""

    def __init__(self, file: str, source: LineSource, skip_lines: int, fmtparams: dict[str, Any]) -> None:
        self._file = file
        self._source = source
        self._before = skip_lines  # lines that the csv reader did not count: skipped and bad ones
        self._last = ""
        self._marks = iter(range(1, sys.maxsize))
        self._reader = csv.reader(chain.from_iterable(self._blocks()), **fmtparams)
        self.elements: Iterator[Any] = compress(self._reader, self._marks)

    def __iter__(self) -> Iterator[Any]:
        return self.elements

    def locate(self, error: Exception) -> None:
        located(error, f"{self._file}, line {self._before + self._reader.line_num}")

    def _blocks(self) -> Iterator[Iterable[str]]:
        """Yield the lines in blocks that are checked at once. An iterator that raises replaces a bad line."""
        size, lines = 1, self._source.decoded(self._source.lines)
        going_on = True
        while going_on:
            block: list[str] = []
            failure: list[Exception] = []
            try:
                block.extend(islice(lines, size))
                going_on = len(block) == size
            except Exception as error:
                going_on = isinstance(error, UnicodeDecodeError) and self._source.one_by_one
                failure.append(error)
            yield map(self._without_nul, block) if _has_nul(block) else block
            self._last = block[-1] if block else self._last
            if failure:
                yield self._failing(failure)
            size = min(2 * size, _LINES)
        yield self._end()

    def _without_nul(self, line: str) -> str:
        if "\0" in line:
            self._before += 1
            raise csv.Error("line contains NUL")
        return line

    def _failing(self, failure: list[Exception]) -> Iterator[str]:
        yield from ()
        self._before += 1
        raise failure.pop()  # otherwise this frame would be part of a cycle, and keep the file open

    def _end(self) -> Iterator[str]:
        """Raise if the file ends within a row.

        After a blank line the reader is done, unless it is within quotes: then it requests more. The row of the blank
        line is dropped, because the marks have ended.
        """
        escape = self._reader.dialect.escapechar
        if escape and (len(self._last) - len(self._last.rstrip(escape))) % 2:
            raise csv.Error("the file ends with an escape character that escapes nothing")
        self._marks.__setstate__(_END)  # type: ignore[attr-defined]  # the iterator of a range has it
        self._before -= 1
        yield ""
        raise csv.Error("the file ends within quotes that were opened and never closed")


def _has_nul(lines: list[Any]) -> bool:
    """Return whether one of these lines has a NUL. If they are not text, the csv reader raises."""
    try:
        return "\0" in "".join(lines)
    except TypeError:
        return False
