"""Open files that close themselves, and the archives that contain them.

A ``StreamWrapper`` owns one open file and closes it once: by ``close``, at the end of a ``with`` block, or when the
last reference to the wrapper is gone. An iterator over its lines is such a reference. A wrapper around an archive that
was marked with ``autoclose`` closes when none of the streams taken out of it is open any more, in any thread.

A wrapper whose constructor failed owns nothing: the class attributes are its state, and destroying it closes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack
from functools import cached_property
from io import BytesIO, IOBase, StringIO
from itertools import chain, repeat
from typing import Any, ClassVar, Protocol, TypeAlias
from weakref import WeakKeyDictionary

_DEEPEST = 10

Origin: TypeAlias = "tuple[str, tuple[str | int, ...], Origin | None]"
"""The stage that opened a stream, the arguments to open it again, and the origin of the archive that it is in."""


class StreamWrapper:
    """An open file that closes itself when it is no longer used. Every attribute of the file is available.

    Args:
        file_obj: The file, or any other object that can be read.
        parent_stream: The wrapped archive that contains the file. An archive that was marked with ``autoclose`` closes
            after its last file. ``None``: the file is not part of an archive.
        name: The name in the wrapper's repr and in ``session_streams``.

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
    """The open wrappers and their names. The references are weak."""

    file_obj: Any = None
    name: str | None = None
    parent_stream: StreamWrapper | None = None
    closed: bool = True
    close_on_last_child: bool = False
    _has_file = True
    _is_listed = False
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
            self._list()

    def _list(self) -> None:
        StreamWrapper.session_streams[self] = self.name
        self._is_listed = True

    def _open(self, file_obj: Any) -> None:
        self.file_obj = file_obj
        # Children are known by id and remove themselves before they die. Unlike a count, a set of ints is safe
        # to change from several threads, and from a destructor that runs during a change.
        self._open_children: set[int] = set()
        self.closed = False

    @property
    def origin(self) -> Origin | None:
        """Origin of the stream in a stage of a graph, which a saved position names; see ``position.reopening``.

        It can be set to a function that returns the origin. The function is called when the origin is first read.
        """
        if callable(self._origin):
            self._origin = self._origin()
        return self._origin

    @origin.setter
    def origin(self, origin: Origin | Callable[[], Origin | None] | None) -> None:
        self._origin = origin

    @property
    def child_counter(self) -> int:
        """Number of open streams that were taken out of this one."""
        return len(self._open_children)

    def close(self) -> None:
        """Close the file. After the last file of an archive with ``autoclose``, close the archive as well."""
        if self.closed:
            return
        if self._is_listed:
            self.session_streams.pop(self, None)
        close: Any = getattr(self.file_obj, "close", None) if self._has_file else None
        can_close = callable(close)
        self.closed = True  # nothing is called in between: an interrupted stream is closed, or it is not
        try:
            if can_close:
                close()
        finally:
            parent = self.parent_stream
            if parent is not None:
                parent._open_children.discard(id(self))
                if parent.close_on_last_child and not parent._open_children:
                    parent.close()

    def autoclose(self) -> None:
        """Close when the last child closes, or now if no child is open.

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

        All of them are closed, even if closing one raises an error.

        >>> import io
        >>> stream = StreamWrapper(io.BytesIO())
        >>> StreamWrapper.close_streams({"image": ("cat.jpg", stream)})
        >>> stream.closed
        True
        """
        if isinstance(obj, StreamWrapper):
            obj.close()
            return
        # Most elements hold no stream, and every discarded element is passed to this method.
        if isinstance(obj, (dict, list, tuple)) and (streams := _streams_in(obj)):
            with ExitStack() as closing:
                # The stack closes the last one first.
                for stream in reversed(streams):
                    closing.callback(stream.close)

    def __enter__(self) -> StreamWrapper:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.closed:
            self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file_obj, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.file_obj)})

    def __iter__(self) -> Iterator[Any]:
        """Return the file's own iterator, chained to an empty one that refers to the wrapper.

        Without that reference, `csv.reader(StreamWrapper(...))` would read from a closed file. Both iterators and the
        chain are written in C, so a line costs no call in Python.
        """
        return chain(iter(self.file_obj), repeat(self, 0))

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __getstate__(self) -> tuple[Any]:
        """Return the file alone. The archive and its other streams have no meaning in another process."""
        return (self.file_obj,)

    def __setstate__(self, state: tuple[Any]) -> None:
        (file_obj,) = state
        self._open(file_obj)

    def __repr__(self) -> str:
        named = "" if self.name is None else f"{self.name},"
        return f"StreamWrapper<{named}{self.file_obj!r}>"


class Members(Protocol):
    """Archive that makes the files of its members when they are needed."""

    def whole(self, entry: Any) -> bytes | None:
        """Return the data of a member, or None if its file must read it."""

    def opened(self, entry: Any, is_read: bool) -> Any:
        """Return the file of a member, at its end if ``is_read``."""


class MemberStream(StreamWrapper):
    """Open member of an archive. The file is made at the first use other than reading all of it.

    Most members are read whole, and for a small one the file takes longer than the reading.
    """

    _has_file = False
    _is_read = False

    def __init__(self, archive: StreamWrapper, members: Members, path: str, entry: Any, origin: Origin | None) -> None:
        self._members = members
        self._entry = entry
        self.name = path
        self._origin = origin
        self._open_children = set()
        self.parent_stream = archive
        archive._open_children.add(id(self))
        self.closed = False
        if StreamWrapper.debug_unclosed_streams:
            self._list()

    @cached_property
    def file_obj(self) -> Any:
        file = self._members.opened(self._entry, self._is_read)
        self._has_file = True
        if self.closed:
            file.close()
        return file

    def read(self, size: int | None = -1) -> Any:
        """Read up to ``size`` bytes, or all if it is None or negative."""
        if size == -1 and not (self._has_file or self._is_read or self.closed):
            data = self._members.whole(self._entry)
            if data is not None:
                self._is_read = True
                return data
        return self.file_obj.read(size)

    __del__ = StreamWrapper.close  # one call less for each member

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamWrapper, (self.file_obj,)


def _streams_in(obj: object) -> list[StreamWrapper]:
    """Return the wrappers inside, level by level. A container that holds itself is searched once."""
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
    """Return whether an element is a stream, a row or a dict with one in it, or a list of such rows."""
    return bool(streams_of(element))


def streams_of(element: Any) -> list[Any]:
    """Return the streams in an element, a row, a dict or a list of rows, wrapped or not."""
    kind = type(element)
    row = element if kind is tuple or kind is list else element.values() if kind is dict else (element,)
    if kind is list and element and type(element[0]) is tuple:
        row = [value for inner in element if type(inner) is tuple for value in inner]
    return [value for value in row if isinstance(value, (StreamWrapper, IOBase))]


def is_lost(element: Any) -> bool:
    """Return whether an element holds a stream that a saved position cannot name."""
    return any(getattr(stream, "origin", None) is None and not in_memory(stream) for stream in streams_of(element))


def in_memory(stream: Any) -> bool:
    """Return whether a stream is a file in memory."""
    return type(unwrapped(stream)) in (BytesIO, StringIO)


def unwrapped(stream: Any) -> Any:
    """Return the file inside one or several ``StreamWrapper`` objects."""
    while isinstance(stream, StreamWrapper):
        stream = stream.file_obj
    return stream


def can_seek(file: Any) -> bool:
    """Return whether a file has a ``seekable`` method that returns True."""
    seekable = getattr(file, "seekable", None)
    return callable(seekable) and bool(seekable())


def janitor(obj: object) -> None:
    """Close every stream in an element that is about to be discarded; see ``StreamWrapper.close_streams``.

    >>> import io
    >>> stream = StreamWrapper(io.BytesIO())
    >>> janitor([("name", stream), "anything else is left alone"])
    >>> stream.closed
    True
    """
    StreamWrapper.close_streams(obj)


def rewound(element: Any) -> bool:
    """Seek the streams of an element to their start. Return False if one of them cannot seek."""
    try:
        for stream in streams_of(element):
            stream.seek(0)
    except (AttributeError, OSError, ValueError):
        return False
    return True
