"""save_to_disk: write files, completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgumentType
from datapipes.iter.files.contents import pair_of, put
from datapipes.messages.short import shortened
from datapipes.operator_support.checks import needs, needs_callable, same_length
from datapipes.position.on_error import Tolerant
from datapipes.position.steps import Step

MODES = ("w", "wt", "wb", "a", "at", "ab", "t", "b")


@operator
class Saver(Tolerant, IterDataPipe[str]):
    """The path of the file written for each ``(name, data)``; files are written completely or not at all.

    Data is bytes, text (written as UTF-8), an open stream, which is closed, or an iterable of pieces. A file appears in
    one step when all of it is written. Missing folders are made.

    Args:
        mode: ``"w"`` replaces a file, ``"a"`` appends to it by way of a copy. With a ``b`` the data must be bytes,
            otherwise text; ``"b"`` and ``"t"`` alone replace.
        filepath_fn: A function of the name that returns the path. ``None``: the name is the path.

    >>> import os, tempfile
    >>> from datapipes.iter import IterableWrapper
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dp = IterableWrapper([("a.txt", "one")]).save_to_disk("w", lambda name: os.path.join(folder, name))
    ...     [os.path.basename(path) for path in dp], os.listdir(folder)
    (['a.txt'], ['a.txt'])
    """

    _fluent: ClassVar[str | None] = "save_to_disk"

    source_datapipe: IterDataPipe[tuple[Any, Any]]
    mode: str = "w"
    filepath_fn: Callable[[Any], str] | None = None

    def __post_init__(self) -> None:
        needs_callable("save_to_disk", self.filepath_fn, or_none=True)
        needs(self.mode in MODES, self, f"Invalid mode {self.mode!r}: choose one of {', '.join(MODES)}")
        super().__post_init__()

    def _step(self) -> Step:
        mode, source = writing_mode(self.mode), self.filepath_fn or "save_to_disk"
        return saving(self, lambda path, data: put(as_path(path, source), mode, data))

    __len__ = same_length


def saving(pipe: Any, write: Callable[[Any, Any], object]) -> Step:
    """Return the step of stages that save: write each pair's data to a path, and hand on the path."""
    method, name_of = pipe._fluent, pipe.filepath_fn

    def saved(element: Any) -> Any:
        name, data = pair_of(element, method)
        path = name if name_of is None else name_of(name)
        write(path, data)
        StreamWrapper.close_streams(data)
        return path

    return Step("map", saved)


def writing_mode(mode: str) -> str:
    """Return a user's mode with the ``w`` that may be missing."""
    return mode if mode[0] in "wa" else f"w{mode}"


def as_path(path: Any, source: object) -> str:
    """Return a path as a string. Raise BadArgumentType for other types."""
    if not isinstance(path, str | os.PathLike):
        raise BadArgumentType(f"expected a path as str from {source}, got {type(path).__name__}: {shortened(path)}")
    found = os.fspath(path)
    return found if isinstance(found, str) else os.fsdecode(found)
