"""Error policies of a stage for elements that it cannot make: ``on_error`` and ``max_errors``.

By default an exception reaches the consumer. Another policy leaves the element out, tries again, or calls a function.
No error passes unseen. The first one of each opening is a warning, and all are counted. The counts are part of the
position, and ``iterator.errors`` and ``loader.errors`` show them. A stage with ``max_errors`` raises when there are
more. A stage tolerates only its own errors: those from above pass through it unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from datapipes.description.pipe import operator
from datapipes.description.printing import stage as printed
from datapipes.description.structure import Pipe
from datapipes.errors import BadArgument, Loader2Error, TooManyErrors
from datapipes.messages.short import element_shown
from datapipes.messages.warnings import users_line, warn
from datapipes.position.cells import Cell, count
from datapipes.position.seeds import ErrorCounts

if TYPE_CHECKING:
    from datapipes.position.steps import Step

OnError: TypeAlias = str | Callable[[Exception, Any], Any]
"""``"raise"``, ``"skip"``, ``"retry(n)"``, or a function of the error and the element that returns a replacement."""


class LeftOut(Loader2Error):
    """A call that has killed its worker was left out. Raised in place of the call."""


class _Skip(Enum):
    SKIP = "SKIP"

    def __repr__(self) -> str:
        return self.value


SKIP: Final = _Skip.SKIP
"""Returned by an ``on_error`` function to leave the element out."""

_RETRY = re.compile(r"retry\(\s*(\d+)\s*\)")
_SHARE_FROM = 100
"""A share of errors is checked from this number of elements on, and at the end."""


def check_policy(pipe: Any) -> None:
    """Check ``on_error`` and ``max_errors``. Raise BadArgument with the stage's call."""
    policy, most = pipe.on_error, pipe.max_errors
    if not (callable(policy) or policy in ("raise", "skip") or _retries(policy)):
        raise BadArgument(
            f"on_error must be 'raise', 'skip', 'retry(n)' with n >= 1, or a function of the error and the element, "
            f"got {policy!r:.80}, in {printed(pipe)}"
        )
    is_number = type(most) is int and most >= 0
    is_share = type(most) is float and 0 < most < 1
    if not (most is None or is_number or is_share):
        raise BadArgument(
            "max_errors must be None, a number of errors, or a share of the elements between 0.0 and 1.0, "
            f"got {most!r:.80}, in {printed(pipe)}"
        )
    if most is not None and policy == "raise":
        raise BadArgument(f"max_errors limits what on_error lets pass, and on_error is 'raise', in {printed(pipe)}")


@operator
class Tolerant:
    """Base of operators with an error policy: ``on_error`` and ``max_errors``."""

    _: KW_ONLY
    on_error: OnError = "raise"
    max_errors: int | float | None = None

    def __post_init__(self) -> None:
        check_policy(self)


def may_leave_out(pipe: object) -> bool:
    """Return whether a stage's policy may leave elements out."""
    policy: OnError = getattr(pipe, "on_error", "raise")
    return policy == "skip" or callable(policy)


def _retries(policy: object) -> int:
    found = _RETRY.fullmatch(policy) if isinstance(policy, str) else None
    return 0 if found is None else int(found[1])


class ToleratedErrors:
    """The tolerated errors of one stage in one opening."""

    def __init__(self, pipe: Any) -> None:
        self._stage = printed(pipe)
        self._policy: OnError = pipe.on_error
        self._most: int | float | None = pipe.max_errors
        self.tolerated = 0
        self.seen = 0
        self._warned = False
        self._reported = ErrorCounts()

    def report_to(self, errors: ErrorCounts) -> None:
        """Add the present and all later counts to the errors of the session."""
        self._reported = errors
        if self.tolerated:
            errors.add({self._stage: self.tolerated})

    @property
    def counts_elements(self) -> bool:
        """Whether the stage has to count the elements that it meets in ``seen``."""
        return type(self._most) is float

    @property
    def retries(self) -> bool:
        """Whether ``absorb`` retries, so that it returns the element itself."""
        return _retries(self._policy) > 0

    def absorb(self, error: Exception, element: Any, again: Callable[[], Any] | None = None) -> Any:
        """Return a replacement for an element that could not be made, or ``SKIP``, or raise the error.

        ``again`` tries to make the element once more.
        """
        try:
            self.met(error, element)
            if self._policy == "skip":
                return SKIP
            if callable(self._policy):
                return self._policy(error, element)
            if again is not None:
                for left in reversed(range(_retries(self._policy))):
                    try:
                        return again()
                    except Exception as another:
                        error = another
                        if left:
                            self.met(error, element)
                error.add_note(f"after {self._policy}, in {self._stage}")
            raise error
        finally:
            del error  # its traceback refers to this frame, and so to the iterator

    def met(self, error: Exception, *element: Any) -> None:
        """Count an error that does not end the stream, and warn of the first one.

        Args:
            error: The error.
            element: The element that could not be made, if it is known.
        """
        self.tolerated += 1
        self._reported.add({self._stage: 1})
        self._judge(error, at_end=False)
        if not self._warned:
            self._warned = True
            places = [f"on {element_shown(each)}" for each in element]
            places += [f"at {line}" for line in [users_line(error)] if line is not None]
            warn(
                f"{self._stage} goes on after {type(error).__name__}: {', '.join([str(error)[:200], *places])} "
                "(iterator.errors counts such errors; this is the first)"
            )

    def finish(self) -> None:
        """Check the share of errors at the end of the stream."""
        if self.counts_elements and self.tolerated:
            self._judge(None, at_end=True)

    def _judge(self, error: Exception | None, at_end: bool) -> None:
        most = self._most
        if most is None:
            return
        if type(most) is float:
            allowed = most * (self.seen if at_end else max(self.seen, _SHARE_FROM))
            met = f"{self.tolerated} errors among {self.seen} elements"
        else:
            allowed, met = most, f"{self.tolerated} errors"
        if self.tolerated > allowed:
            raise TooManyErrors(f"{met}, more than max_errors={most!r} lets pass, in {self._stage}") from error

    def save(self) -> list[int]:
        return [self.tolerated, self.seen]

    def load(self, saved: Any) -> None:
        """Restore saved counts."""
        tolerated, seen = saved if type(saved) is list and len(saved) == 2 else (None, None)
        self.tolerated, self.seen = count(tolerated, "errors"), count(seen, "elements seen")

    def go_on(self, saved: Any) -> None:
        """Continue the counts of an earlier opening, which has warned of its first error."""
        self.load(saved)
        self._warned = self.tolerated > 0


class StepErrorsCell(Cell):
    """Position of a stage of one element at a time that tolerates errors: their counts."""

    faults: ToleratedErrors

    def __init__(self, pipe: Pipe) -> None:
        self.faults = ToleratedErrors(pipe)

    def tolerant(self, step: Step) -> Step:
        """Return the stage's step, which absorbs its errors and counts its elements if that is needed."""
        faults, fn = self.faults, step.fn

        def counted(element: Any) -> Any:
            faults.seen += 1
            return fn(element)

        return replace(step, fn=counted if faults.counts_elements else fn, faults=faults)

    def save(self) -> list[int]:
        return self.faults.save()

    def load(self, saved: Any) -> None:
        self.faults.load(saved)
