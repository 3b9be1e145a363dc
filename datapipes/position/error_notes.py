"""Notes on exceptions: the stage, the user's function and the element that raised them.

The exception keeps its type, arguments and traceback. The stage is found in the traceback: it belongs to the innermost
frame of a stage. In the frame of a compiled loop, the line tells the stage.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from datapipes.description import structure
from datapipes.description.printing import as_written
from datapipes.description.printing import stage as printed
from datapipes.messages.exception_copies import RemoteTraceback, fields_of, put_together, trace_of
from datapipes.messages.short import element_shown
from datapipes.messages.warnings import is_ours
from datapipes.messages.where import where
from datapipes.position.seeds import Run
from datapipes.position.steps import is_loop, step_at

if TYPE_CHECKING:
    from datapipes.position.cells import Cell
    from datapipes.position.plan import Plan

_Opened: TypeAlias = "tuple[structure.Pipe, Cell | None, list[structure.Pipe]]"
"""An opened stage, its cell, and its inputs."""

FIRST_WORDS = "raised in stage "


def add_note(
    error: BaseException, plan: Plan, cells: Mapping[int, Cell], run: Run, of_user: structure.Pipe | None = None
) -> None:
    """Add the note, unless an inner session has added it.

    Args:
        error: The exception, raised in a session.
        plan: The plan of the session.
        cells: The cells of the session, by place.
        run: The run of the session.
        of_user: The user's class whose iterator has raised it, perhaps in code that has no frame.
    """
    if any(note.startswith(FIRST_WORDS) for note in getattr(error, "__notes__", ())):
        return
    raised = _raised(error)
    found = raised.stage
    if of_user is not None and (found is None or any(stage is of_user for stage in structure.walk(found))):
        found, raised = of_user, _Raised(of_user)
    hub = None if found is None else structure.hub_of(found)
    stage = hub if hub is not None else found if found is not None else plan.end
    is_exact = found is not None and as_written(stage) is stage
    lines = [f"{FIRST_WORDS}{printed(stage)}{'' if is_exact else ' or above it'}"]
    function = next((vars(stage)[name] for name in FUNCTIONS if callable(vars(stage).get(name))), None)
    if function is not None and " at " in where(function) and where(function) not in lines[0]:
        lines.append(f"  function {where(function)}")
    if _is_stray_stop(error):
        lines.append("  the function let a StopIteration escape, which would have ended the stream without a word")
    upwards = list(_upwards(stage if structure.is_stream(stage) else plan.end, plan, cells))
    counted, (source, key) = _progress(upwards), raised.origin or _origin(upwards) or (None, None)
    place = None
    if structure.is_stream(source):
        place = f"element {key} of {printed(source)} (counted from 0)"
    elif source is not None:
        place = f"index {element_shown(key)}{'' if source is stage else f' of {printed(source)}'}"
    elif counted is not None and counted[0] is stage:
        lines.append(f"  after it had given {counted[1]} elements")
    elif counted is not None:
        order = ", in the shuffled order" if _is_shuffled(counted[0]) else ""
        place = f"element {max(counted[1] - 1, 0)} of {printed(counted[0])} (counted from 0{order})"
    if shown := list(filter(None, [place, *raised.element])):
        lines.append(f"  on {': '.join(shown)}")
    if isinstance(error, MemoryError):
        held = [f"{printed(cell.stage)} holds {count:,} elements" for cell in cells.values() if (count := cell.holds())]
        lines += [f"  memory ran out while {text}; a smaller buffer takes less" for text in held]
    since = "" if run.epoch == run.number else f" (epoch {run.epoch} of this seed)"
    lines.append(f"  in epoch {run.number}, with seed {run.seed}{' (drawn for this epoch)' if run.drawn else since}")
    error.add_note("\n".join(lines))


def _upwards(stage: structure.Pipe, plan: Plan, cells: Mapping[int, Cell]) -> Iterator[_Opened]:
    """Yield the opened stages from the given one upwards, along the first inputs."""
    stage = plan.readers_by_position.get(structure.place_of(stage), stage)
    while True:
        inputs = plan.inputs(stage)
        yield stage, cells.get(vars(stage).get("_place", structure.NO_CELL)), inputs
        if not inputs:
            return
        stage = inputs[0]


def _progress(upwards: Iterable[_Opened]) -> tuple[structure.Pipe, int] | None:
    """Return the nearest of some stages that knows its count of elements, and that count."""
    for i, (stage, cell, _) in enumerate(upwards):
        number = cell.done() if cell is not None else None
        if number is not None:
            return stage, number
        if cell is not None and i and not cell.in_step():
            return None
    return None


def _origin(upwards: Iterable[_Opened]) -> tuple[object, Any] | None:
    """Return the source that is read by key for the element at hand in the first of some stages, and the key.

    Return None if there is no such source, or the stages in between do not make one element of each.
    """
    for stage, cell, inputs in upwards:
        if cell is not None and cell.origin is not None and (number := cell.done()):
            return cell.origin(number - 1)
        passes = structure.is_native(stage) and stage._passes_through and not stage._shuffles
        if len(inputs) != 1 or not (cell is None or (passes and cell.in_step())):
            return None
    return None


def note_opening(error: Exception, stage: structure.Pipe) -> None:
    """Add a note about a stage that could not be opened, unless an inner session has added one."""
    if not any(note.startswith(FIRST_WORDS) for note in getattr(error, "__notes__", ())):
        error.add_note(f"{FIRST_WORDS}{printed(stage)}, when it was opened")


FUNCTIONS = ("fn", "async_fn", "filter_fn", "classifier_fn", "collate_fn", "key_fn", "group_key_fn", "len_fn", "joiner")


def _is_shuffled(stage: structure.Pipe) -> bool:
    above = filter(structure.is_native, structure.walk(stage))
    return any(hasattr(each, "set_shuffle") and each._enabled for each in above)


@dataclass(frozen=True, slots=True)
class _Raised:
    """The content of an exception's frames: the stage, its element, and a map-style source with its key."""

    stage: structure.Pipe | None = None
    element: tuple[str, ...] = ()
    origin: tuple[object, Any] | None = None


class _FrameNotes(RemoteTraceback):
    """A text traceback with the content of the frames, without the frames."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(trace_of(error))
        self.raised = _raised(error)
        self.is_stray_stop = _is_stray_stop(error)


def with_text_traceback(error: Exception) -> Exception:
    """Return a copy of an exception, to be kept and raised later. It has the traceback as text.

    The frames would refer to their callers, and so to the iterator that keeps the copy. On Python 3.13 the frame of a
    generator refers to its caller even after it has raised.
    """
    copy = put_together(*fields_of(error))
    copy.__cause__ = _FrameNotes(error)
    return copy


def _is_stray_stop(error: BaseException) -> bool:
    """Return whether a function raised StopIteration, which Python turns into a RuntimeError inside a generator."""
    cause = error.__cause__
    if isinstance(cause, _FrameNotes):
        return cause.is_stray_stop
    return isinstance(error, RuntimeError) and isinstance(cause, StopIteration)


def _raised(error: BaseException) -> _Raised:
    """Read the frames of an exception. The innermost frame with content decides."""
    if isinstance(error.__cause__, _FrameNotes):
        return error.__cause__.raised
    raised = _Raised()
    origin = error.__cause__ if _is_stray_stop(error) else error
    traceback, asks_for_next = None if origin is None else origin.__traceback__, False
    while traceback is not None:
        frame, code, line, at = traceback.tb_frame, traceback.tb_frame.f_code, traceback.tb_lineno, traceback.tb_lasti
        traceback = traceback.tb_next
        if is_loop(code):
            step = step_at(code, line)
            if step is not None:
                raised = _Raised(frame.f_locals["stages"][step], (element_shown(frame.f_locals["x"]),))
                asks_for_next = False
            continue
        stage = _stage_of(frame)
        if stage is not None:
            asks_for_next = False
            raised = raised if stage is raised.stage else _Raised(stage)
            if code.co_name in _BY_KEY and code.co_argcount > 1:
                raised = replace(raised, origin=(stage, frame.f_locals[code.co_varnames[1]]))
        if raised.stage is None or not is_ours(frame):
            continue
        asks_for_next |= code.co_code[at] == _FOR_ITER  # from here inwards the variables have the element before
        if not asks_for_next:
            for name in _AT_HAND & {*code.co_varnames} & {*frame.f_locals}:
                raised = replace(raised, element=(element_shown(frame.f_locals[name]),))
    return raised


_FOR_ITER = dis.opmap["FOR_ITER"]
_BY_KEY = ("__getitem__", "__getitems__")
_AT_HAND = {"element", "path"}
"""Variables of stages that hold the element, or the file, at hand."""


def _stage_of(frame: FrameType) -> structure.Pipe | None:
    if "self" not in frame.f_code.co_varnames:
        return None  # reading the variables of a frame keeps them alive, including the exception
    owner: Any = frame.f_locals.get("self")
    return owner if structure.is_pipe(owner) and "_place" in vars(owner) else None
