"""Stages that handle one element at a time, compiled together into one loop.

``map`` and ``filter`` have no position, so neighbouring ones need no iterator each. They become one generator, with a
line or two for each stage, as if written by hand. An element costs a call of the user's function and nothing else. The
line in an exception's traceback tells the stage. A ``StopIteration`` that escapes from a function is an error, because
the functions run inside a generator. Loops are compiled once for each sequence of kinds. A loop has at most ``LONGEST``
stages, so a chain of thousands reuses one of them.

A stage that tolerates errors (``datapipes.position.on_error``) has a ``try`` around its line, which costs nothing
without an error. Lines that call functions do nothing else, so the traceback of a KeyboardInterrupt tells which stage
has taken an element and not handed it on (``interrupted_at``).
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from types import CodeType, TracebackType
from typing import Any, Literal, Protocol

from datapipes.position.on_error import SKIP, ToleratedErrors
from datapipes.position.pandas_rows import is_series, rows_where

LONGEST = 64

StepKind = Literal["map", "filter"]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a loop: replace an element by ``fn(element)``, or keep it if ``fn(element)`` is True.

    ``faults``, if there are any, absorb the errors of ``fn``. Their result takes the place of the result of ``fn``;
    ``SKIP`` leaves the element out.
    """

    kind: StepKind
    fn: Callable[..., Any]
    faults: ToleratedErrors | None = None


class BatchFiller(Protocol):
    """The cell of a ``batch``: batches of elements, and the batch that is being filled."""

    size: int
    new_batch: Callable[[], list[Any]]
    partial: list[Any] | None

    def batches(self, source: Iterator[Any]) -> Iterator[list[Any]]:
        """Return the batches of an iterator that is no loop."""

    def begin(self) -> list[Any]:
        """Return the batch to fill: the one that was begun, or a new one."""

    def rest(self) -> Iterator[Any]:
        """Return the last batch, unless it is dropped."""


def loop(
    source: Iterator[Any], steps: list[Step], stages: list[Any], groups: BatchFiller | None = None
) -> Iterator[Any]:
    """Return the elements of ``source`` after all ``steps``, in batches if ``groups`` is given.

    ``stages`` are the pipes of the steps.
    """
    make = _compiled(tuple((step.kind, step.faults is not None) for step in steps), groups is not None)
    faults = [step.faults for step in steps]
    generator: Iterator[Any] = make(source, stages, groups, faults, *(step.fn for step in steps))
    return generator


def rows_of(element: Any, keep: object) -> Any:
    """Return the rows of a frame that a Series selects, or ``SKIP`` if it selects none."""
    if not is_series(keep):
        raise ValueError(
            f"Boolean output is required for `filter_fn`, got {type(keep).__name__}: {keep!r:.80}; "
            "return bool(...) of it"
        )
    rows = rows_where(element, keep)
    return rows if len(rows) else SKIP


_ANSWER: dict[StepKind, str] = {"map": "x", "filter": "keep"}
_CALL = ["{answer} = f{i}(x)"]
_TOLERANT_CALL = [
    "try:",
    "    {answer} = f{i}(x)",
    "except Exception as error:",
    "    {answer} = faults[{i}].absorb(error, x, partial(f{i}, x))",
    "    if {answer} is SKIP:",
    "        continue",
]
_AFTER: dict[StepKind, list[str]] = {
    "map": [],
    "filter": [
        "if keep is not True:",
        "    if keep is False:",
        "        continue",
        "    x = rows_of(x, keep)",
        "    if x is SKIP:",
        "        continue",
    ],
}
_HAND_ON = ["        yield x"]
_FULL = [
    "        groups.partial = None",
    "        yield batch",
    "        batch = groups.partial = new_batch()",
]
_GROUP = [
    "        batch.append(x)",
    "        if len(batch) == size:",
    *(f"    {line}" for line in _FULL),
]


@lru_cache(maxsize=256)
def _compiled(kinds: tuple[tuple[StepKind, bool], ...], grouped: bool) -> Callable[..., Iterator[Any]]:
    """Return the generator function for a sequence of kinds, each with whether it tolerates errors."""
    names = ", ".join(f"f{i}" for i in range(len(kinds)))
    lines = [f"def elements(source, stages, groups, faults, {names}):"]
    if grouped:
        lines += ["    size, new_batch, batch = groups.size, groups.new_batch, groups.begin()"]
        lines += ["    if len(batch) == size:", *_FULL]
    lines.append("    for x in source:")
    owner: dict[int, int] = {}
    for i, (kind, tolerant) in enumerate(kinds):
        for line in [*(_TOLERANT_CALL if tolerant else _CALL), *_AFTER[kind]]:
            lines.append("        " + line.format(i=i, answer=_ANSWER[kind]))
            owner[len(lines)] = i
    if not grouped and kinds[-1] == ("map", False):
        # One expression, so that the loop drops the element that it hands on; the call is on a line of its own.
        lines[-1:] = ["        yield (", f"            f{len(kinds) - 1}(x)", "        )"]
        owner[len(lines) - 1] = owner.pop(len(lines) - 2)
    else:
        lines += _GROUP if grouped else _HAND_ON
    if not grouped:
        lines.append("        x = None")  # drop the last element of a batch before the next ones are made
    lines += [f"    faults[{i}].finish()" for i, (_, tolerant) in enumerate(kinds) if tolerant]
    lines += ["    yield from groups.rest()"] if grouped else []
    text = "\n".join(lines) + "\n"
    shown = [f"{kind} with on_error" if tolerant else kind for kind, tolerant in kinds[:8]]
    more = [f"{len(kinds) - 8} more"] * (len(kinds) > 8) + ["batch"] * grouped
    name = f"<loop of stages: {', '.join([*shown, *more])}, #{len(_OWNERS)}>"  # linecache needs a unique name
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # tracebacks show the lines
    scope: dict[str, Any] = {"rows_of": rows_of, "partial": partial, "SKIP": SKIP}
    exec(compile(text, name, "exec"), scope)
    made: Callable[..., Iterator[Any]] = scope["elements"]
    _OWNERS[made.__code__] = owner
    _AT_WORK[made.__code__] = frozenset(line for line in owner if _CALLING.search(lines[line - 1]))
    return made


_OWNERS: dict[CodeType, dict[int, int]] = {}
_CALLING = re.compile(r"\bf\d+\(x\)|\brows_of\(")  # also the line of ``absorb``, which calls the function again
_AT_WORK: dict[CodeType, frozenset[int]] = {}  # the lines of a loop that call functions


def interrupted_at(traceback: TracebackType) -> tuple[Any, Any] | None:
    """Return the stage of a compiled loop that an interruption has stopped, and the element that it had taken.

    Return None for other code, and for a line at which the loop holds no element.
    """
    code, line = traceback.tb_frame.f_code, traceback.tb_lineno
    if line not in _AT_WORK.get(code, ()):
        return None
    variables = traceback.tb_frame.f_locals
    return variables["stages"][_OWNERS[code][line]], variables["x"]


def step_at(code: CodeType, line: int) -> int | None:
    """Return the number of the step of a line of a compiled loop, or None for any other line or code."""
    return _OWNERS.get(code, {}).get(line)


def is_loop(code: CodeType) -> bool:
    """Return whether a frame's code is one of the compiled loops."""
    return code in _OWNERS
