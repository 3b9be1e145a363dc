"""Workers that die, and are replaced: how often, and which element is to blame.

Home knows where each worker was after the last element that it handed on, so another worker can go on from there: no
element is lost, doubled or out of order. The new one is watched for a while (``at_work``). An element that kills its
worker twice in a row is an error that names it, or is left out and counted; it takes one of the deaths that are
allowed, however often the worker has died of it. Where no worker is replaced, the pool remembers the last death of each
worker over iterations: the next epoch watches the worker around that element and names it when it kills again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from datapipes.errors import StateError, WorkerDied
from datapipes.messages.warnings import warn
from datapipes.position.cells import count, fields, without_errors
from datapipes.position.seeds import ErrorCounts
from reading_services.workers.call_record import AtWork, Key, WatchOrder

OnDeath = Literal["raise", "skip"]

BEFORE_ITS_FIRST: Final = "before its first element; what it had to say is on stderr"
"""When a worker has ended that was never heard of."""

_AT_LEAST: Final = 64
"""Elements for which a new worker is watched: what a stage's own threads make ahead is made before it is asked for."""


class WorkerEnd(NamedTuple):
    """A worker that has ended without a word."""

    worker: int | None
    """Its number; None if it is the one that deals out elements to all others, who have to be replaced with it."""
    name: str
    how: str
    at_work: AtWork | None = None


def died(ended: WorkerEnd, more: str) -> WorkerDied:
    """The error for a worker that has ended."""
    error = WorkerDied(f"{ended.name} {ended.how}, {more}")
    error.ended = ended
    return error


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How many deaths a service survives in an epoch, and what becomes of an element that causes them."""

    restarts: int = 0
    on_death: OnDeath = "raise"


class Suspicion(NamedTuple):
    """What a worker was at work on when it died; elements are counted from where this iteration began."""

    elements: range = range(0)
    """Those of which it was making one;"""
    watched_until: int = 0
    """a death before this one is one in a row."""
    calls: frozenset[Key] = frozenset()
    uncounted: int = 0
    """How many deaths in this row are none of those that are allowed, as yet."""
    deaths: int = 0


Suspicions = dict[int | None, Suspicion]
"""By worker; None: the dispatcher."""


@dataclass
class Deaths:
    """The deaths of one epoch."""

    allowed: RestartPolicy
    errors: ErrorCounts
    """The counts of tolerated errors, by stage: an element that is left out is one."""
    suspicions: Suspicions
    """What the last death of each worker was at; without restarts it may be from an earlier iteration."""
    _survived: int = 0
    _left_out: dict[int | None, dict[Key, int]] = field(default_factory=dict)
    """By worker: calls that are left out, with an element up to which the worker is watched for others."""

    def watch(self, worker: int | None, begins: int) -> WatchOrder | None:
        """How a worker that begins at an element has to be watched, if at all."""
        left_out, suspicion = self._left_out.get(worker, {}), self.suspicions.get(worker)
        until = max([*left_out.values(), suspicion.watched_until if suspicion else 0])
        if not left_out and until <= begins:
            return None
        first = 0 if left_out or suspicion is None else max(0, suspicion.elements.start - _AT_LEAST - begins)
        return WatchOrder(max(0, until - begins), frozenset(left_out), first)

    def forget(self) -> None:
        """Suspect no element any more: the epoch has come to its end."""
        self.suspicions.clear()

    def save(self, told: list[int]) -> dict[str, Any]:
        """Return what is left out, and the errors that it counts as, for a resume; empty if there is nothing.

        Args:
            told: By worker, the element at which a resume begins.
        """
        left_out = [
            [worker, *key, max(0, until - (0 if worker is None else told[worker]))]
            for worker, calls in self._left_out.items()
            for key, until in calls.items()
        ]
        return {"errors": dict(self.errors.counts), "left_out": left_out} if left_out else {}

    def load(self, saved: Any, workers: int) -> None:
        """Take up what ``save`` returned, for so many workers."""
        saved, errors = without_errors(saved)
        (left_out,) = fields(saved, "left_out")
        for entry in left_out if type(left_out) is list else [left_out]:
            if type(entry) is not list or len(entry) != 4 or type(entry[2]) is not bytes:
                raise StateError(f"left_out: expected [worker, place, digest, element], found {entry!r:.80}")
            worker = entry[0] if entry[0] is None else count(entry[0], "left_out", most=workers - 1)
            key = count(entry[1], "left_out"), entry[2]
            self._left_out.setdefault(worker, {})[key] = count(entry[3], "left_out")
        self.errors.add(errors)

    def survive(self, error: WorkerDied, began: list[int]) -> WorkerEnd:
        """Note a death, and return who has to be replaced; an error if that is not allowed.

        Args:
            error: Tells who has ended.
            began: By worker, the element at which its opening began.
        """
        ended = error.ended
        if not isinstance(ended, WorkerEnd):
            raise error
        if not self.allowed.restarts:
            raise self._named(ended, began) or error
        counts, left_out = True, sum(map(len, self._left_out.values()))
        if ended.at_work is not None:
            counts = self._suspect(ended, ended.at_work, _began(ended, began))
        if counts and self._survived >= self.allowed.restarts:
            self._survived = 0  # whoever goes on has said that it shall go on
            error.add_note(f"  after {self.allowed.restarts} that were replaced (restart=){_said_of(ended)}")
            raise error
        self._survived += counts
        after = "without a loss" if sum(map(len, self._left_out.values())) == left_out else "without that element"
        more = self.allowed.restarts - self._survived
        with suppress(UserWarning):  # where warnings are errors, nobody is there to catch one
            warn(f"{ended.name} {ended.how}{_said_of(ended)}; it is replaced and goes on {after} ({more} more)")
        return ended

    def _named(self, ended: WorkerEnd, began: list[int]) -> WorkerDied | None:
        """Return an error that names the element, if a worker has died of it before, where none is replaced unasked."""
        worker, at_work = ended.worker, ended.at_work
        if at_work is None:
            return None
        before = self.suspicions.get(worker, Suspicion())
        first = _began(ended, began) + at_work.first
        elements, deaths = range(first, first + at_work.wanted), before.deaths + 1
        calls = frozenset(call.key for call in at_work.calls if call.key is not None)
        same_call = bool(before.calls & calls)  # a prefetch makes it at another element's time
        if not same_call and (first >= before.watched_until or elements.stop <= before.elements.start):
            before, deaths = Suspicion(), 1
        until = first + max(at_work.wanted, _AT_LEAST)
        self.suspicions[worker] = Suspicion(elements, until, calls, deaths=deaths)
        if not same_call and not (_is_one(at_work) and first in before.elements):
            return None
        return WorkerDied(
            f"{_element(worker, first)} has killed {_its(worker)} {deaths} times in a row{_said_of(ended)}; last, "
            f"{ended.name} {ended.how}; next() tries it again, "
            'and a service with restart=n and on_death="skip" leaves such elements out'
        )

    def _suspect(self, ended: WorkerEnd, at_work: AtWork, began: int) -> bool:
        """Blame an element, if the worker has died of the same one before; whether the death is one to be allowed."""
        worker = ended.worker
        before = self.suspicions.get(worker, Suspicion())
        first = began + at_work.first
        calls = {call.key: call for call in at_work.calls if call.key is not None}
        elements, until = range(first, first + at_work.wanted), first + max(at_work.wanted, _AT_LEAST)
        if first >= before.watched_until:
            before = Suspicion()
        same = len(elements) == 1 and elements == before.elements
        both = before.calls & calls.keys() or (frozenset(calls) if same else frozenset())
        if not same and len(both) != 1:  # of several calls at a time, it may be any
            # The first death has left it open which of some elements it was. Is it this one, the next one will tell.
            tells = _is_one(at_work) and len(before.elements) > 1 and first in before.elements
            uncounted = before.uncounted + tells
            now = Suspicion(elements, until, frozenset(calls), uncounted, before.deaths + 1)
            self.suspicions[worker] = now
            return not tells
        self.suspicions.pop(worker, None)
        deaths = before.deaths + 1
        self._survived -= min(self._survived, before.deaths - before.uncounted)  # they are explained
        key = next(iter(both)) if len(both) == 1 else None
        if key is not None:
            self._left_out.setdefault(worker, {})[key] = until
            self.errors.add({calls[key].stage: int(calls[key].is_counted)})
        if key is None or self.allowed.on_death == "raise":
            what = f": {calls[key].stage} of {calls[key].text}" if key is not None else ""
            after = "next() goes on without it" if key is not None else "it died outside of any function of a stage"
            how = 'on_death="skip" leaves such elements out' if key is not None else "so it cannot be left out"
            raise WorkerDied(
                f"{_element(worker, first)} has killed {_its(worker)} {deaths} times in a row{what}; last, "
                f"{ended.name} {ended.how}; {after}, and {how}"
            )
        return True  # one for the element: if all kill, this has an end


def _began(ended: WorkerEnd, began: list[int]) -> int:
    """Return the element at which a worker's opening began; the dispatcher counts from the start of the epoch."""
    return 0 if ended.worker is None else began[ended.worker]


def _is_one(at_work: AtWork) -> bool:
    """Whether a worker was making one element, or none while a thread of a stage called a function ahead."""
    return at_work.wanted == 1 or (at_work.wanted == 0 and len(at_work.calls) == 1)


def _element(worker: int | None, number: int) -> str:
    if worker is None:
        return f"element {number} of the dispatcher (counted from 0, from the start of the epoch)"
    return f"element {number} of worker {worker} (counted from 0, from where this iteration began)"


def _its(worker: int | None) -> str:
    return "the dispatcher" if worker is None else "its worker"


def _said_of(ended: WorkerEnd) -> str:
    """What it was at work on, as far as it has written that down."""
    calls = () if ended.at_work is None else ended.at_work.calls
    return f", at work on {'; '.join(f'{call.stage} of {call.text}' for call in calls)}" if calls else ""
