"""For how long bad news count, whatever carries them."""

from __future__ import annotations

import pytest

from datapipes.errors import RankDied, RankFailed
from datapipes.ranks.topics import EpochAgreement, Key, RankReport
from tests.datapipes.ranks.taking_turns import InTurns, in_turns


def agreed(exchange: InTurns, key: Key) -> RankReport:
    exchange.begin(key, EpochAgreement(), EpochAgreement.report(exchange.rank, (0, 0, False), {}))
    return exchange.wait(lambda _: True, 0, 20)


@pytest.mark.parametrize("seed", range(5))
def test_that_a_rank_has_failed_counts_for_an_epoch_and_that_it_has_died_forever(seed: int) -> None:
    forgot: list[int] = []

    def run(exchange: InTurns) -> None:
        assert agreed(exchange, (1, 0))["run"] == [0, 0, False]
        if exchange.rank == 1:
            exchange.fail((1, 0), ValueError("bad row"))
        else:
            with pytest.raises(RankFailed, match="rank 1 failed: ValueError: bad row"):
                exchange.wait(lambda _: False, 0, 20)
        assert exchange.failed((1, 0))
        agreed(exchange, (2, 0))
        assert not exchange.failed((1, 0))
        assert not exchange.alarmed
        forgot.append(exchange.rank)
        if exchange.rank == 1:
            assert exchange.others_run(until=lambda: len(forgot) == 3)
            exchange.die()
        else:
            for epoch in (2, 3):
                with pytest.raises(RankDied, match="rank 1 has died"):
                    agreed(exchange, (epoch, 1))
                assert exchange.alarmed

    in_turns(3, run, seed)
