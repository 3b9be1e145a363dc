"""Open files that close themselves, and the archives they come from.

A ``StreamWrapper`` owns one open file. The file is closed once: by ``close``, at the end of a ``with`` block
(torchdata 0.9 had none), or when the last reference to the wrapper dies. An iterator over the lines counts as such a
reference, so it can outlive the name of its wrapper. A wrapper around an archive that was marked with ``autoclose`` is
closed as soon as none of the streams taken out of it is open any more, whichever thread closed the last.

A wrapper whose construction failed owns nothing: the class attributes below say so, and destroying it closes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack
from io import BytesIO, IOBase, StringIO
from itertools import chain, repeat
from types import TracebackType
from typing import Any, ClassVar, TypeAlias
from weakref import WeakKeyDictionary

_DEEPEST = 10

Origin: TypeAlias = "tuple[str, tuple[str | int, ...], Origin | None]"
"""The stage that opened a stream, what it needs to open it again, and the origin of what it was taken out of."""


class StreamWrapper:
    """An open file that hands on every attribute of it, and closes it when it is no longer used.

    Args:
        file_obj: The file, or whatever else can be read.
        parent_stream: The archive that the file was taken out of, wrapped as well. If that was marked with
            ``autoclose``, it is closed after the last file out of it.
        name: What the file is called in the wrapper's repr, and in ``session_streams``.

    >>> import io
    >>> with StreamWrapper(io.StringIO("one\\ntwo\\n"), name="numbers.txt") as stream:
    ...     stream.readline(), list(stream)
    ('one\\n', ['two\\n'])
    >>> stream.closed
    True
    """

    debug_unclosed_streams: ClassVar[bool] = False
    """While True, every new wrapper is entered in ``session_streams`` until it is closed."""

    session_streams: ClassVar[MutableMapping[StreamWrapper, str | None]] = WeakKeyDictionary()
    """The wrappers that are open, with their names. Looking at them keeps none alive."""

    file_obj: Any = None
    name: str | None = None
    parent_stream: StreamWrapper | None = None
    closed: bool = True
    close_on_last_child: bool = False
    _origin: Origin | Callable[[], Origin | None] | None = None

    def __init__(self, file_obj: Any, parent_stream: StreamWrapper | None = None, name: str | None = None) -> None:
        if parent_stream is not None and not isinstance(parent_stream, StreamWrapper):
            raise RuntimeError(
                f"StreamWrapper({file_obj!r}): Parent stream should be StreamWrapper, "
                f"but {type(parent_stream).__name__} was given. Wrap the archive first, or leave `parent_stream` out."
            )
        self._open(file_obj)
        self.name = name
        if parent_stream is not None:
            self.parent_stream = parent_stream
            parent_stream._open_children.add(id(self))
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = name

    def _open(self, file_obj: Any) -> None:
        self.file_obj = file_obj
        # Children are known by id, and take themselves out before they die. Unlike a count, a set of ints
        # is safe to change from several threads, and from a destructor that runs in the middle of a change.
        self._open_children: set[int] = set()
        self.closed = False

    @property
    def origin(self) -> Origin | None:
        """Origin of a stream in a stage of a graph, so that a saved position can name it; see ``position.reopening``.

        It may be set to a function that finds it out, for it is asked for rarely.
        """
        if callable(self._origin):
            self._origin = self._origin()
        return self._origin

    @origin.setter
    def origin(self, origin: Origin | Callable[[], Origin | None] | None) -> None:
        self._origin = origin

    @property
    def child_counter(self) -> int:
        """The number of open streams among those that were taken out of this one."""
        return len(self._open_children)

    def close(self) -> None:
        """Close the file, and after the last child of an archive that waits for it, the archive. Once only."""
        if self.closed:
            return
        self.closed = True
        # Asked first, because at the exit of the interpreter the weak dictionary may be past working.
        if self.session_streams:
            self.session_streams.pop(self, None)
        try:
            close = getattr(self.file_obj, "close", None)
            if callable(close):
                close()
        finally:
            parent = self.parent_stream
            if parent is not None:
                parent._open_children.discard(id(self))
                if parent.close_on_last_child and not parent._open_children:
                    parent.close()

    def autoclose(self) -> None:
        """Close when the last child closes: at once if no child is open.

        >>> import io
        >>> archive = StreamWrapper(io.BytesIO())
        >>> member = StreamWrapper(io.BytesIO(), parent_stream=archive)
        >>> archive.autoclose(); archive.closed
        False
        >>> member.close(); archive.closed
        True
        """
        self.close_on_last_child = True
        if not self._open_children:
            self.close()

    @classmethod
    def close_streams(cls, obj: object) -> None:
        """Close every wrapper in nested lists, tuples and values of dicts, down to ten containers deep.

        If closing one fails, the others are closed all the same before the error is raised.

        >>> import io
        >>> stream = StreamWrapper(io.BytesIO())
        >>> StreamWrapper.close_streams({"image": ("cat.jpg", stream)})
        >>> stream.closed
        True
        """
        if isinstance(obj, StreamWrapper):
            obj.close()
            return
        # Most elements hold no stream at all, and each one that is thrown away comes through here.
        if isinstance(obj, (dict, list, tuple)) and (streams := _streams_in(obj)):
            with ExitStack() as closing:
                # What is pushed last is closed first.
                for stream in reversed(streams):
                    closing.callback(stream.close)

    def __enter__(self) -> StreamWrapper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file_obj, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.file_obj)})

    def __iter__(self) -> Iterator[Any]:
        """The file's own iterator; the empty one behind it only holds on to the wrapper.

        Without it, `csv.reader(StreamWrapper(...))` would read from a file that was closed the moment it began. Both
        and the chain are written in C: no line costs a call in Python.
        """
        return chain(iter(self.file_obj), repeat(self, 0))

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __getstate__(self) -> tuple[Any]:
        """Only the file travels: in another process, the archive and its other streams mean nothing."""
        return (self.file_obj,)

    def __setstate__(self, state: tuple[Any]) -> None:
        (file_obj,) = state
        self._open(file_obj)

    def __repr__(self) -> str:
        named = "" if self.name is None else f"{self.name},"
        return f"StreamWrapper<{named}{self.file_obj!r}>"


def _streams_in(obj: object) -> list[StreamWrapper]:
    """The wrappers inside, level by level; a container that holds itself is looked into once."""
    found: list[StreamWrapper] = []
    entered: set[int] = set()
    level: list[object] = [obj]
    depth = 0
    while level and depth <= _DEEPEST:
        deeper: list[object] = []
        for value in level:
            if isinstance(value, StreamWrapper):
                found.append(value)
            elif isinstance(value, (dict, list, tuple)) and id(value) not in entered:
                entered.add(id(value))
                deeper.extend(value.values() if isinstance(value, dict) else value)
        level = deeper
        depth += 1
    return found


def holds_stream(element: Any) -> bool:
    """Whether an element is a stream, a row or a dict with one in it, or a list of such rows."""
    return bool(streams_of(element))


def streams_of(element: Any) -> list[Any]:
    """The streams in such an element, wrapped or not."""
    kind = type(element)
    row = element if kind is tuple or kind is list else element.values() if kind is dict else (element,)
    if kind is list and element and type(element[0]) is tuple:
        row = [value for inner in element if type(inner) is tuple for value in inner]
    return [value for value in row if isinstance(value, (StreamWrapper, IOBase))]


def is_lost(element: Any) -> bool:
    """Whether an element holds a stream that no saved position could name."""
    return any(getattr(stream, "origin", None) is None and not in_memory(stream) for stream in streams_of(element))


def in_memory(stream: Any) -> bool:
    """Whether a stream is its own content."""
    return type(unwrapped(stream)) in (BytesIO, StringIO)


def unwrapped(stream: Any) -> Any:
    """The file in a ``StreamWrapper``, or in several."""
    while isinstance(stream, StreamWrapper):
        stream = stream.file_obj
    return stream


def can_seek(file: Any) -> bool:
    """Whether a file says that it can be sought."""
    seekable = getattr(file, "seekable", None)
    return callable(seekable) and bool(seekable())


def janitor(obj: object) -> None:
    """Close every stream in an element that is about to be thrown away; see ``StreamWrapper.close_streams``.

    >>> import io
    >>> stream = StreamWrapper(io.BytesIO())
    >>> janitor([("name", stream), "anything else is left alone"])
    >>> stream.closed
    True
    """
    StreamWrapper.close_streams(obj)


def rewound(element: Any) -> bool:
    """Take the streams of an element back to their start, if they can go there."""
    try:
        for stream in streams_of(element):
            stream.seek(0)
    except (AttributeError, OSError, ValueError):
        return False
    return True
