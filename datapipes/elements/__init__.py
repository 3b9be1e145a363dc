"""Serialization of elements to bytes that can be loaded without running code.

Elements in a buffer (a shuffle buffer, a half-read batch, a fork's queue) go into a state in this form. The bytes are a
pickle of a narrow dialect, written by the pickler in C and read by ``reader``. Plain values are as in any pickle. Any
other value is one call, ``rebuild(kind, *parts)``. Its kinds are those of ``kinds`` and the classes that the program
allowed (``classes``).

Invariants: ``decode`` restores what ``encode`` accepted as equal values, in any process that allows the same classes.
An object that occurs several times is one object again, except for numbers. ``encode`` refuses a value that cannot come
back and says where it is. ``decode`` returns a value or raises ``UnsafeState``, for any bytes. Not saved: the graph of
a tensor's computation (``requires_grad`` is saved), the memory layout of arrays, and which arrays shared memory.

- ``arrays``: arrays and tensors as a dtype, a shape and bytes
- ``chunk``: DataChunk, the list that a batch is
- ``classes``: allow-list of users' classes that may be in a state
- ``frames``: data frames of pandas as columns of plain values
- ``kinds``: the built-in kinds of element, taken apart and made again
- ``reader``: a restricted unpickler: the few steps that encoded elements use, and limits on their work
- ``saved_streams``: open files as their origin and position, or as their content
- ``sizes``: memory size of an element in bytes
- ``streams``: StreamWrapper, an open file that closes itself
- ``tables``: Arrow's batches and tables as bytes, and its descriptions
"""

from __future__ import annotations

import io
import pickle
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import datapipes.elements.classes as element_classes
import datapipes.elements.kinds as element_kinds
from datapipes.elements.chunk import DataChunk
from datapipes.elements.classes import NotAllowed, allow, allowed
from datapipes.elements.reader import MOST_DEPTH, EncodedReader
from datapipes.elements.saved_streams import StreamOpener, stream_parts
from datapipes.elements.streams import MemberStream, StreamWrapper
from datapipes.errors import StateError, UnsafeState, UnsavableElement

__all__ = ["UnsafeState", "UnsavableElement", "allow", "allowed", "encode", "decode"]

MOST_SEARCHED: Final = 100_000  # values searched for the path to an unsavable one

_LEAVES: Final = frozenset((str, bytes, int, float, bool, type(None)))
_TOO_DEEP: Final = "elements are nested too deep to be saved, or arrays contain themselves: flatten them"


def encode(elements: object, *, what: str, places: StreamOpener | None = None) -> bytes:
    """Return the elements as bytes. Open streams are saved if `places` knows them.

    Args:
        elements: The elements.
        what: The name of the field in errors.
        places: The graph's stages, which can open its streams again. ``None``: open streams are refused.

    Raise UnsavableElement for a value that ``decode`` could not restore.

    >>> data = encode(["a", {"b": (1, 2.5)}], what="buffer of stage 3: .shuffle()")
    >>> decode(data, what="buffer of stage 3: .shuffle()")
    ['a', {'b': (1, 2.5)}]
    """
    # The pickler is recursive. If it could go deeper than `decode` reads, or exhaust the stack because the recursion
    # limit was raised, check the depth first.
    if (sys.version_info >= (3, 14) or sys.getrecursionlimit() > MOST_DEPTH) and _is_too_deep(elements):
        raise UnsavableElement(f"{what}: {_TOO_DEEP}")
    file = io.BytesIO()
    packer = _ElementPickler(file, places)
    try:
        packer.dump(elements)
    except MemoryError:
        raise
    except RecursionError as error:
        raise UnsavableElement(f"{what}: {_TOO_DEEP}") from error
    except Exception as error:
        name = element_classes.full_name(type(packer.met[0]))
        raise UnsavableElement(
            f"{what}: elements{_path_to(packer.met[0], elements)}, of class {name}, cannot be saved: {_reason(error)}"
        ) from error
    return file.getvalue()


def decode(data: object, *, what: str, places: StreamOpener | None = None) -> object:
    """Return the elements that ``encode`` made these bytes of. `places` opens streams again.

    Raise UnsafeState for any other bytes. They do no harm.

    >>> decode(b"cos\\nsystem\\n(S'ls'\\ntR.", what="buffer of stage 3: .shuffle()")
    Traceback (most recent call last):
    datapipes.errors.UnsafeState: buffer of stage 3: .shuffle(): damaged, or not written by this library ...
    """
    if type(data) is not bytes:
        raise UnsafeState(f"{what}: expected the bytes of encoded elements, found {type(data).__name__}")
    reader = EncodedReader(data, places)
    try:
        return reader.read()
    except BaseException as error:
        if places is not None:
            places.close()
        if isinstance(error, NotAllowed | StateError):
            raise (UnsafeState if isinstance(error, NotAllowed) else StateError)(f"{what}: {error}") from error
        if not isinstance(error, Exception):
            raise
        raise UnsafeState(
            f"{what}: damaged, or not written by this library (at byte {reader.at} of {len(data)}: {_reason(error)}). "
            "Load another state, or start the epoch again"
        ) from error


def rebuild(*parts: object) -> object:
    """Raise UnsafeState: encoded elements call this name, and only ``decode`` can load them, with its own tables.

    >>> rebuild("range", 0, 3, 1)
    Traceback (most recent call last):
    datapipes.errors.UnsafeState: load encoded elements with datapipes.elements.decode
    """
    raise UnsafeState("load encoded elements with datapipes.elements.decode")


class _ElementPickler(pickle.Pickler):
    """Pickler that reduces everything but plain values to a call of ``rebuild``."""

    def __init__(self, file: io.BytesIO, places: StreamOpener | None) -> None:
        self._places = places
        self.met: list[Any] = [None]  # the element that the pickler reduced last: an error is about it
        self.lent: dict[int, pickle.PickleBuffer] = {}  # buffers that are parts of elements, not elements themselves
        met, lent = self.met, self.lent  # not self: a cycle would keep the elements alive until the next collection

        def write_in_place(buffer: pickle.PickleBuffer) -> bool:
            if id(buffer) not in lent:
                met[0] = buffer
                raise TypeError("use bytes instead")
            return True

        super().__init__(file, protocol=5, buffer_callback=write_in_place)

    def reducer_override(self, obj: Any) -> Any:
        """Reduce an element to the call that makes it again. The pickler asks for all but plain values."""
        if obj is rebuild:
            return NotImplemented
        self.met[0] = obj
        cls = type(obj)
        if (kind := element_kinds.kind_of_element(obj)) is not None:
            parts = element_kinds.KINDS[kind].parts(obj)
            self.lent.update((id(part), part) for part in parts if type(part) is pickle.PickleBuffer)
            items = iter(obj) if cls is deque or cls is DataChunk else None
            pairs = iter(obj.items()) if isinstance(obj, dict) else None
            return rebuild, (kind, *parts), None, items, pairs
        if cls is StreamWrapper or cls is MemberStream:
            return rebuild, stream_parts(obj, self._places)
        parts, state = element_classes.fields_of(obj)
        return rebuild, parts, state


def _reason(error: Exception) -> str:
    ours = type(error) in (TypeError, ValueError, EOFError, RecursionError, LookupError) and str(error)
    return f"{error!s:.300}" if ours else f"{type(error).__name__}: {error!s:.300}"


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the direct items of a value, each with the text of the access to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield ".keys()", key
            shown = type(key) is str or (type(key) is int and key.bit_length() < 64)
            yield f"[{key!r:.40}]" if shown else "[...]", inner
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{i}]", inner) for i, inner in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("{...}", inner) for inner in value)
    elif element_kinds.kind_of(type(value)) == "ndarray" and value.dtype.hasobject:
        yield from ((f".flat[{i}]", inner) for i, inner in enumerate(value.flat))
    elif element_classes.is_allowed(type(value)):
        yield from ((f".{name}", inner) for name, inner in getattr(value, "__dict__", {}).items())


def _path_to(culprit: Any, elements: object) -> str:
    """Return the path to this very object in the elements, or "[...]" if the search would take too long."""
    pending, seen = deque([("", elements)]), set[int]()
    while pending and len(seen) < MOST_SEARCHED:
        path, value = pending.popleft()
        if value is culprit:
            return path
        if id(value) not in seen:
            seen.add(id(value))
            pending += ((path + step, inner) for step, inner in _inside(value))
    return "[...]"


def _is_too_deep(elements: object) -> bool:
    """Return whether the elements may be nested deeper than ``decode`` reads, counted as pickling counts."""
    way, seen = [iter([("", elements)])], set[int]()
    while way:
        inner = next(way[-1], None)
        if inner is None:
            way.pop()
        elif type(inner[1]) not in _LEAVES and id(inner[1]) not in seen:
            seen.add(id(inner[1]))
            way.append(_inside(inner[1]))
        if len(way) > MOST_DEPTH // 4:  # an object counts several times: itself, its parts, its attributes
            return True
    return False
