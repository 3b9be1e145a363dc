"""fullsync() without a reading service, and the lengths that it relies on."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pytest

from datapipes.graph import walk
from datapipes.iter import IterDataPipe
from datapipes.iter.placement.full_sync import exact_length
from datapipes.iter.placement.shard import as_opened
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from datapipes.position.user_classes import is_sharding
from loader2.testing import Specimen
from loader2.testing.specimen import Tap
from tests.preloaded import Preloaded
from tests.specimens.catalogue import SPECIMENS

ALONE = """
import os, sys
import torch.distributed as dist
from datapipes.iter import IterableWrapper

assert not {"reading_services", "loader2"} & {*sys.modules}, "imported by datapipes"
child = os.fork()
rank = int(child == 0)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
given = list(IterableWrapper(range(3 + rank)).fullsync(20))
dist.barrier()
dist.destroy_process_group()
assert given == [0, 1, 2], given
if rank:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("in step")
"""


def test_datapipes_alone_have_an_exchange_between_ranks(tmp_path: Path, preloaded: Preloaded) -> None:
    program = tmp_path / "alone.py"
    program.write_text(ALONE)
    ended = preloaded.ran(program, str(tmp_path / "meeting"), cwd=tmp_path, seconds=500)
    assert (ended.out, ended.code) == ("in step\n", 0), ended.err


STREAMS = {
    operator: [each for each in specimens if each.service is None and not each.raises]
    for operator, specimens in groupby(sorted(SPECIMENS, key=attrgetter("operator")), attrgetter("operator"))
}


@pytest.mark.parametrize("specimens", STREAMS.values(), ids=STREAMS)
def test_a_length_that_is_certain_is_that_of_the_shard(specimens: list[Specimen]) -> None:
    for specimen in specimens:
        for shard in range(2):
            graph = specimen.build(Tap())
            if not isinstance(graph, IterDataPipe):
                continue
            sharded = graph if any(map(is_sharding, walk(graph))) else graph.sharding_filter()
            session = Session.of(sharded, Run(3, shard=(2, shard)))
            elements = list(session.iterator())
            assert exact_length(as_opened(session.plan.graph, session.run)) in (None, len(elements)), sharded
            session.close()
