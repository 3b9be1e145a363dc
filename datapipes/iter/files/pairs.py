"""Pairs of a name and data or a stream, as stages that read and write files take them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from datapipes.errors import BadArgumentType
from datapipes.messages.short import shortened


def pair_of(element: Any, method: str) -> tuple[Any, Any]:
    """The name and the data of an element."""
    if not isinstance(element, tuple | list) or len(element) != 2:
        raise BadArgumentType(f"{method}() needs pairs of a name and its data, got {shortened(element)}")
    name, data = element
    return name, data


def stream_of(element: Any, method: str) -> tuple[Any, Any]:
    """The name and the open file of an element.

    >>> stream_of("a.json", "parse_json_files")
    Traceback (most recent call last):
    datapipes.errors.BadArgumentType: parse_json_files() needs pairs of a path and an open file, got 'a.json': ...
    """
    return _opened(element, method, lambda stream: hasattr(stream, "read"))


def lines_of(element: Any, method: str) -> tuple[Any, Any]:
    """The name of an element, and its open file or any other iterable of lines."""
    return _opened(element, method, lambda lines: isinstance(lines, Iterable) and not isinstance(lines, str | bytes))


def _opened(element: Any, method: str, is_open: Any) -> tuple[Any, Any]:
    if isinstance(element, tuple | list) and len(element) == 2 and is_open(element[1]):
        path, stream = element
        return path, stream
    raise BadArgumentType(
        f"{method}() needs pairs of a path and an open file, got {shortened(element)}: open files by open_files()"
    )
