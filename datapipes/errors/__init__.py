"""The exception classes of the three packages, one tree.

Loader2Error
|-- GraphError (RuntimeError)            a graph that cannot be built, rewritten or opened
|   |-- NameTaken                        a fluent name that another class has
|-- PluginError (AttributeError)         a name of an installed plugin that cannot be used
|-- BadArgument (ValueError)             an argument out of range, found when the pipe is built
|-- BadArgumentType (TypeError)          an argument of the wrong kind, found when the pipe is built
|-- LengthUnknown (TypeError)            a length that is not known in advance; names the stage
|-- TooManyErrors (RuntimeError)         more errors than a stage's max_errors tolerates; the last one is the cause
|-- WrongElement (RuntimeError)          an element that is not of the declared type, found by runtime_validation
|-- TransferError (OSError)              a remote file that could not be read, or not to its end
|   |-- CutShort                         the server ended it too early
|   |-- TransferTimeout (TimeoutError)   it took longer than allowed
|-- PullTimeout (TimeoutError)           an element that did not arrive within the seconds of a timeout()
|-- StateError (ValueError)              a saved state that does not fit, or that is not safe to load
|   |-- NotCheckpointable (TypeError)    a state for a reading service that the loader does not have
|   |-- UnsafeState                      bytes in a state that are damaged or not plain data
|-- UnsavableElement (TypeError)         a buffered element that cannot be saved in a state
|-- ForkedIteration (RuntimeError)       an iteration that began in another process, used in a fork of that process
|-- HashMismatch (RuntimeError)          data whose hash is wrong, or for which no hash is given
|-- LockTimeout (TimeoutError)           a file that another process or thread keeps locked for too long
|-- CorruptData (ValueError)             input that is cut short or damaged; names the file, the member, the position
|   |-- CorruptStream (OSError, EOFError)    compressed data
|   |-- CorruptRecord (RuntimeError)         a record of a TFRecord file
|   |-- CorruptTar (tarfile.ReadError)       a tar archive
|   |-- CorruptZip (zipfile.BadZipFile)      a zip archive
|-- RanksError (RuntimeError)            ranks of a process group that cannot continue together
|   |-- PrefetchTimeoutError (TimeoutError)  a rank that has sent nothing for longer than its timeout
|   |-- RankDied                         a rank that ended without a message, or cannot be reached
|   |-- RankFailed                       a rank whose loading raised; its error and traceback, as text
|   |-- RankLeft                         a rank that left its epoch before the other ranks
|   |-- RanksDiffer                      ranks with different graphs, services or positions
|   |-- UnevenRanks                      ranks with different numbers of elements, if this is not allowed
|-- WorkerError (RuntimeError)           an exception of a worker that could not be sent to the main process unchanged
|-- WorkerDied (RuntimeError)            a worker that ended without a message
|-- WorkerTimeout (TimeoutError)         a worker that has sent nothing for longer than its timeout
|-- WorkersLeft (RuntimeError)           an iteration that was left while another thread waited for its next element
|-- ProtocolError (RuntimeError)         a mistake of this library in the messages between workers and main process
|-- FetchFailed (AssertionError)         a process of an AsynchronousDataAccessor that has failed or ended
|-- LawBroken (AssertionError)           a pipe or a service that breaks a law of loader2.testing
|-- UnsafeMember (ValueError)            a member of an archive that leads outside it, or is not a regular file
|-- TooLarge (ValueError)                data that grows past its limit when it is decompressed
|-- ReadTooLate (tarfile.StreamError)    a member of a stream that was read after a later one

PopTorch's own (``poptorch.Error`` and its kin) are in ``reading_services.ipu.names.errors``, below the same root.

Each class is also the built-in type that was raised for the error before. ``BadArgument`` is a ``ValueError`` and an
``AssertionError``. An exception of a user's own function is none of these: it keeps its type and traceback, and gains a
note (see ``datapipes.position.error_notes``).
"""

from __future__ import annotations

import tarfile
import zipfile
from copy import copy
from typing import TypeVar

E = TypeVar("E", bound=Exception)


class Loader2Error(Exception):
    """Base class of all errors that this library raises by itself."""


class GraphError(Loader2Error, RuntimeError):
    """A graph that cannot be built, rewritten or opened.

    The message names the stages. A graph that can never be opened is refused when its loader is made.
    """


class NameTaken(GraphError):
    """A fluent name that is already in use. The message names both owners.

    Choose another name in ``functional_datapipe``. ``register_function`` replaces the older owner.
    """


class PluginError(Loader2Error, AttributeError):
    """A name of an installed plugin that cannot be used. The message names the distribution.

    The plugin cannot be imported (see the cause), or two distributions offer the name, or the object is not of the kind
    that its entry point declares. Update or uninstall the distribution. ``hasattr`` returns False for the method.
    """


class BadArgument(Loader2Error, ValueError, AssertionError):
    """An argument out of range. The message shows the call.

    It is raised when the pipe is built, so the traceback leads to your line.
    """


class BadArgumentType(Loader2Error, TypeError):
    """An argument of the wrong type. The message shows the call.

    As with ``BadArgument``, the traceback leads to your line. Common causes are a missing pipe, or a function's result
    in place of the function.
    """


class LengthUnknown(Loader2Error, TypeError):
    """A graph whose length is not known in advance. ``stage`` is the stage without a length, as it prints.

    Put ``.set_length(n)`` below that stage if you know it, or do without the length.
    """

    def __init__(self, message: str, stage: str = "") -> None:
        super().__init__(message)
        self.stage = stage


class TooManyErrors(Loader2Error, RuntimeError):
    """More errors in a stage than its ``max_errors`` tolerates.

    The cause is the last one; ``iterator.errors`` has the counts. Check the data before you raise the limit.
    """


class WrongElement(Loader2Error, RuntimeError):
    """An element that is not of the type that its class declares, found by ``runtime_validation``.

    Correct the annotation of the class's ``__iter__``, or the elements that it yields.
    """


class TransferError(Loader2Error, OSError):
    """A remote file that could not be read, or not to its end. The message names it, without its secrets.

    The error is also of the type that the client raised, such as ``requests.HTTPError`` with its ``response``, or
    ``FileNotFoundError``. ``transfer=Transfer(...)`` sets timeouts and retries.
    """


class CutShort(TransferError):
    """A remote file that ended too early. It is never handed on as a short file.

    The transfer was repeated as often as ``retries`` allows. If the file on the server is incomplete,
    ``on_error="skip"`` leaves it out.
    """


class TransferTimeout(TransferError, TimeoutError):
    """A remote file that did not arrive within the time allowed.

    Give a ``Transfer`` with a longer ``timeout`` or ``deadline``.
    """


class PullTimeout(Loader2Error, TimeoutError):
    """An element that did not arrive within the seconds of a ``timeout()``. The message shows the thread's stack.

    The next ``next()`` waits for the same element again. ``.retry()`` below the stage opens the stages above it again.
    """


class StateError(Loader2Error, ValueError):
    """A saved state that does not fit the graph, or is not plain data. The message names the field.

    Load it with the graph, the service and the source that it was saved with. If the source has changed on purpose,
    use ``load_state_dict(state, strict=False)``.
    """


class UnsafeState(StateError):
    """Bytes in a state that are damaged, or that could only be loaded by running code.

    Such a state was changed, or another program wrote it. Objects of your own classes need ``datapipes.allow``.
    """


class UnsavableElement(Loader2Error, TypeError):
    """A buffered element that cannot be saved in a state as plain data.

    Allow its class with ``datapipes.allow``, give the class plain data as its state, or move the stage that makes it
    below the buffer.
    """


class ForkedIteration(Loader2Error, RuntimeError):
    """An iteration that began in another process and cannot continue in a fork of that process.

    Begin a new iteration in the fork.
    """


class HashMismatch(Loader2Error, RuntimeError):
    """Data whose hash is wrong, or for which no hash is given. The message names the data.

    Load the data again, or correct the hash in ``hash_dict``.
    """


class LockTimeout(Loader2Error, TimeoutError):
    """A file that another process or thread keeps locked for too long. The message names it.

    The other process is making this file. Wait longer (``timeout``), or end that process.
    """


class RanksError(Loader2Error, RuntimeError):
    """Ranks of a process group that cannot continue together. The message names the ranks at fault.

    All ranks raise it. End the process group, in a ``finally``, before the processes end.
    """


class PrefetchTimeoutError(RanksError, TimeoutError):
    """A rank that has sent nothing for longer than ``timeout`` seconds.

    Find out what that rank does (``py-spy dump``). If it is only slow, use a longer ``timeout``.
    """

    def __init__(self, timeout: float, who: str = "") -> None:
        super().__init__(f"Fail to fetch data within {timeout:g} seconds" + (f", waiting for {who}" if who else ""))
        self.timeout = timeout


class RankDied(RanksError):
    """A rank that ended without a message, or whose host cannot be reached any more.

    Restart all ranks and resume from a checkpoint; torchrun does so.
    """


class RankFailed(RanksError):
    """An error in another rank's loading: ``rank``, and its ``error`` and ``traceback`` as text.

    The error is in the data or the functions of that rank. The next ``next()`` continues after the failed element.
    """

    def __init__(self, rank: int, error: str, traceback: str = "") -> None:
        super().__init__(f"rank {rank} failed: {error}")
        self.rank, self.error, self.traceback = rank, error, traceback
        if traceback:
            self.add_note(f"on rank {rank}:\n{traceback}")


class RankLeft(RanksError):
    """A rank that left its epoch, or shut down its loader, before the other ranks.

    Let all ranks leave their epoch after the same element, or use ``limit``.
    """


class RanksDiffer(RanksError):
    """Ranks with different graphs, services or positions. The message names the ranks and the difference.

    Build the same graph with the same services on all ranks, and resume on all or none.
    """


class UnevenRanks(RanksError):
    """Ranks with different numbers of elements, with ``uneven="error"``.

    Choose ``uneven="drop"``, ``"pad"`` or ``"repeat"``, or even out the shards.
    """


class CorruptData(Loader2Error, ValueError):
    """Input that is cut short or damaged. The message names the file, the member and the position.

    Load the file again (``check_hash`` finds such files in advance), or leave it out with ``on_error="skip"``.
    """


class CorruptStream(CorruptData, OSError, EOFError):
    """Compressed data that is cut short, damaged, or followed by other data."""


class CorruptTar(CorruptData, tarfile.ReadError):
    """A tar archive that is cut short or damaged."""


class CorruptZip(CorruptData, zipfile.BadZipFile):
    """A zip archive that is cut short or damaged."""


class LawBroken(Loader2Error, AssertionError):
    """A pipe or a service that breaks a law of ``loader2.testing``. The message has the law, the place and a remedy.

    ``law`` is the law's name. ``graph`` is the shortest graph that breaks it, as it prints. ``where`` is the position.
    ``expected`` and ``came`` are the two sides; they are empty if there is nothing to compare.
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
        facts = {"graph": graph, "where": where}
        if expected != came:
            facts |= {"expected": expected, "came": came}
        lines = (f"\n  {name}: {text}" for name, text in (facts | {"what to do": remedy}).items())
        super().__init__(f"{subject} breaks the law {law!r}: {says}{''.join(lines)}")


class UnsafeMember(Loader2Error, ValueError):
    """A member of an archive whose name leads outside it, or that is a link or a device.

    The next element is the member after it. ``on_error="skip"`` leaves such members out. Do not unpack this archive
    with another program.
    """


class TooLarge(Loader2Error, ValueError):
    """Data that grows past its limit when it is decompressed. The message names the parameter that sets the limit.

    If you trust the file, raise ``max_ratio`` or ``max_bytes`` of the stage that the message names.
    """


class ReadTooLate(Loader2Error, tarfile.StreamError):
    """A member of a stream without seek that was read after a later member had been requested.

    Read each member when it is handed on, or open the archive as a seekable file.
    """


class CorruptRecord(CorruptData, RuntimeError):
    """A record of a TFRecord file that is cut short, damaged, or not of the requested kind."""


class WorkerError(Loader2Error, RuntimeError):
    """An exception of a worker that could not be sent to the main process unchanged.

    Its text has the original type, message and traceback. Make the exception's class picklable.
    """


class WorkerDied(Loader2Error, RuntimeError):
    """A worker that ended without a message: it was killed, it crashed, or its code called ``os._exit``.

    The message has the signal or the exit code. The next ``next()`` starts another worker, which continues without
    loss. A service with ``restart=`` does so by itself. Signal 9 often means that the system ran out of memory: use
    fewer workers or smaller buffers.
    """


class WorkerTimeout(Loader2Error, TimeoutError):
    """A worker that has sent nothing for longer than its timeout. The message shows the worker's stack.

    Correct the call that hangs there, or give the service a longer ``timeout``.
    """


class WorkersLeft(Loader2Error, RuntimeError):
    """An iteration that was left, or whose workers were ended, while another thread waited for its next element.

    Shut a loader down when no other thread iterates over it.
    """


class ProtocolError(Loader2Error, RuntimeError):
    """A message between worker and main process that is not allowed at that time: a mistake in this library.

    Please report it with the message.
    """


class NotCheckpointable(StateError, TypeError):
    """A state for a reading service that the loader does not have.

    Pass the reading service that the state was saved with.
    """


class FetchFailed(Loader2Error, AssertionError):
    """A process of an AsynchronousDataAccessor that has failed or ended.

    The message has the process's traceback, and the exception that it raised is the cause. Correct that error. A loader
    starts again with the next ``iter``.
    """


def consumes_element(error: BaseException) -> bool:
    """Return whether an error takes the place of an element, which is then not repeated.

    After an interruption (KeyboardInterrupt and every other BaseException), a PullTimeout or the end of a worker, the
    same element is the next one.
    """
    return isinstance(error, Exception) and not isinstance(
        error, PullTimeout | WorkerDied | WorkerTimeout | WorkersLeft
    )


def without_frames(error: E) -> E:
    """Return a copy of an error to keep and raise later, without the frames and open files of its traceback."""
    return copy(error)
