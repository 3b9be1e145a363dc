"""parse_json_files, parse_jsonl: JSON documents, one for each file or one on each line.

A document that cannot be read is an error of the json module's type, which names its file and line. A file of lines
that was cut off directly after a line looks complete: it does not contain the number of lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import chain, filterfalse, islice, repeat
from operator import methodcaller
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import CorruptData
from datapipes.io.fast import fast_library
from datapipes.iter.files.contents import lines_of, stream_of
from datapipes.iter.files.lines import CountedLines
from datapipes.iter.formats.json_by_orjson import LineBlocks, decoder
from datapipes.messages.file_errors import located, named
from datapipes.operator_support.checks import check_options, same_length
from datapipes.operator_support.flattening import Flattening, Pieces
from datapipes.position.cells import Counted
from datapipes.position.on_error import OnError, check_policy
from datapipes.position.steps import Step

# Options of json.loads; a decoder given as ``cls`` may take others.
_KNOWN = ("cls", "object_hook", "object_pairs_hook", "parse_constant", "parse_float", "parse_int", "strict")


@operator
class JsonParser(IterDataPipe[tuple[str, Any]]):
    """``(path, data)`` for each JSON file, ``(path, stream)``, which is read as one document and closed.

    Args:
        **kwargs: Options of ``json.loads``, such as ``parse_float`` and ``object_hook``. With a decoder, ``cls``, it
            gets all others.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a.json", io.StringIO('{"x": 1}'))], deepcopy=False).parse_json_files())
    [('a.json', {'x': 1})]
    """

    _fluent: ClassVar[str | None] = "parse_json_files"

    source_datapipe: IterDataPipe[tuple[str, Any]]

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[str, Any]],
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> None:
        self.source_datapipe = source_datapipe
        self.on_error = on_error
        self.max_errors = max_errors
        self.kwargs = kwargs
        check_policy(self)
        check_options(self, kwargs, None if "cls" in kwargs else _KNOWN)

    def _step(self) -> Step:
        return Step("map", self._parsed)

    def _parsed(self, element: tuple[str, Any]) -> tuple[str, Any]:
        path, stream = stream_of(element, "parse_json_files")
        try:
            return path, loads(stream.read(), self.kwargs)
        except Exception as error:
            located(error, named(path))
            raise
        finally:
            StreamWrapper.close_streams(stream)

    __len__ = same_length


@operator
class JsonLinesParser(Flattening[Any]):
    """``(path, data)`` for each line of each JSON Lines file, ``(path, stream)``; blank lines are skipped.

    Without options, lines are decoded by orjson if it is installed (``loader2[fast]``), with the values and errors of
    the json module.

    Args:
        return_path: Whether to give the path with the data of each line.
        **kwargs: Options of ``json.loads``, such as ``parse_float`` and ``object_hook``. With a decoder, ``cls``, it
            gets all others.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> file = io.StringIO('{"x": 1}\\n{"x": 2}\\n')
    >>> list(IterableWrapper([("a.jsonl", file)], deepcopy=False).parse_jsonl(return_path=False))
    [{'x': 1}, {'x': 2}]
    """

    _fluent: ClassVar[str | None] = "parse_jsonl"

    source_datapipe: IterDataPipe[tuple[str, Any]]

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[str, Any]],
        *,
        return_path: bool = True,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> None:
        self.source_datapipe = source_datapipe
        self.return_path = return_path
        self.on_error = on_error
        self.max_errors = max_errors
        self.kwargs = kwargs
        check_policy(self)
        check_options(self, kwargs, None if "cls" in kwargs else _KNOWN)

    def _inner_of_opening(self) -> Callable[[Any], Pieces[Any]]:
        return partial(self._documents, None if self.kwargs else fast_library("orjson"))

    def _documents(self, orjson: Any, element: Any) -> Pieces[Any]:
        path, stream = lines_of(element, "parse_jsonl")
        return _Documents(path, stream, self.return_path, self.kwargs, orjson)


class _Documents(CountedLines):
    """Documents of one file; it continues after a line that cannot be read."""

    def __init__(self, path: Any, stream: Any, return_path: bool, options: dict[str, Any], orjson: Any) -> None:
        blocks = LineBlocks(stream) if orjson is not None and LineBlocks.fit(stream) else None
        super().__init__(path, stream if blocks is None else chain.from_iterable(blocks))
        self._sound = filterfalse(methodcaller("isspace"), self.elements)
        by_json = partial(loads, options=options)
        self.elements = map(by_json if orjson is None else decoder(orjson, blocks, by_json), self._sound)
        if return_path:
            self.elements = zip(repeat(path), self.elements)

    def skip(self, given: int) -> int:
        passed = Counted(islice(self._sound, given))
        try:
            for _ in passed.elements:
                pass
        except UnicodeDecodeError:  # of a text stream: it was raised before, and the stream has ended with it
            return passed.taken + 1
        return passed.taken


def loads(text: str | bytes, options: dict[str, Any]) -> Any:
    """Call ``json.loads`` on untrusted data. Raise CorruptData for data that is nested too deep."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise CorruptData("nested too deep") from None
