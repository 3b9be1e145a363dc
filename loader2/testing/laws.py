"""The table of the laws, and the one function that tries them: a law that does not hold is told on the shortest graph.

A law is a function that is given a specimen and raises where the law does not hold.
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
"""Up to how many elements of a source to look for the shortest graph that breaks a law."""


class Law(NamedTuple):
    """A law: what holds a specimen against it, what it says, and what to look at where it does not hold."""

    hold: Callable[[Specimen], None]
    says: str
    remedy: str


LAWS: dict[str, Law] = {
    "same seed": Law(
        same_seed,
        "the order follows from the seed and the number of the epoch, and from nothing else",
        "give the class a method set_seed(self, seed) that keeps the seed, and in __iter__ draw from a generator made "
        "from it, such as Random(self.seed), not from one that __init__ has made, nor from random, numpy or torch "
        "themselves; keep nothing on the class; a service hands on the seed that agree() is given",
    ),
    "honest len": Law(
        honest_len,
        "the length is the number of elements, or a TypeError",
        "count in __len__ what __iter__ yields; without a __len__ the length is unknown, and no program relies on it; "
        "a service that gives more or fewer elements has planned() return a graph that is as long",
    ),
    "quiet close": Law(
        quiet_close,
        "wherever an iteration is left, its files are closed, its threads and processes have ended, nobody complains",
        "close and join in a `finally` or by a `with` around the yields; a service does so in finalize()",
    ),
    "independence": Law(
        independence,
        "two iterations at once do not touch each other",
        "keep what changes while iterating in local variables, or assign it to self, since iterating works on copies; "
        "not on the class, in a module, or in an object that the copies share",
    ),
    "innocence": Law(
        innocence,
        "iterating, saving, measuring and printing change no pipe; only plain iterations since set_seed() are counted, "
        "outside of the pipe",
        "do not change in place a list, dict or other object that __init__ was given or has made: make it in __iter__",
    ),
    "pickling": Law(
        pickling,
        "a graph that was pickled or copied prints alike and gives the same elements",
        "open files, connections, locks and threads in __iter__, not in __init__; what __getstate__ leaves out has to "
        "be made anew by __setstate__",
    ),
    "resume": Law(
        resume,
        "a state that is taken at any position goes on exactly there, in a graph that was built anew",
        "what state_dict() tells (of an operator: its cell) has to be complete at each yield: change it right before "
        "the yield that hands the element on, after all that may raise; a class without state_dict() is run again, and "
        "has to give the same again",
    ),
    "errors": Law(
        error_and_go_on,
        "an exception of the source or of a function reaches the user as it is; what it has not hit follows",
        "let exceptions pass as they are, and lose nothing that was read before one of them: hand on, or keep, what is "
        "there already before the next element is asked for",
    ),
}
"""What holds for every pipe, wherever it runs; the first are those without which the others mean nothing."""

PLACED: dict[str, Law] = {
    "same elements": Law(
        same_elements,
        "a graph gives through a service what it gives in this process, epoch after epoch",
        "what initialize() returns has to give each element of the graph once, taken from workers in turn, one each",
    ),
    **LAWS,
    "signals": Law(
        signals,
        "SIGTERM and SIGHUP end the processes that a service starts, and the program's handlers do not run in them",
        "set both to signal.SIG_DFL first of all in each process; block them with signal.pthread_sigmask before it is "
        "started, and unblock them there after that",
    ),
}
"""What holds for a reading service."""


def check(specimen: Specimen, laws: Iterable[str] = LAWS) -> None:
    """Try some laws on a specimen, one after the other; the first that does not hold is raised as a ``LawBroken``."""
    __tracebackhide__ = True  # pytest shows where the pipe was given to the kit
    known = LAWS if specimen.service is None else PLACED
    for name in laws:
        if name not in known:
            raise BadArgument(f"there is no law {name!r} here; the laws are {', '.join(map(repr, known))}")
        if broken := _tried(specimen, name):
            raise _told(specimen, name, broken) from (None if isinstance(broken, Broken) else broken)


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
    """Have the tracebacks of an error and its causes keep their lines, and nothing of what the law had opened."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _told(specimen: Specimen, name: str, broken: Exception) -> LawBroken:
    """What is broken, on the shortest source on which it is: the first ones, since most show on few elements."""
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
