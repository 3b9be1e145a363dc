"""Methods that find, open and read files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe
    from datapipes.elements.streams import StreamWrapper
    from datapipes.iter.formats.csv import Ragged
    from datapipes.position.on_error import OnError

T_co = TypeVar("T_co", covariant=True)


class FileMethods(Generic[T_co]):
    """list_files, open_files, readlines, parse_csv, parse_csv_as_dict."""

    def list_files(
        self,
        masks: str | Sequence[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[str]:
        """The files of each folder whose names match ``masks``.

        >>> import os
        >>> from datapipes.iter import IterableWrapper
        >>> [os.path.basename(name) for name in IterableWrapper([os.path.dirname(__file__)]).list_files("fi*.py")]
        ['files.py']
        """
        from datapipes.iter.files.listing import FileLister

        return FileLister(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            masks,
            recursive=recursive,
            abspath=abspath,
            non_deterministic=non_deterministic,
            length=length,
            on_error=on_error,
            max_errors=max_errors,
        )

    def open_files(
        self,
        mode: str = "r",
        encoding: str | None = None,
        length: int = -1,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[tuple[str, StreamWrapper]]:
        """``(path, stream)`` for each path.

        >>> from datapipes.iter import IterableWrapper
        >>> [stream.readline() for _, stream in IterableWrapper([__file__]).open_files("rb")]
        [b'\"\"\"Methods that find, open and read files.\"\"\"\\n']
        """
        from datapipes.iter.files.opening import FileOpener

        return FileOpener(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            mode,
            encoding,
            length,
            on_error=on_error,
            max_errors=max_errors,
        )

    def readlines(
        self,
        *,
        skip_lines: int = 0,
        strip_newline: bool = True,
        decode: bool = False,
        encoding: str = "utf-8",
        errors: str = "strict",
        return_path: bool = True,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[Any]:
        """``(path, line)`` for each line of each ``(path, stream)``.

        >>> from datapipes.iter import IterableWrapper
        >>> next(iter(IterableWrapper([__file__]).open_files().readlines(return_path=False)))
        '\"\"\"Methods that find, open and read files.\"\"\"'
        """
        from datapipes.iter.files.lines import LineReader

        return LineReader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            skip_lines=skip_lines,
            strip_newline=strip_newline,
            decode=decode,
            encoding=encoding,
            errors=errors,
            return_path=return_path,
            on_error=on_error,
            max_errors=max_errors,
        )

    def parse_csv(
        self,
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
    ) -> IterDataPipe[Any]:
        """The rows of each ``(path, stream)``, as lists of strings.

        >>> import io
        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a.csv", io.StringIO("1;2"))], deepcopy=False).parse_csv(delimiter=";"))
        [['1', '2']]
        """
        from datapipes.iter.formats.csv import CSVParser

        return CSVParser(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            skip_lines=skip_lines,
            decode=decode,
            encoding=encoding,
            errors=errors,
            return_path=return_path,
            as_tuple=as_tuple,
            ragged=ragged,
            on_error=on_error,
            max_errors=max_errors,
            **fmtparams,
        )

    def parse_csv_as_dict(
        self,
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
    ) -> IterDataPipe[Any]:
        """The rows of each ``(path, stream)``, as dicts by column.

        >>> import io
        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a.csv", io.StringIO("x\\n1"))], deepcopy=False).parse_csv_as_dict())
        [{'x': '1'}]
        """
        from datapipes.iter.formats.csv import CSVDictParser

        return CSVDictParser(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
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
