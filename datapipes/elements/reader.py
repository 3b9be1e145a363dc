"""Restricted unpickler of encoded elements: it knows only the few steps that ``encode`` writes.

Invariants, for any bytes:

- There is one name to call, which stands for the tables of ``kinds`` and ``classes`` and for streams that are opened
  again. Every other name, and every step that could look up, call or change anything else, is refused.
- A container is filled only at the place where it was made, while it is being made.
- Time and memory are proportional to the number of bytes. A length beyond the end of the bytes is refused, and the memo
  has no holes. Work that shared objects multiply (copying, hashing, comparing keys) is charged to an account first.
- Nothing is recursive, and no result is nested so deep that freeing it could exhaust the stack.

It is written by hand because the standard unpicklers guarantee none of this: they accept any memo index, depth and key.
"""

from __future__ import annotations

import pickle
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, is_dataclass
from math import inf
from typing import Any, Final, TypeAlias

import datapipes.elements.classes as element_classes
import datapipes.elements.kinds as element_kinds
from datapipes.elements.chunk import DataChunk
from datapipes.elements.saved_streams import OPENED, StreamOpener

MOST_KEY_DEPTH: Final = 1_000  # tuples are hashed recursively

_LIGHT: Final = frozenset((str, bytes, float, bool, type(None)))  # hashed in constant time, or only once
_MOST_BITS: Final = 8_192  # of an int that counts as light

NAME: Final = ("datapipes.elements", "rebuild")
MOST_DEPTH: Final = 10_000  # CPython's pickler stops at this depth or before, unless its limits were raised
MOST_CHAINED: Final = 1_000  # nested deques, slices and arrays of objects, which CPython and numpy free recursively

_LISTS = (list, deque, DataChunk)
_DICTS = (dict, OrderedDict, defaultdict, Counter)
_REBUILD: Final = object()  # stands for the name. Its depth is infinite, so that no container may hold it.


class Account:
    """Budget for copying and hashing, proportional to the number of bytes.

    A pickle can use one object many times, which multiplies the work on it: a tuple of twice the same tuple of twice
    the same ... is hashed in its full size. The budget is larger than anything that ``encode`` writes can need.

    >>> Account(100).pay_for_copies(("Decimal", "3.14"))
    """

    def __init__(self, size: int) -> None:
        self._copies = 4096 + 2 * size  # packing writes nearly every copied byte separately
        self._hashing: float = 2_000_000 + 4 * size
        self._census: dict[int, dict[int, int]] = {}  # by id of a container and by hash: the number of its keys

    def pay_for_copies(self, parts: tuple[Any, ...]) -> None:
        """Charge for making an element from these parts."""
        self._copies -= int(min(_weight(parts, self._copies), self._copies + 1)) + sum(map(_length, parts))
        if self._copies < 0:
            raise ValueError("more copies of the same bytes than encoding writes")

    def pay_for_keys(self, keys: Iterable[Any], holder: object = None) -> None:
        """Charge for hashing keys, and for comparing each with the holder's keys of the same hash."""
        census: dict[int, int] | None = {} if holder is None else None
        for key in keys:
            if type(key) is str or type(key) is bytes:
                continue  # hashed once, and the hash is random in each process
            work = _weight(key, self._hashing, hashing=True)
            self._pay_for_hashing(work)
            if census is None:
                census = self._census.setdefault(id(holder), {})
            same = census.get(hash(key), 0)
            census[hash(key)] = same + 1
            self._pay_for_hashing(work * same)

    def _pay_for_hashing(self, work: float) -> None:
        self._hashing -= work
        if self._hashing < 0:
            raise ValueError("keys that take too much work to tell apart")


def _weight(value: Any, limit: float, hashing: bool = False) -> float:
    """Return the number of parts of a value, counting a shared one each time. Stop counting beyond the limit."""
    weight, pending = 1.0, [(value, 0)]
    while pending and weight <= limit:
        part, depth = pending.pop()
        if depth > MOST_KEY_DEPTH:
            return inf
        within = _hashed_with(part) if hashing else part if type(part) is tuple else ()
        weight += len(within)
        pending += [
            (inner, depth + 1)
            for inner in within
            if type(inner) not in _LIGHT and not (type(inner) is int and inner.bit_length() <= _MOST_BITS)
        ]
        if hashing and type(part) not in _LIGHT and not within and not element_classes.is_allowed(type(part)):
            # Comparing numbers of different types converts them, which can take the square of their size.
            weight += (sys.getsizeof(part) >> 10) ** 2
    return weight


def _hashed_with(key: Any) -> Collection[Any]:
    """Return the parts that are hashed and compared with a key. A user's own ``__hash__`` is not examined."""
    cls: Any = type(key)
    if isinstance(key, tuple | frozenset):
        return key
    if is_dataclass(cls) and cls.__hash__ is not object.__hash__:
        return [getattr(key, field.name) for field in fields(cls) if field.compare]
    return ()


def _length(part: Any) -> int:
    """Return the number of bytes or items that making an element may copy of one part."""
    if type(part) is int:
        return part.bit_length() >> 3
    return len(part) if type(part) in (str, bytes, bytearray, list) else 0


class EncodedReader:
    """One reading of some bytes. ``at`` is the number of bytes read.

    >>> EncodedReader(pickle.dumps([1, (2, 3)], protocol=5)).read()
    [1, (2, 3)]
    """

    def __init__(self, data: bytes, places: StreamOpener | None = None) -> None:
        self.at = 0
        self._places = places
        self._data = data
        self._account = Account(len(data))
        self._stack: list[Any] = []
        self._depths: list[float] = []  # the depth of each value on the stack
        self._marks: list[int] = []
        self._memo: list[Any] = []
        self._fillable: list[int] = []  # the stack indexes of containers that may still be filled
        self._blank: dict[int, Any] = {}  # by id: objects without their attributes
        self._chains: dict[int, int] = {}  # by id: the length of the chain that MOST_CHAINED limits

    def read(self) -> Any:
        """Return the value that the bytes stand for. Any exception means that they are unsafe or damaged."""
        if self._take(2) != b"\x80\x05":
            raise ValueError("encoded elements do not begin with these bytes")
        data, steps = self._data, _STEPS
        while (code := data[self.at : self.at + 1]) != pickle.STOP:
            self.at += 1
            step = steps.get(code)
            if step is None:
                raise ValueError(f"encoded elements have no step {code!r}") if code else EOFError("cut short")
            step(self)
        self.at += 1
        if self.at != len(self._data):
            raise ValueError(f"{len(self._data) - self.at} bytes follow the end")
        if len(self._stack) != 1 or self._depths[0] > MOST_DEPTH:
            raise ValueError("no single value is complete at the end")
        return self._stack[0]

    def _take(self, size: int) -> bytes:
        """Return the next bytes. Raise EOFError if they are not there."""
        start, self.at = self.at, self.at + size
        if self.at > len(self._data):
            raise EOFError(f"cut short: {self.at - len(self._data)} bytes are missing")
        return self._data[start : self.at]

    def _count(self, width: int) -> int:
        """Return the next bytes as a number."""
        return int.from_bytes(self._take(width), "little")

    def _frame(self) -> None:
        if self._count(8) > len(self._data) - self.at:
            raise EOFError("cut short: a frame is longer than the rest of the bytes")

    def _push(self, value: Any, depth: float = 0) -> None:
        self._stack.append(value)
        self._depths.append(depth)

    def _push_fillable(self, value: Any) -> None:
        """Push a container that may be filled while it is there."""
        self._forget(len(self._stack))
        self._fillable.append(len(self._stack))
        self._push(value)

    def _fetch(self, index: int) -> None:
        """Push a value from the memo. Its depth is 0: pickling does not go down into it again."""
        self._forget(len(self._stack))
        value = self._memo[index]
        self._push(value, inf if value is _REBUILD else 0)

    def _forget(self, start: int) -> None:
        while self._fillable and self._fillable[-1] >= start:
            self._fillable.pop()

    def _remember(self) -> None:
        self._memo.append(self._stack[-1])

    def _mark(self) -> None:
        self._marks.append(len(self._stack))

    def _pop(self, count: int | None) -> tuple[list[Any], float]:
        """Take `count` values off the stack, or all since the last mark. Return them and the depth of the deepest."""
        start = self._marks.pop() if count is None else len(self._stack) - count
        if not 0 <= start <= len(self._stack):
            raise ValueError("a step asks for more values than there are")
        values, depth = self._stack[start:], max(self._depths[start:], default=0)
        del self._stack[start:], self._depths[start:]
        return values, depth

    def _drop(self, values: list[Any], depth: float) -> None:
        """Discard values that were taken off the stack."""

    def _hold(self, values: Sequence[Any], depth: float, chained: bool = False) -> None:
        """Record that the value on top of the stack holds `values`, the deepest of which has this depth."""
        if depth >= MOST_DEPTH:
            raise RecursionError("a name where a value belongs" if depth == inf else f"more than {MOST_DEPTH} deep")
        self._depths[-1] = max(self._depths[-1], depth + 1)
        if self._chains or chained:
            holder = self._stack[-1]
            chained = chained or type(holder) in (deque, defaultdict)
            chain = chained + max((self._chains.get(id(value), 0) for value in values), default=0)
            if chain > MOST_CHAINED:
                raise RecursionError(f"more than {MOST_CHAINED} deques, slices or arrays of objects in one another")
            self._chains[id(holder)] = max(chain, self._chains.get(id(holder), 0))

    def _fill(self, kinds: tuple[type, ...], values: Sequence[Any], depth: float) -> Any:
        """Return the container on top of the stack for these values. Raise TypeError if it may not be filled."""
        here = len(self._stack) - 1
        self._forget(here + 1)
        if not self._fillable or self._fillable[-1] != here or type(self._stack[here]) not in kinds:
            raise TypeError("items for a value that is not a container being filled")
        self._hold(values, depth)
        return self._stack[here]

    def _extend(self, items: list[Any], depth: float) -> None:
        self._fill(_LISTS, items, depth).extend(items)

    def _add(self, items: list[Any], depth: float) -> None:
        holder = self._fill((set,), items, depth)
        self._account.pay_for_keys(items, holder)
        holder.update(items)

    def _update(self, items: list[Any], depth: float) -> None:
        holder = self._fill(_DICTS, items, depth)
        self._account.pay_for_keys(items[::2], holder)
        for key, value in zip(items[::2], items[1::2], strict=True):
            holder[key] = value

    def _tuple(self, items: list[Any], depth: float) -> None:
        self._push(tuple(items))
        self._hold(items, depth)

    def _frozenset(self, items: list[Any], depth: float) -> None:
        self._account.pay_for_keys(items)
        self._push(frozenset(items))
        self._hold(items, depth)

    def _find(self, names: list[Any], depth: float) -> None:
        if tuple(names) != NAME:
            raise LookupError(f"the name {'.'.join(map(str, names))[:200]} has no place in encoded elements")
        self._push(_REBUILD, inf)

    def _make(self) -> None:
        """Make an element from the parts on the stack."""
        (parts,), depth = self._pop(1)
        (function,), _ = self._pop(1)
        if function is not _REBUILD or type(parts) is not tuple or not parts or type(parts[0]) is not str:
            raise TypeError("a call that does not occur in encoded elements")
        kind, *content = parts
        chained = kind in ("deque", "defaultdict", "slice")
        if kind in element_classes.FAMILIES:
            element = element_classes.make(*parts)
            if kind == "object":
                self._blank[id(element)] = element
        elif kind == OPENED:
            element = self._opened(content)
        else:
            self._account.pay_for_copies(parts[1:])
            element = element_kinds.make(kind, parts[1:])
            chained = chained or (kind == "ndarray" and type(content[-1]) is list)
        self._push_fillable(element)
        self._hold(parts[1:], depth, chained)

    def _opened(self, content: list[Any]) -> Any:
        if self._places is None or len(content) != 3:
            raise element_classes.NotAllowed("holds open files, which only the graph that opened them can open again")
        return self._places.open(*content)

    def _build(self, states: list[Any], depth: float) -> None:
        """Set the attributes of the object on top of the stack."""
        blank = self._blank.pop(id(self._stack[-1]), None)
        element_classes.fill(self._fill((type(blank),), states, depth), states[0])


Instruction: TypeAlias = Callable[[EncodedReader], None]


def _text(raw: bytes) -> str:
    return str(raw, "utf-8", "surrogatepass")


def _int(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _float(raw: bytes) -> Any:
    return struct.unpack(">d", raw)[0]


def _value(value: Any) -> Instruction:
    return lambda reader: reader._push(value)


def _fresh(container: type) -> Instruction:
    return lambda reader: reader._push_fillable(container())


def _of_width(width: int, decode: Callable[[bytes], Any]) -> Instruction:
    return lambda reader: reader._push(decode(reader._take(width)))


def _of_length(width: int, decode: Callable[[bytes], Any]) -> Instruction:
    def step(reader: EncodedReader) -> None:
        # The steps of _take and _push, inlined: most of the time is spent here.
        data, start = reader._data, reader.at + width
        end = start + int.from_bytes(data[reader.at : start], "little")
        if end > len(data):
            raise EOFError(f"cut short: {end - len(data)} bytes are missing")
        reader.at = end
        reader._stack.append(decode(data[start:end]))
        reader._depths.append(0)

    return step


def _gather(count: int | None, use: Callable[[EncodedReader, list[Any], float], None]) -> Instruction:
    return lambda reader: use(reader, *reader._pop(count))


_STEPS: Final[dict[bytes, Instruction]] = {
    pickle.NONE: _value(None),
    pickle.NEWTRUE: _value(True),
    pickle.NEWFALSE: _value(False),
    pickle.BININT: _of_width(4, _int),
    pickle.BINFLOAT: _of_width(8, _float),
    pickle.EMPTY_TUPLE: _value(()),
    pickle.BININT1: lambda reader: reader._push(reader._count(1)),
    pickle.BININT2: lambda reader: reader._push(reader._count(2)),
    pickle.LONG1: _of_length(1, _int),
    pickle.LONG4: _of_length(4, _int),
    pickle.SHORT_BINUNICODE: _of_length(1, _text),
    pickle.SHORT_BINBYTES: _of_length(1, bytes),
    pickle.BINUNICODE: _of_length(4, _text),
    pickle.BINBYTES: _of_length(4, bytes),
    pickle.BINUNICODE8: _of_length(8, _text),
    pickle.BINBYTES8: _of_length(8, bytes),
    pickle.BYTEARRAY8: _of_length(8, bytearray),
    pickle.EMPTY_LIST: _fresh(list),
    pickle.EMPTY_DICT: _fresh(dict),
    pickle.EMPTY_SET: _fresh(set),
    pickle.APPEND: _gather(1, EncodedReader._extend),
    pickle.APPENDS: _gather(None, EncodedReader._extend),
    pickle.SETITEM: _gather(2, EncodedReader._update),
    pickle.SETITEMS: _gather(None, EncodedReader._update),
    pickle.ADDITEMS: _gather(None, EncodedReader._add),
    pickle.FROZENSET: _gather(None, EncodedReader._frozenset),
    pickle.TUPLE1: _gather(1, EncodedReader._tuple),
    pickle.TUPLE2: _gather(2, EncodedReader._tuple),
    pickle.TUPLE3: _gather(3, EncodedReader._tuple),
    pickle.TUPLE: _gather(None, EncodedReader._tuple),
    pickle.POP: _gather(1, EncodedReader._drop),
    pickle.POP_MARK: _gather(None, EncodedReader._drop),
    pickle.STACK_GLOBAL: _gather(2, EncodedReader._find),
    pickle.BUILD: _gather(1, EncodedReader._build),
    pickle.MARK: EncodedReader._mark,
    pickle.MEMOIZE: EncodedReader._remember,
    pickle.FRAME: EncodedReader._frame,
    pickle.BINGET: lambda reader: reader._fetch(reader._count(1)),
    pickle.LONG_BINGET: lambda reader: reader._fetch(reader._count(4)),
    pickle.REDUCE: EncodedReader._make,
}
