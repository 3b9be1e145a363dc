"""Notes on exceptions: the stage, the user's function and the element that they came from.

The exception keeps its type, its arguments and its traceback. The stage is read from the traceback: the innermost frame
that belongs to one, which for a compiled loop is a line of it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from datapipes.description import structure
from datapipes.description.printing import stage as printed
from datapipes.messages.exception_copies import RemoteTraceback, parts_of, put_together, trace_of
from datapipes.messages.where import where
from datapipes.position.steps import is_loop, step_at

FIRST_WORDS = "raised in stage "

Progress = Callable[[structure.Pipe], "tuple[structure.Pipe, int] | None"]


def add_note(
    error: BaseException, end: structure.Pipe, progress: Progress, of_user: structure.Pipe | None = None
) -> None:
    """Add the note, unless a session further in has done so.

    ``of_user`` is the class of a user's whose iterator has raised it, perhaps in code that no frame tells of.
    """
    if any(note.startswith(FIRST_WORDS) for note in getattr(error, "__notes__", ())):
        return
    found = _innermost_stage(error)
    if of_user is not None and (found is None or any(stage is of_user for stage in structure.walk(found))):
        found = of_user
    hub = None if found is None else structure.hub_of(found)
    stage = hub if hub is not None else found if found is not None else end
    lines = [f"{FIRST_WORDS}{printed(stage)}{' or above it' if found is None else ''}"]
    function = next((vars(stage)[name] for name in FUNCTIONS if callable(vars(stage).get(name))), None)
    if function is not None and " at " in where(function) and where(function) not in lines[0]:
        lines.append(f"  function {where(function)}")
    if _is_stray_stop(error):
        lines.append("  the function let a StopIteration escape, which would have ended the stream without a word")
    counted = progress(stage if structure.is_stream(stage) else end)
    if counted is not None and counted[0] is stage:
        lines.append(f"  after it had given {counted[1]} elements")
    elif counted is not None:
        lines.append(f"  on element {max(counted[1] - 1, 0)} of {printed(counted[0])} (counted from 0)")
    error.add_note("\n".join(lines))


def note_opening(error: Exception, stage: structure.Pipe) -> None:
    """Add a note about a stage that could not be opened, unless a session further in has done so."""
    if not any(note.startswith(FIRST_WORDS) for note in getattr(error, "__notes__", ())):
        error.add_note(f"{FIRST_WORDS}{printed(stage)}, when it was opened")


FUNCTIONS = ("fn", "filter_fn", "classifier_fn", "collate_fn", "key_fn", "group_key_fn", "len_fn", "joiner")


class _Told(RemoteTraceback):
    """What the frames of an exception told, without the frames."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(trace_of(error))
        self.stage = _innermost_stage(error)
        self.is_stray_stop = _is_stray_stop(error)


def told_of(error: Exception) -> Exception:
    """Copy an exception for somebody else, who raises it later; its traceback comes along as text.

    Its frames would lead to those who called them, and so to the iterator that keeps the copy: on Python 3.13 a
    generator's frame goes on to name its caller after it raised.
    """
    copy = put_together(*parts_of(error))
    copy.__cause__ = _Told(error)
    return copy


def _is_stray_stop(error: BaseException) -> bool:
    """Whether a function raised StopIteration: Python makes a RuntimeError of it where it leaves a generator."""
    cause = error.__cause__
    if isinstance(cause, _Told):
        return cause.is_stray_stop
    return isinstance(error, RuntimeError) and isinstance(cause, StopIteration)


def _innermost_stage(error: BaseException) -> structure.Pipe | None:
    if isinstance(error.__cause__, _Told):
        return error.__cause__.stage
    found = None
    origin = error.__cause__ if _is_stray_stop(error) else error
    traceback = None if origin is None else origin.__traceback__
    while traceback is not None:
        inner = _stage_of(traceback.tb_frame, traceback.tb_lineno)
        found = found if inner is None else inner  # not `or`: a pipe without elements is false
        traceback = traceback.tb_next
    return found


def _stage_of(frame: FrameType, line: int) -> structure.Pipe | None:
    if is_loop(frame.f_code):
        step = step_at(frame.f_code, line)
        return None if step is None else frame.f_locals["stages"][step]
    if "self" not in frame.f_code.co_varnames:
        return None  # looking at the variables of a frame keeps them alive, the exception among them
    owner: Any = frame.f_locals.get("self")
    return owner if structure.is_pipe(owner) and "_place" in vars(owner) else None
