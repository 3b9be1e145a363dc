"""What a worker is at work on, written where it can be read once the worker is dead.

A record is memory that a worker's process shares with the one that started it. It says which elements of its opening
are being made, and costs nothing that can be measured, since it is written once for a chunk. A worker that takes the
place of a dead one is *watched* for a while: it makes one element at a time, and writes down which function of a
stage's is called with what. So an element that kills its worker is known, and can be left out when it comes again.
A class that is replayed comes to it in each replay, so its worker leaves the element out to the end of the opening.
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
from datapipes.position.blame import FUNCTIONS
from datapipes.position.on_error import LeftOut
from datapipes.position.user_classes import is_replayed

SIZE: Final = 1 << 14
_ELEMENTS = struct.Struct("<qq")  # the first element under way, and how many
_LENGTH = struct.Struct("<I")  # of the pickle of the calls, behind these
_CALLS = _ELEMENTS.size + _LENGTH.size
_MOST_CALLS = 32  # that are written down, of those that several threads make at a time
_PATIENCE = 1.0  # seconds that a coroutine which is watched waits for the others of its batch
_LONGEST = 200  # characters of an element


class Call(NamedTuple):
    """A call of a user's function."""

    place: int
    """Place of the stage it belongs to."""
    digest: bytes | None
    """Of what it was called with; None where that cannot be pickled."""
    stage: str
    """The stage as it prints,"""
    text: str
    """and what it was called with."""
    is_counted: bool = True
    """Whether the stage lets no error pass, which it would count itself."""

    @property
    def key(self) -> Key | None:
        """What tells this call from others, in whatever process it is made."""
        return None if self.digest is None else (self.place, self.digest)


Key = tuple[int, bytes]


class AtWork(NamedTuple):
    """What a worker was at work on."""

    first: int
    """Number of the first element that it was making, counted from where its opening began,"""
    wanted: int
    """and how many it was making; 0 if none."""
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """An order to be watched up to an element of the opening, and to leave out some calls."""

    elements: int
    leaves_out: frozenset[Key] = frozenset()
    first: int = 0
    """The element from which on the worker is watched."""


class Record:
    """The page of memory."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, SIZE)

    def making(self, first: int, wanted: int) -> None:
        """Write down which elements are being made; ``wanted=0``: none."""
        _ELEMENTS.pack_into(self._memory, 0, first, wanted)

    def made(self, count: int) -> None:
        """Write down that the first ones of those being made are ready."""
        first, wanted = _ELEMENTS.unpack_from(self._memory)
        self.making(first + count, wanted - count)

    def calling(self, calls: list[Call]) -> None:
        """Write down which calls are under way, the newest ones if there are many."""
        data = pickle.dumps([tuple(call) for call in calls[-_MOST_CALLS:]], 5)
        _LENGTH.pack_into(self._memory, _ELEMENTS.size, 0)  # it may die between any two of these lines
        if len(data) <= SIZE - _CALLS:
            self._memory[_CALLS : _CALLS + len(data)] = data
            _LENGTH.pack_into(self._memory, _ELEMENTS.size, len(data))

    def read(self) -> AtWork:
        """What was written last."""
        return self.in_bytes(self._memory[:])

    @staticmethod
    def in_bytes(memory: bytes) -> AtWork:
        """What was written last in a copy of the page."""
        (size,) = _LENGTH.unpack_from(memory, _ELEMENTS.size)
        calls = pickle.loads(memory[_CALLS : _CALLS + size]) if size else []
        first, wanted = _ELEMENTS.unpack_from(memory)
        return AtWork(first, wanted, tuple(Call(*call) for call in calls))


def file_for_record() -> int:
    """A file for a record: it has no name, and goes with those who have it open."""
    fd = os.memfd_create("at work", os.MFD_CLOEXEC)
    os.ftruncate(fd, SIZE)
    return fd


class Watched:
    """The calls of users' functions in one opening of a graph, written down as they are made."""

    def __init__(self, record: Record, watch: Watch) -> None:
        self._record = record
        self._left_out = watch.leaves_out
        self._always = frozenset[int]()
        self._under_way: dict[object, Call] = {}
        self._lock = threading.Lock()  # a threadpool_map calls from several threads
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self.goes_on = watch.first == 0

    def over(self, graph: Pipe) -> Pipe:
        """A copy of a graph in which every call of a user's function is written down."""
        graph = structure.unfold(graph)
        stages = structure.walk(graph)
        if any(is_replayed(stage) for stage in stages):
            self._always = frozenset(place for place, _ in self._left_out)
        for stage in stages:
            if structure.is_native(stage):
                for name in FUNCTIONS:
                    if callable(fn := vars(stage).get(name)):
                        stage.__dict__[name] = self._around(fn, stage)
        return graph

    def _around(self, fn: Callable[..., Any], stage: Pipe) -> Callable[..., Any]:
        place, named = structure.place_of(stage), printed(stage)
        is_counted = getattr(stage, "on_error", "raise") == "raise"

        @contextmanager
        def written_down(args: tuple[Any, ...]) -> Iterator[None]:
            digest, text = _described(args)
            call = Call(place, digest, named, text, is_counted)
            if call.key in self._left_out:
                raise LeftOut(f"{named} of {text} has killed its worker, and is left out")
            if not self.goes_on:
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
            if not self.goes_on and place not in self._always:
                return fn(*args, **kwargs)
            with written_down(args):
                return fn(*args, **kwargs)

        @wraps(fn)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            if not self.goes_on and place not in self._always:
                return await fn(*args, **kwargs)
            async with self._by_itself():
                with written_down(args):
                    return await fn(*args, **kwargs)

        return awaited if iscoroutinefunction(fn) or iscoroutinefunction(type(fn).__call__) else called

    @asynccontextmanager
    async def _by_itself(self) -> AsyncIterator[None]:
        """Wait for the other coroutines of a batch, one of which would be blamed for all; not for ever."""
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        has_it = False
        with suppress(TimeoutError):  # one that waits for the others of its batch
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
    """What tells these arguments from others, if they can be pickled, and a text for them."""
    try:
        text = ", ".join(map(repr, args))
    except Exception as error:  # whatever a user's class raises when it is printed
        text = f"something whose repr raises {type(error).__name__}"
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    try:
        return hashlib.blake2b(pickle.dumps(args, 5), digest_size=16).digest(), text
    except Exception as error:  # or when it is pickled
        return None, f"{text} (not to be told from others: {error!r:.80})"
