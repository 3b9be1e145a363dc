"""Contenders take turns: what slows the machine for a moment slows all of them, and ratios stay true.

In every round each contender runs once. Every other round is in reverse order, so that no contender always runs after
the same neighbour. A contender's time is its best round, because noise only ever adds. Before the first round each
contender's output is compared with a reference, so that all contenders do the same work. A contender that cannot run,
or whose output differs, keeps its row and says why; the others go on.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.stopwatch import exhaust, seconds_of
from benchmarks.table import Row, Table
from benchmarks.workload import fingerprint

S = TypeVar("S", bound=Iterable[object])

OURS = "ours"

# A slow contender is given this much time altogether, but some rounds in any case: the best of too few is unfair to it.
SECONDS_PER_CONTENDER = 4.0
FEWEST_ROUNDS = 4


@dataclass(frozen=True)
class Contender:
    """One way to do the work. `seconds` runs one whole pass; `check` gives the fingerprint of all outputs.

    A contender with `absent` is not installed: nothing of it is called, and the text tells how to get it.
    """

    name: str
    family: str
    seconds: Callable[[], float]
    check: Callable[[], str]
    absent: str = ""


@dataclass(frozen=True)
class Claim:
    """The fastest of family `of` runs at `at_least` times the speed of the fastest of family `over`."""

    of: str
    over: str
    at_least: float

    @property
    def row_family(self) -> str:
        """The row that shows the claim: the rival's, or that of the variant of ours which is held against ours."""
        return self.over if self.of == OURS else self.of


@dataclass
class Standing:
    contender: Contender
    rounds: list[float] = field(default_factory=list)
    failure: str = ""

    @property
    def best(self) -> float:
        return min(self.rounds)

    @property
    def measured(self) -> bool:
        return bool(self.rounds) and not self.failure


def contender(
    name: str, family: str, build: Callable[[], S], consume: Callable[[S], object] = exhaust, in_order: bool = True
) -> Contender:
    """A contender of this process: `build` makes a fresh stream for every round, `consume` takes all of it."""
    return Contender(name, family, lambda: seconds_of(build, consume), lambda: fingerprint(build(), in_order))


def race(
    contenders: Sequence[Contender],
    rounds: int,
    reference: Contender | None = None,
    seconds_each: float = SECONDS_PER_CONTENDER,
    far_behind: float = float("inf"),
) -> list[Standing]:
    """Let the contenders take turns for `rounds` rounds; those whose output is not the reference's stay out.

    One that has taken `far_behind` times as long as the fastest keeps its first round, and spends no more of the time.
    """
    expected = reference.check() if reference else None
    standings = [Standing(each, failure=each.absent or _misfit(each, expected)) for each in contenders]
    for number in range(rounds):
        fastest = min((standing.best for standing in standings if standing.measured), default=0.0)
        for standing in standings if number % 2 == 0 else reversed(standings):
            spent = number >= FEWEST_ROUNDS and sum(standing.rounds) > seconds_each
            spent = spent or (bool(standing.rounds) and standing.best > far_behind * fastest)
            if standing.failure or spent:
                continue
            try:
                standing.rounds.append(standing.contender.seconds())
            except Exception as error:  # whatever a contender raises is its own row, not the end of the race
                standing.failure = _described(error)
    return standings


def contest(
    title: str,
    contenders: Sequence[Contender],
    claims: Sequence[Claim],
    *,
    elements: int,
    rounds: int,
    reference: Contender,
    notes: Sequence[str] = (),
) -> Table:
    """Race the contenders and hold the claims against the outcome."""
    standings = race(contenders, rounds, reference)
    fastest = _fastest_of_families(standings)
    rows = [_row(standing, fastest, claims, elements) for standing in standings]
    return Table(title, ("contender", "elements/s", "ns/element", "rounds", "ratio", ""), rows, notes)


def _misfit(each: Contender, expected: str | None) -> str:
    if expected is None:
        return ""
    try:
        found = each.check()
    except Exception as error:  # as above: the reason belongs in the contender's row
        return _described(error)
    return "" if found == expected else "its output is not that of the others"


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _fastest_of_families(standings: Iterable[Standing]) -> dict[str, Standing]:
    fastest: dict[str, Standing] = {}
    for standing in sorted((each for each in standings if each.measured), key=lambda each: each.best):
        fastest.setdefault(standing.contender.family, standing)
    return fastest


def _row(standing: Standing, fastest: dict[str, Standing], claims: Sequence[Claim], elements: int) -> Row:
    family = standing.contender.family
    claim = next((each for each in claims if each.row_family == family), None)
    required = f">= {claim.at_least:g}" if claim else ""
    if not standing.measured:
        # Of several ways in one family only the fastest counts, so one that fails beside another costs nothing.
        lost = claim is not None and not standing.contender.absent and family not in fastest
        return Row((standing.contender.name,), required, False if lost else None, f"not measured: {standing.failure}")
    best = standing.best
    figures = [standing.contender.name, f"{elements / best:,.0f}", f"{best / elements * 1e9:,.1f}"]
    figures.append(str(len(standing.rounds)))
    if family == OURS:
        return Row(figures)
    of, over = (claim.of, claim.over) if claim else (OURS, family)
    other = over if of == family else of
    claimed_here = claim is not None and standing is fastest[family]
    if other not in fastest:
        # Half a ratio shows nothing: what was claimed of it is missed.
        return Row(figures, required, False) if claimed_here else Row(figures)
    # The row stands for itself; the other family is represented by its fastest.
    ratio = fastest[other].best / best if of == family else best / fastest[other].best
    figures += [
        f"{ratio:.3f}" if ratio < 2 else f"{ratio:.1f}",
        f"this / {other}" if of == family else f"{other} / this",
    ]
    return Row(figures, required, ratio >= claim.at_least) if claim and claimed_here else Row(figures)
