"""Bad news of a rank (died, failed, silent, left), sent to all others at once, and their exceptions. No I/O.

There are five kinds. A rank has ``died``, or is ``gone``, having said goodbye: that is for good. It has ``left`` an
epoch after so many elements, as far as which the others may go. Or its loading has ``failed``, or it has been
``silent``, in one attempt at an epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from datapipes.errors import PrefetchTimeoutError, RankDied, RankFailed, RankLeft, RanksError

News: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[int, int]
"""The number of an epoch, and which attempt at it this is: another one begins after an error."""


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
