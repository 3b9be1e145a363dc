"""Protocol of reports, verdicts and bad news among ranks: plain data and pure functions, no I/O.

A *report* has the facts of one rank, or those of several ranks put together by ``merged``. A *verdict* follows when a
report covers all ranks. Counts only grow, and so do verdicts: a late verdict is never wrong.

A rank's bad news goes to all other ranks at once. There are five kinds. ``died`` (without a message) and ``gone`` (shut
down) are final. ``left`` means that a rank left an epoch after a number of elements: other ranks may go as far.
``failed`` (an error while loading) and ``silent`` (a timeout) concern one attempt at an epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from datapipes.errors import PrefetchTimeoutError, RankDied, RankFailed, RankLeft, RanksError

RankReport: TypeAlias = dict[str, Any]
Uneven: TypeAlias = Literal["drop", "pad", "repeat", "error"]

POLICIES: Final = ("drop", "pad", "repeat", "error")
_NAMED = 4
"""The most ranks to name of those with the same fact, and at each end of a list of counts."""

News: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[int, int]
"""The number of an epoch, and the number of the attempt at it: a new attempt begins after an error."""


class Topic(Protocol):
    """Protocol of a topic: merging of reports, and the verdict on them."""

    def merged(self, reports: Sequence[RankReport]) -> RankReport:
        """Merge the reports of several ranks, or groups of ranks, into one."""

    def verdict(self, whole: RankReport) -> RankReport:
        """Return the verdict on the report of all ranks."""

    def behind(self, reports: dict[int, RankReport]) -> list[int]:
        """Return the ranks whose report keeps all other ranks waiting."""


class EpochAgreement:
    """Topic before an epoch: whether all ranks are about to do the same, and rank 0's run for all of them."""

    @staticmethod
    def report(rank: int, run: tuple[int, ...], facts: dict[str, str]) -> RankReport:
        """Return the report of one rank: its facts, and the run if it is rank 0."""
        said = {name: {text: [1, [rank]]} for name, text in facts.items()}
        return {"run": list(run) if rank == 0 else None, "facts": said}

    def merged(self, reports: Sequence[RankReport]) -> RankReport:
        run = next((report["run"] for report in reports if report["run"] is not None), None)
        names = dict.fromkeys(name for report in reports for name in report["facts"])
        said: dict[str, dict[str, list[Any]]] = {name: {} for name in names}
        for report in reports:
            for name, texts in report["facts"].items():
                for text, (count, ranks) in texts.items():
                    known = said[name].get(text, [0, []])
                    said[name][text] = [known[0] + count, sorted({*known[1], *ranks})[:_NAMED]]
        return {"run": run, "facts": said}

    def verdict(self, whole: RankReport) -> RankReport:
        differing = {name: texts for name, texts in whole["facts"].items() if len(texts) > 1}
        return {"run": whole["run"], "differing": differing}

    def behind(self, reports: dict[int, RankReport]) -> list[int]:
        return []

    @staticmethod
    def difference(verdict: RankReport) -> str:
        """Return the differences among the ranks as text. It is empty if there are none.

        >>> talk = EpochAgreement()
        >>> both = talk.merged([talk.report(0, (5, 0, False), {"graph": ".batch(8)"}),
        ...                     talk.report(1, (6, 0, False), {"graph": ".batch(4)"})])
        >>> EpochAgreement.difference(talk.verdict(both))
        'graph: rank 0 has .batch(8); rank 1 has .batch(4)'
        """
        return "\n".join(
            f"{name}: " + "; ".join(f"{_named(*who)} {text}" for text, who in texts.items())
            for name, texts in verdict["differing"].items()
        )


def _named(count: int, ranks: Iterable[int]) -> str:
    some = ", ".join(map(str, ranks))
    if count == 1:
        return f"rank {some} has"
    return f"ranks {some} have" if count <= _NAMED else f"ranks {some} and {count - _NAMED} more have"


class RankProgress:
    """Topic of an epoch: progress of each rank, and the limit up to which all ranks may go.

    Fields of a report: ``open``, the lowest count of the ranks that may get more; ``first`` and ``last``, the lowest
    and the highest count of the ranks that have ended; ``promised``, whether one of the latter only knows its length;
    ``finished``, whether all have handed on everything; ``given``, the lowest and the highest starting position.
    """

    def __init__(self, uneven: Uneven) -> None:
        self.uneven = uneven

    def report(
        self, rank: int, have: int, ended: bool, given: int, promised: bool = False, finished: bool = False
    ) -> RankReport:
        """Return the report of one rank's progress."""
        return {
            "open": None if ended else have,
            "first": [have, rank] if ended else None,
            "last": [have, rank] if ended else None,
            "promised": promised,
            "finished": finished,
            "given": [[given, rank], [given, rank]],
            "counts": [[have, rank, ended]] if self.uneven == "error" else [],
        }

    def merged(self, reports: Sequence[RankReport]) -> RankReport:
        def each(name: str) -> list[Any]:
            return [report[name] for report in reports if report[name] is not None]

        counts = sorted(count for report in reports for count in report["counts"])
        return {
            "open": min(each("open"), default=None),
            "first": min(each("first"), default=None),
            "last": max(each("last"), default=None),
            "promised": any(each("promised")),
            "finished": all(each("finished")),
            "given": [min(low for low, _ in each("given")), max(high for _, high in each("given"))],
            "counts": counts if len(counts) <= 2 * _NAMED else counts[:_NAMED] + counts[-_NAMED:],
        }

    def verdict(self, whole: RankReport) -> RankReport:
        """Return the verdict. ``upto`` is the count that each rank may reach, ``total`` the final count if known."""
        more, first, last = whole["open"], whole["first"], whole["last"]
        uneven = False
        if first is None:
            upto, total = more, None
        elif self.uneven in ("pad", "repeat"):
            upto, total = (last[0], last[0]) if more is None else (more, None)
        else:
            least = first[0]
            upto = least if more is None else min(more, least)
            total = None if upto < least else least
            if self.uneven == "error":
                uneven = last[0] > least or (more is not None and more > least)
                total = None if uneven or more is not None else least
        names = ("promised", "finished", "given", "counts")
        return {"upto": upto, "total": total, "uneven": uneven, **{name: whole[name] for name in names}}

    def behind(self, reports: dict[int, RankReport]) -> list[int]:
        opens = {rank: report["open"] for rank, report in reports.items() if report["open"] is not None}
        if not opens:
            return [rank for rank, report in reports.items() if not report["finished"]]
        return [rank for rank, have in opens.items() if have == min(opens.values())]

    @staticmethod
    def counted(verdict: RankReport) -> str:
        """Return the ranks' numbers of elements as text."""
        counts = sorted(verdict["counts"], key=lambda entry: entry[1])
        return ", ".join(f"rank {rank} has {count if ended else f'at least {count}'}" for count, rank, ended in counts)


def concerns(news: News, key: Key | None) -> bool:
    """Return whether news matters in an attempt at an epoch.

    >>> left = {"news": "left", "key": [3, 0], "rank": 1, "given": 10}
    >>> concerns(left, (3, 1)), concerns(left, (4, 0))
    (True, False)
    """
    about = news["key"]
    if about is None or key is None:
        return about is None
    return bool(about[0] == key[0]) and (news["news"] == "left" or tuple(about) == key)


def first(several: Iterable[News], key: Key | None, given: int, waits: bool = False) -> News | None:
    """Return the first news with which a rank cannot continue after ``given`` elements, or None.

    A rank that waits needs all other ranks. A rank that hands on elements may go as far as its last verdict.
    """
    for news in several:
        if concerns(news, key):
            kind = news["news"]
            if waits or kind in ("died", "failed", "silent") or (kind == "left" and given >= news["given"]):
                return news
    return None


def error_of(news: News) -> RanksError:
    """Return the exception for bad news."""
    rank = news["rank"]
    match news["news"]:
        case "died":
            return RankDied(f"rank {rank} has died: {news['how']}")
        case "failed":
            return RankFailed(rank, news["error"], news["trace"])
        case "silent":
            return PrefetchTimeoutError(news["timeout"], f"rank {rank}")
        case "left":
            return RankLeft(
                f"rank {rank} has left the epoch after {news['given']} elements, and this rank continues; "
                "break out of the loop at the same element on all ranks"
            )
    return RankLeft(f"rank {rank} has shut down its loader, or ended, and this rank continues")
