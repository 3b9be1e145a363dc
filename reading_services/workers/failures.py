"""Exceptions sent from one process to another, with their remote tracebacks.

An exception arrives with its type, arguments, attributes and notes. It is restored without a call of its constructor,
which may take other arguments than the exception keeps. Its remote traceback becomes its cause, as text. An exception
that cannot be sent arrives as a ``WorkerError`` that shows it.
"""

from __future__ import annotations

import io
import pickle
import traceback
from dataclasses import dataclass
from typing import Any

import cloudpickle

from datapipes.errors import WorkerError
from datapipes.messages.exception_copies import RemoteTraceback, fields_of, put_together, trace_of


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception to be sent: its text, and a pickle if there can be one."""

    pickled: bytes | None
    text: str
    notes: tuple[str, ...]
    trace: str

    @classmethod
    def of(cls, error: BaseException, where: str) -> Failure:
        """Return the parts of an exception. ``where`` names the process that raised it."""
        error.add_note(f"  in {where}")
        trace = trace_of(error)
        without_notes = traceback.TracebackException(type(error), error, None)
        without_notes.__notes__ = None
        text = "".join(without_notes.format_exception_only()).strip()
        try:
            pickled = _pickled(error)
        except Exception as problem:
            pickled = None
            text += f"\n(it could not be sent as it was: {problem!r:.200})"
        return cls(pickled, text, tuple(error.__notes__), trace)

    def error(self) -> BaseException:
        """Return the exception, to be raised in this process."""
        error: BaseException
        try:
            error = self._shown(self.text) if self.pickled is None else pickle.loads(self.pickled)
        except Exception as unloadable:
            error = self._shown(f"{self.text}\n(it could not be made again here: {unloadable!r})")
        error.__cause__ = RemoteTraceback(self.trace)
        return error

    def _shown(self, text: str) -> WorkerError:
        """Return an error that shows this one. Notes stay notes: the session finds that of a stage among them."""
        error = WorkerError(text)
        for note in self.notes:
            error.add_note(note)
        return error


def _pickled(error: BaseException) -> bytes:
    """Return a pickle of an error. A class that cannot be imported by its name is pickled by value."""
    try:
        return _tried(error, _ErrorPickler)
    except Exception as problem:
        problem.__traceback__ = None
        return _tried(error, _ErrorCloudPickler)


def _tried(error: BaseException, pickler: Any) -> bytes:
    file = io.BytesIO()
    pickler(file, 5).dump(error)
    made = pickle.loads(file.getvalue())
    if type(made) is not type(error):
        raise TypeError(f"it came back as {type(made).__name__}")
    return file.getvalue()


def _taken_apart(obj: Any) -> Any:
    """Reduce an exception to its parts. Return NotImplemented for any other object."""
    if not isinstance(obj, BaseException):
        return NotImplemented
    return put_together, fields_of(obj)


class _ErrorPickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        return _taken_apart(obj)


class _ErrorCloudPickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    def reducer_override(self, obj: Any) -> Any:
        apart = _taken_apart(obj)
        return super().reducer_override(obj) if apart is NotImplemented else apart
