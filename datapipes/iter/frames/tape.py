"""What is done to a data frame, written down, so that it can be done to each frame of a stream.

A tape is a tuple of operations in the order in which the program made them. Each calls a function; its arguments are
plain values, or refer to what an earlier operation returned (slot 0 is the frame itself). Replaying runs all of them in
that order on a copy of a frame, so that a column which is assigned twice means what it would mean to pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from datapipes.messages.where import where


@dataclass(frozen=True, slots=True)
class Slot:
    """What the operation of this number returned; 0 is the frame."""

    number: int


class Operation(NamedTuple):
    """One call."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __str__(self) -> str:
        shown = [*map(_shown, self.args), *(f"{name}={_shown(value)}" for name, value in self.kwargs.items())]
        return f"{where(self.fn)}({', '.join(shown)})"


class Replay:
    """The function of a frame that does all of this to it, and returns what is in one slot."""

    def __init__(self, operations: tuple[Operation, ...], result: Slot) -> None:
        self.operations = operations
        self.result = result

    def __call__(self, frame: Any) -> Any:
        slots = [frame.copy() if self.operations else frame]
        for number, operation in enumerate(self.operations, 1):
            try:
                args, kwargs = replaced((operation.args, dict(operation.kwargs)), Slot, lambda slot: slots[slot.number])
                slots.append(operation.fn(*args, **kwargs))
            except Exception as error:
                error.add_note(f"in operation {number} of a trace: {operation}")
                raise
        return slots[self.result.number]


def replaced(value: Any, kind: type, by: Callable[[Any], Any]) -> Any:
    """A value in which each object of one kind, also in lists, tuples, dicts and slices, is what ``by`` makes of it."""
    if isinstance(value, kind):
        return by(value)
    if type(value) in (list, tuple):
        return type(value)([replaced(item, kind, by) for item in value])
    if type(value) is dict:
        return {key: replaced(item, kind, by) for key, item in value.items()}
    if type(value) is slice:
        return slice(*(replaced(item, kind, by) for item in (value.start, value.stop, value.step)))
    return value


def _shown(value: Any) -> str:
    if isinstance(value, Slot):
        return f"[{value.number}]" if value.number else "frame"
    return f"{value!r:.60}"
