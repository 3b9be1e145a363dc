"""The exception classes of the three packages, one tree.

Loader2Error
├── GraphError (RuntimeError)            a graph that cannot be built, rewritten or opened
│   └── NameTaken                        a fluent name that somebody else owns
├── PluginError (AttributeError)         a name of an installed plugin that cannot be used
├── BadArgument (ValueError)             an argument out of range, found when the pipe is built
├── BadArgumentType (TypeError)          an argument of the wrong kind, found when the pipe is built
├── LengthUnknown (TypeError)            how many elements there are is not known beforehand; names the stage
├── TooManyErrors (RuntimeError)         more errors than a stage's max_errors lets pass; the last of them is its cause
├── WrongElement (RuntimeError)          an element that is not what its class declares, found by runtime_validation
├── TransferError (OSError)              a remote file that could not be read, or not to its end
│   ├── CutShort                         the other side ended it too early
│   └── TransferTimeout (TimeoutError)   it took longer than was allowed
├── PullTimeout (TimeoutError)           an element that was not there within the seconds of a timeout()
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
├── LawBroken (AssertionError)           a pipe or a service that breaks a law of loader2.testing
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
    """A graph that cannot be built, rewritten or opened.

    The message names the stages; a graph that can never be opened is refused when its loader is made.
    """


class NameTaken(GraphError):
    """Two owners ask for one fluent name; the message names both.

    Choose another name in ``functional_datapipe``, or ``register_function``, which replaces the older owner.
    """


class PluginError(Loader2Error, AttributeError):
    """A name of an installed plugin that cannot be used; the message names the distribution.

    It cannot be imported (the cause says why), or two distributions offer the name, or it is not what its entry point
    says: update or uninstall it. To ``hasattr`` it is a method that is not there.
    """


class BadArgument(Loader2Error, ValueError, AssertionError):
    """An argument out of range; the message shows the call.

    The call is refused when the pipe is built, so the traceback leads to your line.
    """


class BadArgumentType(Loader2Error, TypeError):
    """An argument of the wrong kind; the message shows the call.

    As ``BadArgument``; often a pipe was forgotten, or a call in place of a function.
    """


class LengthUnknown(Loader2Error, TypeError):
    """A graph whose length is not known beforehand; ``stage`` is the one that cannot tell, as it prints.

    Put ``.set_length(n)`` behind that stage if you know it, or do not ask.
    """

    def __init__(self, message: str, stage: str = "") -> None:
        super().__init__(message)
        self.stage = stage


class TooManyErrors(Loader2Error, RuntimeError):
    """A stage met more errors than its ``max_errors`` lets pass.

    Its cause is the last of them; ``iterator.errors`` has the counts. Look at the data before you raise the limit.
    """


class WrongElement(Loader2Error, RuntimeError):
    """An element that is not of the type its class declares; ``runtime_validation`` looks for these.

    Correct the annotation of the class's ``__iter__``, or what it yields.
    """


class TransferError(Loader2Error, OSError):
    """A remote file that could not be read, or not to its end; the message names it, without its secrets.

    It is of the type that the client raised, too, such as ``requests.HTTPError`` with its ``response``, or
    ``FileNotFoundError``. ``transfer=Transfer(...)`` sets timeouts and retries.
    """


class CutShort(TransferError):
    """A remote file that ended before it should; it is never handed on as a short file.

    It was tried again as often as ``retries`` allows. If the server means it, ``on_error="skip"`` leaves the file
    out.
    """


class TransferTimeout(TransferError, TimeoutError):
    """A remote file that was not there within the time allowed.

    Give a ``Transfer`` with a longer ``timeout`` or ``deadline``.
    """


class PullTimeout(Loader2Error, TimeoutError):
    """An element was not there within the seconds of a ``timeout()``; the message shows where the thread stands.

    The next ``next()`` waits for the same element once more. ``.retry()`` behind the stage opens what is above it
    again.
    """


class StateError(Loader2Error, ValueError):
    """A saved state that does not fit the graph, or is not plain data; the message names the field.

    Load it with the graph, the service and the source that it was saved with. ``load_state_dict(state,
    strict=False)`` goes on over a source that has changed.
    """


class UnsafeState(StateError):
    """Bytes in a state that are damaged, or that would have to run code to be loaded.

    Such a state is none of this library's, or was changed; classes of your own have to be named by
    ``datapipes.allow``.
    """


class UnsavableElement(Loader2Error, TypeError):
    """A buffered element that cannot be put into a state as plain data.

    Allow its class by ``datapipes.allow``, give the class plain data as its state, or move the stage that makes it
    behind the buffer.
    """


class ForkedIteration(Loader2Error, RuntimeError):
    """An iteration that another process began, and that a fork of that process cannot go on with.

    Begin an iteration of its own in the fork.
    """


class HashMismatch(Loader2Error, RuntimeError):
    """Data whose hash is not the one that it should have, or for which none is given; the message names it.

    Load the data again, or correct the hash in ``hash_dict``.
    """


class LockTimeout(Loader2Error, TimeoutError):
    """A file that another process or thread keeps locked for too long; the message names it.

    Another process makes this file. Wait longer (``timeout``), or end that process.
    """


class RanksError(Loader2Error, RuntimeError):
    """The ranks of a process group cannot go on together; the message names those that are the reason.

    All ranks raise it. End the process group, in a ``finally``, before the processes end.
    """


class PrefetchTimeoutError(RanksError, TimeoutError):
    """Nothing was heard of a rank for longer than ``timeout`` seconds.

    Look what that rank does (``py-spy dump``); a longer ``timeout`` if it is only slow.
    """

    def __init__(self, timeout: float, who: str = "") -> None:
        super().__init__(f"Fail to fetch data within {timeout:g} seconds" + (f", waiting for {who}" if who else ""))
        self.timeout = timeout


class RankDied(RanksError):
    """A rank ended without a word, or its host cannot be reached any more.

    Restart all ranks and resume from a checkpoint; torchrun does so.
    """


class RankFailed(RanksError):
    """Loading raised on another rank: ``rank``, and its ``error`` and ``traceback`` as text.

    The error is in the data or the functions of that rank. The next ``next()`` goes on behind the element.
    """

    def __init__(self, rank: int, error: str, traceback: str = "") -> None:
        super().__init__(f"rank {rank} failed: {error}")
        self.rank, self.error, self.traceback = rank, error, traceback
        if traceback:
            self.add_note(f"on rank {rank}:\n{traceback}")


class RankLeft(RanksError):
    """A rank left its epoch, or shut down its loader, before the others.

    Have all ranks leave their epoch after the same element, or use ``limit``.
    """


class RanksDiffer(RanksError):
    """Ranks do not do the same: the message says which of them differ in what.

    Build the same graph with the same services on all ranks, and resume on all or none.
    """


class UnevenRanks(RanksError):
    """Ranks have different numbers of elements, and ``uneven="error"``.

    Choose ``uneven="drop"``, ``"pad"`` or ``"repeat"``, or even out the shards.
    """


class CorruptData(Loader2Error, ValueError):
    """Input that is cut short or damaged; the message names the file, the member and the position.

    Load the file again (``check_hash`` tells beforehand), or leave it out with ``on_error="skip"``.
    """


class CorruptStream(CorruptData, OSError, EOFError):
    """Compressed data that is cut short, damaged, or followed by something else."""


class CorruptTar(CorruptData, tarfile.ReadError):
    """A tar archive that is cut short or damaged."""


class CorruptZip(CorruptData, zipfile.BadZipFile):
    """A zip archive that is cut short or damaged."""


class LawBroken(Loader2Error, AssertionError):
    """A pipe or a service that breaks a law of ``loader2.testing``; the message says which, where, and what to do.

    ``law`` is its name, ``graph`` the shortest one on which it is broken, as it prints, ``where`` the position;
    ``expected`` and ``came`` are the two sides, empty where there is nothing to compare.
    """

    def __init__(
        self,
        law: str,
        *,
        says: str,
        subject: str,
        graph: str,
        where: str,
        expected: str = "",
        came: str = "",
        remedy: str,
    ) -> None:
        self.law, self.graph, self.where, self.expected, self.came = law, graph, where, expected, came
        told = {"graph": graph, "where": where}
        if expected != came:
            told |= {"expected": expected, "came": came}
        lines = (f"\n  {name}: {text}" for name, text in (told | {"what to do": remedy}).items())
        super().__init__(f"{subject} breaks the law {law!r}: {says}{''.join(lines)}")


class UnsafeMember(Loader2Error, ValueError):
    """A member of an archive whose name leads outside it, or that is a link or a device.

    The next element is the member after it; ``on_error="skip"`` leaves such members out. Do not unpack this archive
    by other means.
    """


class TooLarge(Loader2Error, ValueError):
    """Data that grows past its limit when it is decompressed; the message names the parameter that sets it.

    If you trust the file, raise ``max_ratio`` or ``max_bytes`` of the stage that the message names.
    """


class ReadTooLate(Loader2Error, tarfile.StreamError):
    """A member of a stream that cannot be sought, when a later one was already asked for.

    Read each member when it is handed on, or open the archive as a file that can be sought.
    """


class CorruptRecord(CorruptData, RuntimeError):
    """A record of a TFRecord file that is cut short, damaged, or not what was asked for."""


class WorkerError(Loader2Error, RuntimeError):
    """An exception in a worker that could not be sent home as it was.

    Its text has the original type, message and traceback. Give the exception's class arguments that pickle.
    """


class WorkerDied(Loader2Error, RuntimeError):
    """A worker ended without a word: it was killed, it crashed, or something in it called ``os._exit``.

    The message has the signal or the exit code. The next ``next()`` starts another worker, which goes on without a
    loss; a service with ``restart=`` does so by itself. Signal 9 often is the system's memory killer: fewer workers,
    smaller buffers.
    """

    ended: object = None
    """Who it was and what it was at work on, for a service that replaces it; None where that would not help."""


class WorkerTimeout(Loader2Error, TimeoutError):
    """A worker has sent nothing for longer than it may take; the message shows where it stands.

    Mend what hangs there, or give the service a longer ``timeout``.
    """


class WorkersLeft(Loader2Error, RuntimeError):
    """The iteration was left, or its workers were ended, while another thread waited for an element of it.

    Shut a loader down when no other thread iterates it.
    """


class ProtocolError(Loader2Error, RuntimeError):
    """A frame that nobody may send at that moment: a mistake in this library.

    Please report it with the message.
    """


class NotCheckpointable(StateError, TypeError):
    """A state has something for a reading service, and the loader has none that takes it; torchdata's TypeError.

    Pass the reading service that the state was saved with.
    """


class FetchFailed(Loader2Error, AssertionError):
    """The process that loads has failed or gone; the message has its traceback, and what it raised is the cause.

    Mend what it raised. A loader begins anew with the next ``iter``.
    """


def consumes_element(error: BaseException) -> bool:
    """Return whether an error stands in place of an element, which does not come again.

    After an interruption (KeyboardInterrupt and its kin), a PullTimeout or the end of a worker the same element is the
    next one.
    """
    return isinstance(error, Exception) and not isinstance(
        error, PullTimeout | WorkerDied | WorkerTimeout | WorkersLeft
    )


def without_frames(error: E) -> E:
    """The same error to be kept and raised later: it holds none of the frames, and open files, that it came through."""
    return copy(error)
