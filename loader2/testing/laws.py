"""The table of the laws, and the function that tries them. A broken law is reported on the shortest graph.

A law is a function that takes a specimen, and raises if the law does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from traceback import clear_frames
from typing import NamedTuple

from datapipes.errors import BadArgument, LawBroken
from loader2.testing.comparing import Broken, apart, brief
from loader2.testing.description import honest_len, innocence, pickling
from loader2.testing.ending import quiet_close
from loader2.testing.errors import error_and_go_on
from loader2.testing.placement import same_elements, signals
from loader2.testing.position import independence, resume, same_seed
from loader2.testing.specimen import Specimen, Tap

MOST_SHORTENED = 12
"""Largest number of elements of a source in the search for the shortest graph that breaks a law."""


class Law(NamedTuple):
    """Law: its check, its sentence, and advice for a class that breaks it."""

    hold: Callable[[Specimen], None]
    says: str
    remedy: str


LAWS: dict[str, Law] = {
    "same seed": Law(
        same_seed,
        "the order follows from the seed and the number of the epoch, and from nothing else",
        "draw from a generator on self that __init__ makes with a seed, such as Random(0), or from one that __iter__ "
        "makes from the seed of set_seed(self, seed), not from random, numpy or torch themselves; store nothing on the "
        "class; a service passes on the seed of agree()",
    ),
    "honest len": Law(
        honest_len,
        "the length is the number of elements, or a TypeError",
        "count in __len__ what __iter__ yields; without a __len__ the length is unknown, and no program relies on it; "
        "planned() of a service that gives more or fewer elements must return a graph of that length",
    ),
    "quiet close": Law(
        quiet_close,
        "wherever an iteration is left, its files are closed, its threads and processes have ended, without a message",
        "close and join in a `finally` or by a `with` around the yields; a service does so in finalize()",
    ),
    "independence": Law(
        independence,
        "two iterations at once do not touch each other",
        "keep changing values in local variables, or assign them to self, since iterating works on copies; do not keep "
        "them on the class, in a module, or in an object that the copies share",
    ),
    "innocence": Law(
        innocence,
        "iterating, saving, measuring and printing change no pipe; but an iteration without a loader advances the "
        "random generators of users' classes, and is counted outside of the pipe",
        "do not change a list, dict or other object of __init__ in place: make a new one in __iter__",
    ),
    "pickling": Law(
        pickling,
        "a graph that was pickled or copied prints alike and gives the same elements",
        "open files, connections, locks and threads in __iter__, not in __init__; attributes that __getstate__ leaves "
        "out have to be restored by __setstate__",
    ),
    "resume": Law(
        resume,
        "a state that is taken at any position resumes exactly there, in a newly built graph",
        "the state of state_dict() (of an operator: its cell) has to be complete at each yield: change it right before "
        "the yield that hands the element on, after all that may raise; a class without state_dict() is run again, and "
        "has to give the same elements again",
    ),
    "errors": Law(
        error_and_go_on,
        "an exception of the source or of a function reaches the user as it is; elements that it did not hit follow",
        "let exceptions pass as they are, and lose no element that was read before one of them: hand on, or keep, the "
        "elements that are there before the next one is asked for",
    ),
}
"""Laws for every pipe, wherever it runs. The later ones presume the first ones."""

PLACED: dict[str, Law] = {
    "same elements": Law(
        same_elements,
        "a graph gives the same elements through a service as in this process, epoch after epoch",
        "the graph of initialize() has to give each element once, taken from workers in turn, one each",
    ),
    **LAWS,
    "signals": Law(
        signals,
        "SIGTERM and SIGHUP end the processes that a service starts, and the program's handlers do not run in them",
        "set both to signal.SIG_DFL first of all in each process; block them with signal.pthread_sigmask before it is "
        "started, and unblock them there after that",
    ),
}
"""Laws for a reading service."""


def check(specimen: Specimen, laws: Iterable[str] = LAWS) -> None:
    """Try laws on a specimen, one after the other. Raise LawBroken for the first that does not hold."""
    __tracebackhide__ = True  # pytest then shows the caller's line
    known = LAWS if specimen.service is None else PLACED
    for name in laws:
        if name not in known:
            raise BadArgument(f"there is no law {name!r} here; the laws are {', '.join(map(repr, known))}")
        if broken := _tried(specimen, name):
            raise _error_of(specimen, name, broken) from (None if isinstance(broken, Broken) else broken)


def _tried(specimen: Specimen, name: str) -> Exception | None:
    if specimen.raises and name != "errors":
        return None
    try:
        PLACED[name].hold(specimen)
    except Exception as error:
        _let_go(error)
        return error
    return None


def _let_go(error: BaseException | None) -> None:
    """Clear the frames of an error and its causes, which keep their lines but no object that the law opened."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _error_of(specimen: Specimen, name: str, broken: Exception) -> LawBroken:
    """Return the error for a broken law, on the shortest source that shows it."""
    plain = Tap()
    specimen.build(plain)
    shortest = ""
    for most in range(min(*plain.lengths, MOST_SHORTENED) if plain.lengths else 0):
        short = specimen.shortened(most)
        if type(again := _tried(short, name)) is type(broken):
            specimen, broken, shortest = short, again, " (the shortest that shows it)"
            break
    if not isinstance(broken, Broken):
        broken = Broken(f"{type(broken).__name__}: {broken}")
    part, came, expected = apart(broken.came, broken.expected)
    return LawBroken(
        name,
        says=PLACED[name].says,
        subject=str(specimen),
        graph=f"{specimen.pipe()!r}{shortest}",
        where=f"{broken.where}{part}",
        expected=brief(expected),
        came=brief(came),
        remedy=PLACED[name].remedy,
    )
