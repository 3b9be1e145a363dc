"""Deaths of workers: how many a service survives, and which element is to blame.

The main process knows the position of each worker after the last element that was handed on. Another worker continues
there, so no element is lost, doubled or out of order. The new worker is watched for a while (``call_record``). If an
element kills its worker twice in a row, an error names the element, or it is left out and counted. All deaths by one
such element count as one of the allowed deaths. A service that replaces no worker remembers the last death of each
worker over iterations: the next epoch watches the worker around that element, and names it if it kills again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

from datapipes.errors import StateError, WorkerDied, WorkerError, WorkerTimeout
from datapipes.messages.warnings import warn
from datapipes.position.cells import count, fields, without_errors
from datapipes.position.seeds import ErrorCounts
from reading_services.workers.call_record import AtWork, Key, WatchOrder
from reading_services.workers.transport.protocol import EndReason, WorkerEnd

OnDeath = Literal["raise", "skip"]

BEFORE_ITS_FIRST: Final = "before its first element; what it had to say is on stderr"
"""The time of a death before the worker has sent an element."""

_IN_ITS_WORK: Final = (
    "in the middle of its work; next() on the same iterator starts another one, which goes on without a loss, "
    "and a new loop over the loader begins the next epoch; with restart=n the service does so by itself"
)
_ERRORS: Final = {
    EndReason.UNGUARDED: WorkerDied,
    EndReason.REFUSED: WorkerError,
    EndReason.LATE: WorkerTimeout,
}

_AT_LEAST: Final = 64
"""Elements for which a new worker is watched: the threads of a stage make elements before they are asked for."""


def error_of(end: WorkerEnd) -> BaseException:
    """Return the error for the end of a worker that is not replaced."""
    if end.reason is EndReason.COULD_NOT_START:
        failure: BaseException = end.error.error()
        return failure
    if end.reason is EndReason.DIED:
        return WorkerDied(f"{end.name} {end.how}, {_IN_ITS_WORK if end.has_spoken else BEFORE_ITS_FIRST}")
    return _ERRORS[end.reason](end.how)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The number of deaths that a service survives in an epoch, and the treatment of an element that causes them."""

    restarts: int = 0
    on_death: OnDeath = "raise"


class Suspicion(NamedTuple):
    """The work of a worker when it died. Elements are counted from the start of the iteration."""

    elements: range = range(0)
    """Elements that the worker was making."""
    watched_until: int = 0
    """A death before this element is one in the same row."""
    calls: frozenset[Key] = frozenset()
    uncounted: int = 0
    """The number of deaths in the row that do not count towards the allowed ones yet."""
    deaths: int = 1
    """The number of deaths in the row."""


Suspicions = dict[int | None, Suspicion]
"""By worker. None: the dispatcher."""


class Likeness(Enum):
    """The likeness of a death and the one before it (``compared``)."""

    CALL = "the same call"
    ELEMENT = "the same element"
    NARROWER = "an element of several"
    CALLS = "several calls"
    NEAR = "the same row"
    NEW = "nothing"


_BLAMED: Final = (Likeness.CALL, Likeness.ELEMENT)
_NAMED: Final = (*_BLAMED, Likeness.NARROWER, Likeness.CALLS)


def compared(before: Suspicion | None, now: Suspicion, is_one: bool) -> Likeness:
    """Return what a death has in common with the one before it: the first row of this table that holds.

    ========  ====================================================  ======================  =================
    likeness  condition                                             with restarts           without restarts
    ========  ====================================================  ======================  =================
    CALL      one call was under way at both deaths                 the call is blamed      error names it
    ELEMENT   each was making one element, the same one             the element is blamed   error names it
    NARROWER  it was making one (``is_one``) of those before        next death tells: free  error names it
    CALLS     several calls were under way at both deaths           counts, in this row     error names it
    NEAR      it was watched because of the death before            counts, in this row     plain error
    NEW       none of these                                         counts, in a new row    plain error
    ========  ====================================================  ======================  =================

    The same call may be made at another element's time, by a stage that runs ahead.
    """
    if before is None:
        return Likeness.NEW
    calls, first = before.calls & now.calls, now.elements.start
    if len(calls) == 1:
        return Likeness.CALL
    if len(now.elements) == 1 and now.elements == before.elements:
        return Likeness.ELEMENT
    if is_one and first in before.elements:
        return Likeness.NARROWER
    if calls:
        return Likeness.CALLS
    is_earlier = max(first + 1, now.elements.stop) <= before.elements.start
    return Likeness.NEW if is_earlier or first >= before.watched_until else Likeness.NEAR


@dataclass
class Deaths:
    """The deaths of one epoch."""

    allowed: RestartPolicy
    errors: ErrorCounts
    """The counts of tolerated errors, by stage. An element that is left out is one."""
    suspicions: Suspicions
    """The last death of each worker. Without restarts it may be from an earlier iteration."""
    _survived: int = 0
    _left_out: dict[int | None, dict[Key, int]] = field(default_factory=dict)
    """By worker: the calls that are left out, with the element up to which the worker is watched for other calls."""

    def watch(self, worker: int | None, begins: int) -> WatchOrder | None:
        """Return how to watch a worker that begins at an element. Return None if it is not watched."""
        left_out, suspicion = self._left_out.get(worker, {}), self.suspicions.get(worker)
        until = max([*left_out.values(), suspicion.watched_until if suspicion else 0])
        if not left_out and until <= begins:
            return None
        first = 0 if left_out or suspicion is None else max(0, suspicion.elements.start - _AT_LEAST - begins)
        return WatchOrder(max(0, until - begins), frozenset(left_out), first)

    def forget(self) -> None:
        """Suspect no element any more: the epoch has come to its end."""
        self.suspicions.clear()

    def save(self, starts: list[int]) -> dict[str, Any]:
        """Return the calls that are left out, and their errors, for a resume. Return an empty dict if there are none.

        Args:
            starts: By worker, the element at which a resume begins.
        """
        left_out = [
            [worker, *key, max(0, until - (0 if worker is None else starts[worker]))]
            for worker, calls in self._left_out.items()
            for key, until in calls.items()
        ]
        return {"errors": dict(self.errors.counts), "left_out": left_out} if left_out else {}

    def load(self, saved: Any, workers: int) -> None:
        """Load the result of ``save`` for this number of workers."""
        saved, errors = without_errors(saved)
        (left_out,) = fields(saved, "left_out")
        for entry in left_out if type(left_out) is list else [left_out]:
            if type(entry) is not list or len(entry) != 4 or type(entry[2]) is not bytes:
                raise StateError(f"left_out: expected [worker, place, digest, element], found {entry!r:.80}")
            worker = entry[0] if entry[0] is None else count(entry[0], "left_out", most=workers - 1)
            key = count(entry[1], "left_out"), entry[2]
            self._left_out.setdefault(worker, {})[key] = count(entry[3], "left_out")
        self.errors.add(errors)

    def survive(self, end: WorkerEnd, began: list[int]) -> None:
        """Note the end of a worker that another one replaces. Raise its error if that is not allowed.

        Args:
            end: The end.
            began: By worker, the element at which its opening began.
        """
        if end.reason is not EndReason.DIED:
            raise error_of(end)
        # The dispatcher counts from the start of the epoch.
        likeness = self._suspect(end, end.at_work, 0 if end.number is None else began[end.number])
        if not self.allowed.restarts:
            raise error_of(end)
        counts = likeness is not Likeness.NARROWER
        if counts and self._survived >= self.allowed.restarts:
            self._survived = 0  # a caller that goes on allows as many again
            error = error_of(end)
            error.add_note(f"  after {self.allowed.restarts} that were replaced (restart=){_calls_of(end)}")
            raise error
        self._survived += counts
        after = "without that element" if likeness in _BLAMED else "without a loss"
        more = self.allowed.restarts - self._survived
        with suppress(UserWarning):  # it is raised where warnings are errors
            warn(f"{end.name} {end.how}{_calls_of(end)}; it is replaced and goes on {after} ({more} more)")

    def _suspect(self, end: WorkerEnd, at_work: AtWork | None, began: int) -> Likeness:
        """Compare a death with the one before it, and remember it. Raise an error that names an element to blame."""
        if at_work is None:
            return Likeness.NEW
        before = self.suspicions.get(end.number)
        first = began + at_work.first
        calls = {call.key: call for call in at_work.calls if call.key is not None}
        elements, until = range(first, first + at_work.wanted), first + max(at_work.wanted, _AT_LEAST)
        now = Suspicion(elements, until, frozenset(calls))
        likeness = compared(before, now, at_work.wanted == 1 or (at_work.wanted == 0 and len(at_work.calls) == 1))
        if before is not None and likeness is not Likeness.NEW:
            uncounted = before.uncounted + (likeness is Likeness.NARROWER)
            now = now._replace(uncounted=uncounted, deaths=before.deaths + 1)
        self.suspicions[end.number] = now
        if not self.allowed.restarts and likeness in _NAMED:
            so = 'next() tries it again, and a service with restart=n and on_death="skip" leaves such elements out'
            raise _named(end, first, now.deaths, _calls_of(end), so)
        if before is None or not self.allowed.restarts or likeness not in _BLAMED:
            return likeness
        del self.suspicions[end.number]
        self._survived -= min(self._survived, before.deaths - before.uncounted)  # they are explained
        keys = before.calls & now.calls or now.calls
        if len(keys) != 1:
            so = "it died outside of any function of a stage, and so it cannot be left out"
            raise _named(end, first, now.deaths, "", so)
        (key,) = keys
        self._left_out.setdefault(end.number, {})[key] = until
        self.errors.add({calls[key].stage: int(calls[key].is_counted)})
        if self.allowed.on_death == "raise":
            so = 'next() goes on without it, and on_death="skip" leaves such elements out'
            raise _named(end, first, now.deaths, f": {calls[key].stage} of {calls[key].text}", so)
        return likeness


def _named(end: WorkerEnd, element: int, deaths: int, what: str, so: str) -> WorkerDied:
    """Return the error that names an element which has killed its worker."""
    its, of, counted = "its worker", f"worker {end.number}", "where this iteration began"
    if end.number is None:
        its, of, counted = "the dispatcher", "the dispatcher", "the start of the epoch"
    return WorkerDied(
        f"element {element} of {of} (counted from 0, from {counted}) has killed {its} {deaths} times in a row{what}; "
        f"last, {end.name} {end.how}; {so}"
    )


def _calls_of(end: WorkerEnd) -> str:
    """Return the calls of a worker at its death, as far as they are recorded, for a message."""
    calls = () if end.at_work is None else end.at_work.calls
    return f", at work on {'; '.join(f'{call.stage} of {call.text}' for call in calls)}" if calls else ""
