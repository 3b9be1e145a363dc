"""fullsync() where nobody has imported a reading service."""

from __future__ import annotations

from pathlib import Path

from tests.preloaded import Preloaded

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
