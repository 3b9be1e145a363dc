"""The catalogue against the kit: ``python -m tests.laws`` prints a table of every operator and every law.

What a law says, and how it is tried, is in ``loader2.testing``. Here stand the specimens that it is tried on.
"""

from __future__ import annotations

import faulthandler
import gc
import warnings
from collections.abc import Iterable
from dataclasses import replace
from time import perf_counter

from datapipes.errors import LawBroken
from loader2.testing import LAWS, Specimen, check
from tests.specimens.catalogue import operators, specimens_of

PATIENCE = 3600  # seconds for the whole table; then the stacks are printed, and it ends


def broken(specimens: Iterable[Specimen], law: str) -> list[str]:
    """Complaints about specimens under one law."""
    wrong = []
    for specimen in specimens:
        try:
            check(specimen, [law])
        except LawBroken as error:
            wrong.append(str(error))
    return wrong


def main(asked: list[str]) -> int:
    """Print the table, and below it what is wrong; 1 if anything is."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    gc.freeze()  # what is imported need not be searched for what is left behind
    rows = [operator for operator in operators() if not asked or operator in asked]
    width = max(map(len, rows), default=0)
    print("operator".ljust(width), *LAWS, sep="  ")
    wrong: list[str] = []
    seconds = dict.fromkeys(LAWS, 0.0)
    for operator in rows:
        print(operator.ljust(width), end="", flush=True)
        specimens = [replace(specimen, thorough=True) for specimen in specimens_of(operator)]
        for law in LAWS:
            started = perf_counter()
            with warnings.catch_warnings(action="error"):
                found = broken(specimens, law)
            seconds[law] += perf_counter() - started
            wrong += found
            print("  " + ("FAILED" if found else "ok").ljust(len(law)), end="", flush=True)
        print()
    print("seconds".ljust(width), *(f"{spent:.1f}".ljust(len(law)) for law, spent in seconds.items()), sep="  ")
    print(f"\n{len(wrong)} broken" if wrong else "\nEvery operator keeps every law.", *wrong, sep="\n")
    return 1 if wrong else 0
