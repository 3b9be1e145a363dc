"""parse_csv, parse_csv_as_dict: rows of CSV streams, at the speed of the csv module.

What this file keeps true: no text is lost or misread without an error, and an error names the file and the line. The
csv module by itself takes NUL bytes for text, and the rest of a file for one field if a quote is never closed. What no
reader of CSV can tell is a file that was cut off within its last field or right behind a row.
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
from datapipes.operators.checks import check_options, needs, needs_count
from datapipes.operators.flattening import Flattening, Parts
from datapipes.position.on_error import OnError, check_policy

Ragged = Literal["keep", "error"]

_DIALECT = (
    *("dialect", "delimiter", "quotechar", "escapechar", "doublequote", "skipinitialspace", "lineterminator"),
    *("quoting", "strict"),
)
_DICTS = ("fieldnames", "restkey", "restval")
_LINES = 256  # looked through at once for NUL bytes, when a file has been read for a while
_END = sys.maxsize - 1


@operator
class CSVParser(Flattening[Any]):
    """The rows of each CSV file, ``(path, stream)``, as lists or tuples of strings.

    NUL bytes and a quote that is never closed are errors.

    Args:
        skip_lines: How many lines are passed over at the beginning of each file.
        decode: Whether bytes become text. ``False`` is for text streams; bytes are an error then.
        encoding: The encoding of what is decoded.
        errors: What becomes of bytes that cannot be decoded: ``"strict"`` is an error, ``"ignore"`` drops them
            (torchdata did so by default), or anything else that ``bytes.decode`` takes.
        return_path: Whether each row is handed on as ``(path, row)``.
        as_tuple: Whether rows are tuples, and not lists.
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

    def _inner(self, element: Any) -> Parts[Any]:
        path, stream = lines_of(element, str(self._fluent))
        source = source_of(stream, self.skip_lines, self.encoding if self.decode else None, self.errors)
        rows = _Rows(named(path), source, self.skip_lines, self._format())
        try:
            rows.elements = self._shaped(rows.elements)
        except Exception as error:  # that of a header, without which there are no rows
            rows.locate(error)
            raise
        if self.return_path:
            rows.elements = zip(repeat(path), rows.elements)
        return rows

    def _format(self) -> dict[str, Any]:
        """The format parameters for ``csv.reader``."""
        return self.fmtparams

    def _shaped(self, rows: Iterator[list[Any]]) -> Iterator[Any]:
        if self.ragged == "error":
            rows = map(_even(), rows)
        return map(tuple, rows) if self.as_tuple else rows


@operator
class CSVDictParser(CSVParser):
    """The rows of each CSV file, ``(path, stream)``, as dicts by column; the first line names the columns.

    Blank lines are passed over. NUL bytes and a quote that is never closed are errors. If the header names a column
    twice, the last one counts, as in ``csv.DictReader``.

    Args:
        skip_lines: How many lines are passed over at the beginning of each file, before the header.
        decode: Whether bytes become text. ``False`` is for text streams; bytes are an error then.
        encoding: The encoding of what is decoded.
        errors: What becomes of bytes that cannot be decoded: ``"strict"`` is an error, ``"ignore"`` drops them
            (torchdata did so by default), or anything else that ``bytes.decode`` takes.
        return_path: Whether each row is handed on as ``(path, row)``.
        ragged: What becomes of a row that is shorter or longer than the header: ``"error"`` refuses it, ``"keep"``
            fills it up as ``csv.DictReader`` does (torchdata did so by default). ``None``: it is refused, unless one of
            the keywords below is for it.
        **fmtparams: The format, as ``parse_csv`` takes it, and three of ``csv.DictReader``: ``restval`` is put for what
            a row lacks, and what it has too much is a list under ``restkey``; either has such rows kept.
            ``fieldnames`` names the columns in place of the first line. It may name the first ones only: the rest of a
            row is then a list under None, unless ``ragged="error"`` is said.

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
    """Hand on rows that are as long as the first, or blank."""
    width = 0

    def checked(row: list[Any]) -> list[Any]:
        nonlocal width
        if len(row) != width and row:
            if width:
                raise csv.Error(f"{len(row)} fields in a row, and the first row has {width}")
            width = len(row)
        return row

    return checked


def _named(names: list[Any], may_go_on: bool) -> Callable[[list[Any]], dict[Any, Any]]:
    """Rows as dicts; each must have a field for every name, and may have more if it ``may_go_on``."""
    filled = _filled(names, None, None)

    def as_dict(row: list[Any]) -> dict[Any, Any]:
        if len(row) == len(names):
            return dict(zip(names, row, strict=True))
        if may_go_on and len(row) > len(names):
            return filled(row)
        raise csv.Error(f"{len(row)} fields in a row, and the header has {len(names)}")

    return as_dict


def _filled(names: list[Any], restkey: Any, restval: Any) -> Callable[[list[Any]], dict[Any, Any]]:
    """Rows as dicts; what is missing is ``restval``, and what is too much is a list under ``restkey``."""

    def as_dict(row: list[Any]) -> dict[Any, Any]:
        filled = dict(zip_longest(names, row[: len(names)], fillvalue=restval))
        if len(row) > len(names):
            filled[restkey] = row[len(names) :]
        return filled

    return as_dict


class _Rows(Parts[Any]):
    """The rows of one file; a line that cannot be used is an error, and costs the row that it is part of."""

    def __init__(self, file: str, source: LineSource, skip_lines: int, fmtparams: dict[str, Any]) -> None:
        self._file = file
        self._source = source
        self._before = skip_lines  # how many lines the reader does not know of: those, and what was bad
        self._last = ""
        self._marks = iter(range(1, sys.maxsize))
        self._reader = csv.reader(chain.from_iterable(self._blocks()), **fmtparams)
        self.elements: Iterator[Any] = compress(self._reader, self._marks)

    def __iter__(self) -> Iterator[Any]:
        return self.elements

    def locate(self, error: Exception) -> None:
        located(error, f"{self._file}, line {self._before + self._reader.line_num}")

    def _blocks(self) -> Iterator[Iterable[str]]:
        """The lines, many at once, which are looked through at once; an iterator that raises stands for a bad one."""
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
        raise failure.pop()  # a frame that kept it would be part of a cycle, and keep the file open

    def _end(self) -> Iterator[str]:
        """Find out whether the file ends within a row.

        After a blank line the reader is done, unless it is within quotes: then it asks for more. The row of the blank
        line is not handed on, because there is no mark to go with it.
        """
        escape = self._reader.dialect.escapechar
        if escape and (len(self._last) - len(self._last.rstrip(escape))) % 2:
            raise csv.Error("the file ends with an escape character that nothing follows")
        self._marks.__setstate__(_END)  # type: ignore[attr-defined]  # the iterator of a range has it
        self._before -= 1
        yield ""
        raise csv.Error("the file ends within quotes that were opened and never closed")


def _has_nul(lines: list[Any]) -> bool:
    """Whether a NUL is in any of these lines; where they are not text, the reader says so."""
    try:
        return "\0" in "".join(lines)
    except TypeError:
        return False
