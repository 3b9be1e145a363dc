"""One contender in a process of its own: does as it is asked, and writes what it found into a file.

    python -m benchmarks.real.child '{"do": "time", "kind": "csv", "way": "torch", ...}' answer.json

- ``time``: a pass of a loader that is made for it, with the time to its first batch; then a warm one, another epoch of
  the same loader. The packages are imported before.
- ``check``: the same, and then one more epoch for the digest of its elements.
- ``state``: of ours, a position in the middle of an epoch: what it costs to take and to load, and if the rest is right.
- ``digests``: the digests of several contenders, without workers.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import shutil
import sys
from importlib import import_module
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.real.digest import digest, row_hashes
from benchmarks.real.kind import OURS, PACKAGES, Kind, Way
from benchmarks.real.kinds import KINDS
from benchmarks.real.process import cpu_seconds


def main() -> None:
    request, answer = json.loads(sys.argv[1]), Path(sys.argv[2])
    try:
        value = {"value": answered(request)}
    except Exception as error:  # the parent decides what a failing contender means
        value = {"error": f"{type(error).__name__}: {error}"}
    half = answer.with_suffix(".half")
    half.write_text(json.dumps(value))
    half.rename(answer)


def answered(request: dict[str, Any]) -> Any:
    if request["do"] == "digests":
        return [_digest_or_error(*one) for one in request["ways"]]
    kind, folder, workers = KINDS[request["kind"]], Path(request["folder"]), request["workers"]
    way = kind.way(request["way"])
    made_ready(way, folder)
    if request["do"] == "state":
        return state(kind, way, folder, workers)
    return passes(kind, way, folder, workers, check=request["do"] == "check")


def made_ready(way: Way, folder: Path) -> None:
    """Import its packages; make its own form of the data, if that is not there."""
    for package in PACKAGES[way.library]:
        import_module(package)
    own = way.own(folder)
    if way.prepare and not own.exists():
        half = own.with_name(f"{own.name}.{os.getpid()}.half")
        way.prepare(folder, half)
        try:
            half.rename(own)
        except OSError:  # another process was quicker
            shutil.rmtree(half)


def passes(kind: Kind, way: Way, folder: Path, workers: int, check: bool) -> dict[str, Any]:
    gc.collect()
    begin = perf_counter()
    loader = way.build(folder, workers)
    batches = iter(loader)
    counted = kind.size(next(batches))
    first = perf_counter() - begin
    counted += sum(map(kind.size, batches))
    cold = perf_counter() - begin
    gc.collect()
    cpu = cpu_seconds(os.getpid())
    begin = perf_counter()
    again = sum(map(kind.size, loader))
    warm = perf_counter() - begin
    cpu = cpu_seconds(os.getpid()) - cpu
    told = {"cold": cold, "warm": warm, "first": first, "cpu": cpu, "counted": [counted, again]}
    return told | {"digest": digest(loader, kind.comparable(folder))} if check else told


def digest_of(kind: Kind, way: Way, folder: Path, workers: int) -> str:
    made_ready(way, folder)
    loader = way.build(folder, workers)
    found = digest(loader, kind.comparable(folder))
    if way.library == OURS:  # others end their workers with the process
        loader.shutdown()
    return found


def _digest_or_error(name: str, way: str, folder: str, workers: int) -> str:
    try:
        return digest_of(KINDS[name], KINDS[name].way(way), Path(folder), workers)
    except Exception as error:  # as above
        return f"{type(error).__name__}: {error}"


def state(kind: Kind, way: Way, folder: Path, workers: int) -> dict[str, Any]:
    def hashes(batch: Any) -> bytes:
        return row_hashes(kind.plain(batch)).tobytes()

    with way.build(folder, workers) as loader:
        total = sum(1 for _ in loader)
        batches = iter(loader)
        half = sum(1 for _ in islice(batches, total // 2))
        begin = perf_counter()
        saved = loader.state_dict()
        taking = perf_counter() - begin
        size = len(pickle.dumps(saved))
        rest = list(map(hashes, batches))
    with way.build(folder, workers) as loader:
        begin = perf_counter()
        loader.load_state_dict(saved)
        batches = iter(loader)
        found = [hashes(next(batches))]
        loading = perf_counter() - begin
        found += map(hashes, batches)
    return {"half": half, "taking": taking, "bytes": size, "loading": loading, "exact": found == rest}


if __name__ == "__main__":
    main()
