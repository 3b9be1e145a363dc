"""What follows from the reports of ranks, against a plain count."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from datapipes.ranks.topics import RankProgress, RankReport

counts = some.tuples(some.integers(0, 5), some.booleans())


@given(some.lists(counts, min_size=1, max_size=9), some.data())
def test_verdicts_are_what_a_plain_count_says(ranks: list[tuple[int, bool]], data: Any) -> None:
    for uneven in ("drop", "pad", "error"):
        progress = RankProgress(uneven)
        reports: list[RankReport] = [progress.report(rank, have, end, 0) for rank, (have, end) in enumerate(ranks)]
        while len(reports) > 1:  # put together in any order that a tree may have
            several = data.draw(some.integers(2, len(reports)))
            reports = [*reports[several:], progress.merged(reports[:several])]
        verdict = progress.verdict(reports[0])
        ended, more = [have for have, end in ranks if end], [have for have, end in ranks if not end]
        if uneven == "pad":
            assert verdict["upto"] == min(more, default=max(ended, default=0))
            assert verdict["total"] == (None if more else max(ended))
        else:
            assert verdict["upto"] == min(have for have, _ in ranks)
            if uneven == "drop":
                is_final = bool(ended) and min(ended) <= min(more, default=9)
                assert verdict["total"] == (min(ended) if is_final else None)
            else:
                assert verdict["total"] == (ended[0] if not more and len(set(ended)) == 1 else None)
                assert bool(verdict["uneven"]) <= (
                    len({*ended}) > 1 or (bool(ended) and max(more, default=0) > min(ended))
                )
