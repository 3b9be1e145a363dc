"""Protocol of reports, verdicts and bad news among ranks: plain data and pure functions, no I/O.

A *report* is what one rank knows, or several of them put together by ``merged``; a *verdict* is what follows once all
ranks are in one report. Counts only ever grow, and so do verdicts: one that comes late is never wrong.

Bad news of a rank are sent to all others at once. There are five kinds. A rank has ``died``, or is ``gone``, having
said goodbye: that is for good. It has ``left`` an epoch after so many elements, as far as which the others may go. Or
its loading has ``failed``, or it has been ``silent``, in one attempt at an epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from datapipes.errors import PrefetchTimeoutError, RankDied, RankFailed, RankLeft, RanksError

RankReport: TypeAlias = dict[str, Any]
Uneven: TypeAlias = Literal["drop", "pad", "repeat", "error"]

POLICIES: Final = ("drop", "pad", "repeat", "error")
_NAMED = 4
"""The most ranks that are named of those that say the same, and at each end of those that count."""

News: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[int, int]
"""The number of an epoch, and which attempt at it this is: another one begins after an error."""


class Topic(Protocol):
    """Protocol of a topic: how reports are merged, and the verdict on them."""

    def merged(self, reports: Sequence[RankReport]) -> RankReport:
        """The reports of several ranks, or groups of ranks, as one."""

    def verdict(self, whole: RankReport) -> RankReport:
        """The verdict on the report of all ranks."""

    def behind(self, reports: dict[int, RankReport]) -> list[int]:
        """The ranks whose report keeps all others waiting."""


class Facts:
    """Whether all ranks are about to do the same, and rank 0's epoch for all of them: seed, number, how it was got."""

    @staticmethod
    def report(rank: int, run: tuple[int, ...], facts: dict[str, str]) -> RankReport:
        """Report of what one rank is about to do."""
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
        """Differences among the ranks, for people; nothing if there are none.

        >>> talk = Facts()
        >>> both = talk.merged([talk.report(0, (5, 0, False), {"graph": ".batch(8)"}),
        ...                     talk.report(1, (6, 0, False), {"graph": ".batch(4)"})])
        >>> Facts.difference(talk.verdict(both))
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
    """Progress of each rank, and the limit up to which all may go.

    A report has ``open``, the least that a rank has which may get more; ``first`` and ``last``, the least and the most
    of those that have come to their end; ``promised``, whether one of the latter only knows its length; ``finished``,
    whether all have handed on everything; ``given``, the lowest and the highest position at which they began.
    """

    def __init__(self, uneven: Uneven) -> None:
        self.uneven = uneven

    def report(
        self, rank: int, have: int, ended: bool, given: int, promised: bool = False, finished: bool = False
    ) -> RankReport:
        """Report of one rank's progress."""
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
        """``upto``, how many elements each rank may hand on; ``total``, how many there will be, once that is known."""
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
        """Numbers of elements of the ranks, for people."""
        counts = sorted(verdict["counts"], key=lambda entry: entry[1])
        return ", ".join(f"rank {rank} has {count if ended else f'at least {count}'}" for count, rank, ended in counts)


def concerns(news: News, key: Key | None) -> bool:
    """Whether news matter in an attempt at an epoch.

    >>> left = {"news": "left", "key": [3, 0], "rank": 1, "given": 10}
    >>> concerns(left, (3, 1)), concerns(left, (4, 0))
    (True, False)
    """
    about = news["key"]
    if about is None or key is None:
        return about is None
    return bool(about[0] == key[0]) and (news["news"] == "left" or tuple(about) == key)


def first(several: Iterable[News], key: Key | None, given: int, waits: bool = False) -> News | None:
    """The first of several news that a rank cannot go on with, when it has handed on so many elements.

    One that waits needs all others; one that does not has been told how far it may go.
    """
    for news in several:
        if concerns(news, key):
            kind = news["news"]
            if waits or kind in ("died", "failed", "silent") or (kind == "left" and given >= news["given"]):
                return news
    return None


def error_of(news: News) -> RanksError:
    """The exception for bad news."""
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
                f"rank {rank} has left the epoch after {news['given']} elements, and this rank goes on; "
                "break out of the loop at the same element on all ranks"
            )
    return RankLeft(f"rank {rank} has shut down its loader, or ended, and this rank goes on")
