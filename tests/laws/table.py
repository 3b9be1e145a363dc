"""The conformance kit: every operator keeps every law. ``python -m tests.laws`` prints a table of them.

A law is a function that is given a specimen and raises where the law does not hold. ``broken`` tries one law on the
specimens that it is given and says what is wrong, specimen by specimen.
"""

from __future__ import annotations

import faulthandler
import gc
import warnings
from collections.abc import Callable, Iterable
from time import perf_counter

from tests.laws import position
from tests.laws.description import honest_len, innocence, pickling
from tests.laws.ending import quiet_close
from tests.laws.errors import error_and_go_on
from tests.laws.position import independence, resume, same_seed
from tests.specimens.catalogue import operators, specimens_of
from tests.specimens.specimen import Specimen

Law = Callable[[Specimen], None]

LAWS: dict[str, Law] = {
    "resume": resume,
    "independence": independence,
    "innocence": innocence,
    "pickling": pickling,
    "quiet close": quiet_close,
    "honest len": honest_len,
    "same seed": same_seed,
    "errors": error_and_go_on,
}

PATIENCE = 600  # seconds for the whole table; then the stacks are printed, and it ends


def broken(specimens: Iterable[Specimen], law: str) -> list[str]:
    """Complaints about specimens under one law."""
    wrong = []
    for specimen in specimens:
        if not specimen.raises or law == "errors":
            try:
                LAWS[law](specimen)
            except Exception as error:
                where = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                wrong.append(f"{specimen}: {where}{error}")
    return wrong


def main(asked: list[str]) -> int:
    """Print the table, and below it what is wrong; 1 if anything is."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    position.thorough = True
    gc.freeze()  # what is imported need not be searched for what is left behind
    rows = [operator for operator in operators() if not asked or operator in asked]
    width = max(map(len, rows), default=0)
    print("operator".ljust(width), *LAWS, sep="  ")
    wrong: list[str] = []
    seconds = dict.fromkeys(LAWS, 0.0)
    for operator in rows:
        print(operator.ljust(width), end="", flush=True)
        for law in LAWS:
            started = perf_counter()
            with warnings.catch_warnings(action="error"):
                found = broken(specimens_of(operator), law)
            seconds[law] += perf_counter() - started
            wrong += [f"{law}: {one}" for one in found]
            print("  " + ("FAILED" if found else "ok").ljust(len(law)), end="", flush=True)
        print()
    print("seconds".ljust(width), *(f"{spent:.1f}".ljust(len(law)) for law, spent in seconds.items()), sep="  ")
    print(f"\n{len(wrong)} broken" if wrong else "\nEvery operator keeps every law.", *wrong, sep="\n")
    return 1 if wrong else 0
