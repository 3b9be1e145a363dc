"""The exception classes of the three packages, one tree.

Loader2Error
├── GraphError (RuntimeError)            a graph that cannot be built, rewritten or opened
│   └── NameTaken                        a fluent name that somebody else owns
├── BadArgument (ValueError)             an argument out of range, found when the pipe is built
├── BadArgumentType (TypeError)          an argument of the wrong kind, found when the pipe is built
├── LengthUnknown (TypeError)            how many elements there are is not known beforehand; names the stage
├── TooManyErrors (RuntimeError)         more errors than a stage's max_errors lets pass; the last of them is its cause
├── WrongElement (RuntimeError)          an element that is not what its class declares, found by runtime_validation
├── TransferError (OSError)              a remote file that could not be read, or not to its end
│   ├── CutShort                         the other side ended it too early
│   └── TransferTimeout (TimeoutError)   it took longer than was allowed
├── StateError (ValueError)              a saved state that does not fit, or that is not safe to load
│   ├── NotCheckpointable (TypeError)    a state with something for a reading service, and no service that takes it
│   └── UnsafeState                      bytes in a state that would need more than plain data to load
├── UnsavableElement (TypeError)         a buffered element that cannot be put into a state
├── ForkedIteration (RuntimeError)       an iteration that another process began, used in a fork of that process
├── HashMismatch (RuntimeError)          data whose hash is not the expected one, or is not known
├── LockTimeout (TimeoutError)           a file that another process or thread keeps locked for too long
├── CorruptData (ValueError)             input that is cut short or damaged; names the file, the member, the position
│   ├── CorruptStream (OSError, EOFError)    compressed data
│   ├── CorruptRecord (RuntimeError)         a record of a TFRecord file
│   ├── CorruptTar (tarfile.ReadError)       a tar archive
│   └── CorruptZip (zipfile.BadZipFile)      a zip archive
├── RanksError (RuntimeError)            ranks of a process group that cannot go on together
│   ├── PrefetchTimeoutError (TimeoutError)  one that has said nothing for longer than it may
│   ├── RankDied                         one that ended without a word, or cannot be reached
│   ├── RankFailed                       one whose loading raised; its error and traceback, as text
│   ├── RankLeft                         one that left its epoch before the others
│   ├── RanksDiffer                      ranks with different graphs, services or positions
│   └── UnevenRanks                      ranks with different numbers of elements, where that is not allowed
├── WorkerError (RuntimeError)           an exception of a worker that could not be sent home as it was
├── WorkerDied (RuntimeError)            a worker that ended without a word
├── WorkerTimeout (TimeoutError)         a worker that has sent nothing for longer than it may
├── WorkersLeft (RuntimeError)           an iteration that was left while another thread waited for an element of it
├── ProtocolError (RuntimeError)         a mistake of this library in what workers and home say to each other
├── FetchFailed (AssertionError)         the process of an AsynchronousDataAccessor has failed or gone
├── UnsafeMember (ValueError)            a member of an archive that leads outside it, or is no regular file
├── TooLarge (ValueError)                data that grows past its limit when it is decompressed
└── ReadTooLate (tarfile.StreamError)    a member of a stream that was read on past it

PopTorch's own (``poptorch.Error`` and its kin) are in ``reading_services.ipu.names.errors``, below the same root.

Each is also the built-in type that torchdata's users catch. ``BadArgument`` is an ``AssertionError`` as well, because
torchdata raised that for some arguments and ``ValueError`` for others. An exception of a user's own function is none
of these: it keeps its type and traceback, and gains a note (see ``datapipes.position.blame``).
"""

from __future__ import annotations

import tarfile
import zipfile
from copy import copy
from typing import TypeVar

E = TypeVar("E", bound=Exception)


class Loader2Error(Exception):
    """The root of every error that this library raises by itself."""


class GraphError(Loader2Error, RuntimeError):
    """A graph that cannot be built, rewritten or opened."""


class NameTaken(GraphError):
    """Two owners ask for one fluent name; the message names both."""


class BadArgument(Loader2Error, ValueError, AssertionError):
    """An argument out of range; the message shows the call."""


class BadArgumentType(Loader2Error, TypeError):
    """An argument of the wrong kind; the message shows the call."""


class LengthUnknown(Loader2Error, TypeError):
    """A graph whose length is not known beforehand; ``stage`` is the one that cannot tell, as it prints."""

    def __init__(self, message: str, stage: str = "") -> None:
        super().__init__(message)
        self.stage = stage


class TooManyErrors(Loader2Error, RuntimeError):
    """A stage met more errors than its ``max_errors`` lets pass."""


class WrongElement(Loader2Error, RuntimeError):
    """An element that is not of the type its class declares; ``runtime_validation`` looks for these."""


class TransferError(Loader2Error, OSError):
    """A remote file that could not be read, or not to its end; the message names it, without its secrets."""


class CutShort(TransferError):
    """A remote file that ended before it should; it is never handed on as a short file."""


class TransferTimeout(TransferError, TimeoutError):
    """A remote file that was not there within the time allowed."""


class StateError(Loader2Error, ValueError):
    """A saved state that does not fit the graph, or is not plain data; the message names the field."""


class UnsafeState(StateError):
    """Bytes in a state that are damaged, or that would have to run code to be loaded."""


class UnsavableElement(Loader2Error, TypeError):
    """A buffered element that cannot be put into a state as plain data."""


class ForkedIteration(Loader2Error, RuntimeError):
    """An iteration that another process began, and that a fork of that process cannot go on with."""


class HashMismatch(Loader2Error, RuntimeError):
    """Data whose hash is not the one that it should have, or for which none is given; the message names it."""


class LockTimeout(Loader2Error, TimeoutError):
    """A file that another process or thread keeps locked for too long; the message names it."""


class RanksError(Loader2Error, RuntimeError):
    """The ranks of a process group cannot go on together; the message names those that are the reason."""


class PrefetchTimeoutError(RanksError, TimeoutError):
    """Nothing was heard of a rank for longer than ``timeout`` seconds."""

    def __init__(self, timeout: float, who: str = "") -> None:
        super().__init__(f"Fail to fetch data within {timeout:g} seconds" + (f", waiting for {who}" if who else ""))
        self.timeout = timeout


class RankDied(RanksError):
    """A rank ended without a word, or its host cannot be reached any more."""


class RankFailed(RanksError):
    """Loading raised on another rank: ``rank``, and its ``error`` and ``traceback`` as text."""

    def __init__(self, rank: int, error: str, traceback: str = "") -> None:
        super().__init__(f"rank {rank} failed: {error}")
        self.rank, self.error, self.traceback = rank, error, traceback
        if traceback:
            self.add_note(f"on rank {rank}:\n{traceback}")


class RankLeft(RanksError):
    """A rank left its epoch, or shut down its loader, before the others."""


class RanksDiffer(RanksError):
    """Ranks do not do the same: the message says which of them differ in what."""


class UnevenRanks(RanksError):
    """Ranks have different numbers of elements, and ``uneven="error"``."""


class CorruptData(Loader2Error, ValueError):
    """Input that is cut short or damaged; the message names the file, the member and the position."""


class CorruptStream(CorruptData, OSError, EOFError):
    """Compressed data that is cut short, damaged, or followed by something else."""


class CorruptTar(CorruptData, tarfile.ReadError):
    """A tar archive that is cut short or damaged."""


class CorruptZip(CorruptData, zipfile.BadZipFile):
    """A zip archive that is cut short or damaged."""


class UnsafeMember(Loader2Error, ValueError):
    """A member of an archive whose name leads outside it, or that is a link or a device."""


class TooLarge(Loader2Error, ValueError):
    """Data that grows past its limit when it is decompressed; the message names the parameter that sets it."""


class ReadTooLate(Loader2Error, tarfile.StreamError):
    """A member of a stream that cannot be sought, when a later one was already asked for."""


class CorruptRecord(CorruptData, RuntimeError):
    """A record of a TFRecord file that is cut short, damaged, or not what was asked for."""


class WorkerError(Loader2Error, RuntimeError):
    """An exception in a worker that could not be sent home as it was."""


class WorkerDied(Loader2Error, RuntimeError):
    """A worker ended without a word: it was killed, it crashed, or something in it called ``os._exit``."""


class WorkerTimeout(Loader2Error, TimeoutError):
    """A worker has sent nothing for longer than it may take; the message shows where it stands."""


class WorkersLeft(Loader2Error, RuntimeError):
    """The iteration was left, or its workers were ended, while another thread waited for an element of it."""


class ProtocolError(Loader2Error, RuntimeError):
    """A frame that nobody may send at that moment: a mistake in this library."""


class NotCheckpointable(StateError, TypeError):
    """A state has something for a reading service, and the loader has none that takes it; torchdata's TypeError."""


class FetchFailed(Loader2Error, AssertionError):
    """The process that loads has failed or gone; the message has its traceback, and what it raised is the cause."""


def without_frames(error: E) -> E:
    """The same error to be kept and raised later: it holds none of the frames, and open files, that it came through."""
    return copy(error)
