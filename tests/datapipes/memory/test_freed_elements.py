"""Elements of large batches, which are freed together: malloc keeps their memory for those of the next batch."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import platform, resource
import numpy
from datapipes.iter import IterableWrapper

graph = IterableWrapper(range(40 * 32)).map(lambda x: numpy.full(150_000, x % 256, dtype="u1")).batch(32).collate()
for number, batch in enumerate(graph):
    if number in (9, 39):
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt, platform.libc_ver()[0])
"""


def test_elements_of_large_batches_lie_where_those_before_them_lay() -> None:
    said = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=500, check=True
    ).stdout
    before, after = (int(line.split()[0]) for line in said.splitlines())
    pages = 30 * 32 * 150_000 // 4096
    assert after - before < pages // 8 or "glibc" not in said  # another malloc has its own ways
