"""parse_csv, parse_csv_as_dict: rows of CSV streams, at the speed of the csv module."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, ClassVar

from datapipes.checks import needs
from datapipes.flattening import Flattening
from datapipes.iter.files.lines import decoded_lines, is_binary, lines_of
from datapipes.on_error import OnError, check_policy
from datapipes.pipe import IterDataPipe


class CSVParser(Flattening[Any]):
    """The rows of each ``(path, stream)``, as lists or tuples of strings.

    Undecodable bytes are an error; ``errors="ignore"`` drops them (torchdata did so by default). Other keyword
    arguments go to ``csv.reader``.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a.csv", io.StringIO("1,2\\n3,4\\n"))], deepcopy=False).parse_csv())
    [['1', '2'], ['3', '4']]
    """

    _fluent: ClassVar[str | None] = "parse_csv"

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
        self.fmtparams = fmtparams
        self.on_error = on_error
        self.max_errors = max_errors
        check_policy(self)
        needs(skip_lines >= 0, self, "'skip_lines' is required to be a positive integer")

    def _sources(self) -> tuple[IterDataPipe[Any]]:
        return (self.source_datapipe,)

    def _rows(self, lines: Iterator[str]) -> Iterator[Any]:
        rows = csv.reader(lines, **self.fmtparams)
        return map(tuple, rows) if self.as_tuple else rows

    def _inner(self, element: Any) -> Iterable[Any]:
        path, stream = element
        rows = self._rows(
            decoded_lines(stream, self.skip_lines, self.encoding, self.errors)
            if self.decode and is_binary(stream)
            else lines_of(stream, self.skip_lines)
        )
        return zip(repeat(path), rows) if self.return_path else rows


class CSVDictParser(CSVParser):
    """The rows of each ``(path, stream)`` as dicts; the first line, or ``fieldnames=``, names the columns.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a.csv", io.StringIO("x,y\\n3,4\\n"))], deepcopy=False).parse_csv_as_dict())
    [{'x': '3', 'y': '4'}]
    """

    _fluent: ClassVar[str | None] = "parse_csv_as_dict"

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[str, Any]],
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "strict",
        return_path: bool = False,
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
            on_error=on_error,
            max_errors=max_errors,
            **fmtparams,
        )

    def _rows(self, lines: Iterator[str]) -> Iterator[Any]:
        return csv.DictReader(lines, **self.fmtparams)
