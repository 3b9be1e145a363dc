"""The record of a worker's elements and calls under way, which can be read after the worker has died.

A record is memory that the worker shares with the process that started it. It says which elements of the opening are
being made. It is written once for each chunk, which costs nothing that can be measured. A worker that replaces a dead
one is watched for a while: it makes one element at a time and records each call of a user's function with its
arguments. So the element that kills its worker is known, and can be left out when it comes again. A replayed class
meets it in each replay, so its worker leaves the element out until the opening ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import mmap
import os
import pickle
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from datapipes.description import structure
from datapipes.description.printing import stage as printed
from datapipes.description.structure import Pipe
from datapipes.iter import Lanes
from datapipes.position.error_notes import FUNCTIONS
from datapipes.position.on_error import LeftOut
from datapipes.position.user_classes import is_replayed

SIZE: Final = 1 << 14
_ELEMENTS = struct.Struct("<qq")  # the first element under way, and their number
_LENGTH = struct.Struct("<I")  # length of the pickled calls, which follow
_CALLS = _ELEMENTS.size + _LENGTH.size
_MOST_CALLS = 32  # recorded calls, if several threads call at a time
_PATIENCE = 1.0  # seconds that a watched coroutine waits for the others of its batch
_LONGEST = 200  # characters of the text of an element


class Call(NamedTuple):
    """A call of a user's function."""

    place: int
    """Place of the stage that calls it."""
    digest: bytes | None
    """Digest of the arguments, or None if they cannot be pickled."""
    stage: str
    """The stage as it prints."""
    text: str
    """The arguments as they print."""
    is_counted: bool = True
    """Whether the stage raises all errors, so that it counts none itself."""

    @property
    def key(self) -> Key | None:
        """Identity of this call in all processes, or None if the arguments cannot be pickled."""
        return None if self.digest is None else (self.place, self.digest)


Key = tuple[int, bytes]


class AtWork(NamedTuple):
    """The content of a record."""

    first: int
    """Number of the first element under way, counted from the start of the opening."""
    wanted: int
    """Number of elements under way."""
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class WatchOrder:
    """Order to watch the calls up to an element of the opening, and to leave out some calls."""

    elements: int
    leaves_out: frozenset[Key] = frozenset()
    first: int = 0
    """The first element that is watched."""


class CallRecord:
    """The shared memory that a worker writes."""

    def __init__(self, fd: int = -1) -> None:
        self._memory = mmap.mmap(fd, SIZE)  # without a file, other processes cannot read it

    def making(self, first: int, wanted: int) -> None:
        """Record which elements are being made. ``wanted=0`` means none."""
        _ELEMENTS.pack_into(self._memory, 0, first, wanted)

    def made(self, count: int) -> None:
        """Record that the first ``count`` of the elements under way are made."""
        first, wanted = _ELEMENTS.unpack_from(self._memory)
        self.making(first + count, wanted - count)

    def calling(self, calls: list[Call]) -> None:
        """Record which calls are under way: the newest ones if there are many."""
        data = pickle.dumps([tuple(call) for call in calls[-_MOST_CALLS:]], 5)
        _LENGTH.pack_into(self._memory, _ELEMENTS.size, 0)  # the worker may die between any two of these lines
        if len(data) <= SIZE - _CALLS:
            self._memory[_CALLS : _CALLS + len(data)] = data
            _LENGTH.pack_into(self._memory, _ELEMENTS.size, len(data))

    def read(self) -> AtWork:
        """Return the content of the record."""
        return self.in_bytes(self._memory[:])

    @staticmethod
    def in_bytes(memory: bytes) -> AtWork:
        """Return the content of a copy of the record."""
        (size,) = _LENGTH.unpack_from(memory, _ELEMENTS.size)
        calls = pickle.loads(memory[_CALLS : _CALLS + size]) if size else []
        first, wanted = _ELEMENTS.unpack_from(memory)
        return AtWork(first, wanted, tuple(Call(*call) for call in calls))


def file_for_record() -> int:
    """Return the descriptor of a file for a record. It has no name, and is freed when no process has it open."""
    fd = os.memfd_create("at work", os.MFD_CLOEXEC)
    os.ftruncate(fd, SIZE)
    return fd


class Watched:
    """The calls of users' functions in one opening of a graph, recorded as they are made."""

    def __init__(self, record: CallRecord, watch: WatchOrder) -> None:
        self._record = record
        self._left_out = watch.leaves_out
        self._always = frozenset[int]()
        self._under_way: dict[object, Call] = {}
        self._lock = threading.Lock()  # a threadpool_map calls from several threads
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._from, self._until = watch.first, watch.elements
        self._goes_on = watch.first == 0

    def over(self, graph: Pipe) -> Pipe:
        """Return a copy of a graph that records each call of a user's function."""
        graph = structure.unfold(graph)
        stages = structure.walk(graph)
        if any(is_replayed(stage) for stage in stages):
            self._always = frozenset(place for place, _ in self._left_out)
        for stage in stages:
            if isinstance(stage, Lanes):
                stage.graphs = {lane: self.over(each) for lane, each in stage.graphs.items()}
            if structure.is_native(stage):
                for name in FUNCTIONS:
                    if callable(fn := vars(stage).get(name)):
                        stage.__dict__[name] = self._around(fn, stage)
        return graph

    def at_most(self, wanted: int, made: int) -> int:
        """Return how many elements to make after ``made`` ones. It is one while the calls are recorded."""
        if made < self._from:
            return min(wanted, self._from - made)
        self._goes_on = made < self._until
        return 1 if self._goes_on else wanted

    def _around(self, fn: Callable[..., Any], stage: Pipe) -> Callable[..., Any]:
        place, named = structure.place_of(stage), printed(stage)
        is_counted = getattr(stage, "on_error", "raise") == "raise"

        @contextmanager
        def written_down(args: tuple[Any, ...]) -> Iterator[None]:
            digest, text = _described(args)
            call = Call(place, digest, named, text, is_counted)
            if call.key in self._left_out:
                raise LeftOut(f"{named} of {text} has killed its worker, and is left out")
            if not self._goes_on:
                yield
                return
            token = object()
            self._write(token, call)
            try:
                yield
            finally:
                self._write(token, None)

        @wraps(fn)
        def called(*args: Any, **kwargs: Any) -> Any:
            if not self._goes_on and place not in self._always:
                return fn(*args, **kwargs)
            with written_down(args):
                return fn(*args, **kwargs)

        @wraps(fn)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            if not self._goes_on and place not in self._always:
                return await fn(*args, **kwargs)
            async with self._by_itself():
                with written_down(args):
                    return await fn(*args, **kwargs)

        return awaited if iscoroutinefunction(fn) or iscoroutinefunction(type(fn).__call__) else called

    @asynccontextmanager
    async def _by_itself(self) -> AsyncIterator[None]:
        """Wait for the other coroutines of the batch, so that the right one is blamed. Stop after ``_PATIENCE``."""
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        has_it = False
        with suppress(TimeoutError):  # a coroutine may wait for others of its batch
            has_it = await asyncio.wait_for(lock.acquire(), _PATIENCE)
        try:
            yield
        finally:
            if has_it:
                lock.release()

    def _write(self, token: object, call: Call | None) -> None:
        with self._lock:
            if call is None:
                del self._under_way[token]
            else:
                self._under_way[token] = call
            self._record.calling(list(self._under_way.values()))


def _described(args: tuple[Any, ...]) -> tuple[bytes | None, str]:
    """Return a digest of arguments, or None if they cannot be pickled, and a text for them."""
    try:
        text = ", ".join(map(repr, args))
    except Exception as error:  # a user's class may raise any error when it is printed
        text = f"something whose repr raises {type(error).__name__}"
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    try:
        return hashlib.blake2b(pickle.dumps(args, 5), digest_size=16).digest(), text
    except Exception as error:  # or when it is pickled
        return None, f"{text} (it has no identity, because it cannot be pickled: {error!r:.80})"
