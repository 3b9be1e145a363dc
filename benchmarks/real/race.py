"""Contenders in turn, each run in a fresh process, and the tables of what they showed.

The first run of each is a check: its elements have to be those of torch's loader, and its memory is watched, which
takes time, so that this run's times do not count. Then every round has one run of each. Each process computes with one
thread, unless a library starts threads of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from subprocess import DEVNULL, Popen, TimeoutExpired
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness import Contender, Standing, race
from benchmarks.peers.child import HOW_TO_GET_IT, ROOT, PeerError
from benchmarks.real import data
from benchmarks.real.chart import Results
from benchmarks.real.kind import OURS, PACKAGES, TORCH, WORKERS, Kind, Way
from benchmarks.real.kinds import KINDS
from benchmarks.real.process import memory
from benchmarks.table import Row, Table

FAR_BEHIND = 1.5
"""Who takes so many times as long as the fastest in the first round is not run again: its ratio is of that round, and
so far from what is required that others would not decide it."""
SECONDS_FOR_A_RUN = 300.0
SECONDS_TO_LEAVE = 15.0
SECONDS_BETWEEN_LOOKS = 0.1
ALONE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "DISABLE_VERSION_CHECK": "1",
}
COLUMNS = ("contender", "warm/s", "lowest to highest", "cold/s", "first: s", "MiB", "CPU us", "ours / this", "range")


def asked(request: dict[str, Any], interpreter: Path | None, watch: bool = False) -> tuple[Any, int]:
    """What a fresh process answers, and the most memory of it and its children, if that is watched."""
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [str(interpreter or sys.executable), "-W", "ignore", "-m", "benchmarks.real.child"]
        process = Popen(
            [*command, json.dumps(request), str(answer)],
            cwd=ROOT,
            env=os.environ | ALONE,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )
        try:
            peak = _finished(process, answer, watch)
        finally:
            with suppress(ProcessLookupError):  # processes that it started and left are ended as well
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if not answer.exists():
            raise PeerError(_ended(process.returncode))
        told = json.loads(answer.read_text())
    if "error" in told:
        raise PeerError(told["error"])
    return told["value"], peak


def _finished(process: Popen[bytes], answer: Path, watch: bool) -> int:
    """Wait until it has ended, or has answered and does not end, or has had its time; give its peak of memory."""
    peak, left = 0, SECONDS_FOR_A_RUN
    while left > 0:
        try:
            process.wait(SECONDS_BETWEEN_LOOKS if watch else min(left, 1.0))
            return peak
        except TimeoutExpired:
            left -= SECONDS_BETWEEN_LOOKS if watch else 1.0
        if answer.exists():
            left = min(left, SECONDS_TO_LEAVE)
        elif watch:
            peak = max(peak, memory(process.pid))
    return peak


def _ended(code: int) -> str:
    if code == -signal.SIGKILL:
        return f"no answer in {SECONDS_FOR_A_RUN:g} s, or killed"
    return f"its process ended without an answer, by {code}"


@dataclass
class Runs:
    """The runs of one contender, with so many workers."""

    name: str
    kind: Kind
    way: Way
    workers: int
    folder: Path
    elements: int
    peak: int = 0
    digest: str = ""
    told: list[dict[str, Any]] = field(default_factory=list)

    def contender(self) -> Contender:
        return Contender(self.way.name, self.way.library, self.seconds, self.check, absent(self.way))

    def check(self) -> str:
        if not self.digest:
            told, self.peak = self._asked("check", watch=True)
            self.digest = told["digest"]
        return self.digest

    def seconds(self) -> float:
        told, _ = self._asked("time")
        self.told.append(told)
        warm: float = told["warm"]
        return warm

    def state(self) -> dict[str, Any]:
        told: dict[str, Any] = asked(self._request("state"), self.way.interpreter)[0]
        return told

    def _asked(self, do: str, watch: bool = False) -> tuple[dict[str, Any], int]:
        told, peak = asked(self._request(do), self.way.interpreter, watch)
        if told["counted"] != [self.elements] * 2:
            raise PeerError(f"it gave {told['counted']} of {self.elements} elements in its first two epochs")
        return told, peak

    def _request(self, do: str) -> dict[str, Any]:
        folder = str(self.folder)
        return {"do": do, "kind": self.name, "way": self.way.name, "workers": self.workers, "folder": folder}

    def speeds(self, of: str) -> list[float]:
        return [self.elements / told[of] for told in self.told]


def absent(way: Way) -> str:
    """How to get what a contender needs, if it is not there; in the peers' environment its child tells."""
    if way.interpreter is not None:
        return "" if way.interpreter.exists() else HOW_TO_GET_IT
    missing = [package for package in PACKAGES[way.library] if find_spec(package.partition(".")[0]) is None]
    return f"pip install {missing[0]}" if missing else ""


def tables(names: Iterable[str], rounds: int, share: float, within: Path, results: Results) -> Iterator[Table]:
    """Run the contenders of each kind and give its tables. Add the median speeds to ``results``."""
    for name in names:
        kind = KINDS[name]
        elements = max(1, round(kind.elements * share))
        folder = data.made(kind, elements, within)
        reference = Runs(name, kind, kind.reference, 0, folder, elements)
        ours = []
        for workers in WORKERS:
            runs = [Runs(name, kind, way, workers, folder, elements) for way in kind.ways]
            runs = [reference if (each.way, each.workers) == (reference.way, 0) else each for each in runs]
            standings = race(
                [each.contender() for each in runs], rounds, reference.contender(), float("inf"), FAR_BEHIND
            )
            yield _contest(kind, workers, runs, standings)
            speeds = {each.way.name: median(each.speeds("warm")) for each in runs if each.told}
            results.setdefault(kind.title, {})[_with_workers(workers)] = speeds
            ours += [each for each in runs if each.way.library == OURS]
        yield _states(kind, ours)


def _contest(kind: Kind, workers: int, runs: Sequence[Runs], standings: Sequence[Standing]) -> Table:
    measured = [each for each, standing in zip(runs, standings, strict=True) if standing.measured]
    ours = next((each for each in measured if each.way.library == OURS), None)
    peers = [each for each in measured if each.way.library != OURS]
    rivals = [each for each in peers if workers or each.way.share is None]
    best = max(rivals, key=lambda each: median(each.speeds("warm")), default=None)
    torch = next((each for each in peers if each.way.library == TORCH), None)
    rows = []
    for each, standing in zip(runs, standings, strict=True):
        if not standing.measured:
            lost = False if each.way.library == OURS else None
            rows.append(Row((each.way.name,), "", lost, f"not measured: {standing.failure}"))
        elif each is ours:
            if kind.lean and torch:
                rows.append(Row(_figures(each, None), f"<= {_mib(torch)} MiB", each.peak <= torch.peak))
            else:
                rows.append(Row(_figures(each, None)))
        elif ours and (each is best or each not in rivals):
            wanted = kind.ahead if each is best else each.way.share or 0.0
            rows.append(Row(_figures(each, ours), f">= {wanted:g}", median(_ratios(ours, each)) >= wanted))
        else:
            rows.append(Row(_figures(each, ours)))
    title = f"{kind.title}: {runs[0].elements:,} {kind.unit}, {_with_workers(workers)}"
    return Table(title, COLUMNS, rows, [_sureness(measured)] if measured else ())


def _with_workers(workers: int) -> str:
    return f"{workers} workers" if workers else "no workers"


def _figures(each: Runs, ours: Runs | None) -> list[str]:
    warm, cpu = each.speeds("warm"), median(told["cpu"] for told in each.told) / each.elements
    figures = [each.way.name, f"{median(warm):,.0f}", f"{min(warm):,.0f} to {max(warm):,.0f}"]
    figures += [f"{median(each.speeds('cold')):,.0f}", f"{median(told['first'] for told in each.told):.2f}"]
    figures += [_mib(each), f"{cpu * 1e6:,.2f}"]
    if ours:
        ratios = _ratios(ours, each)
        figures += [f"{median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"]
    return figures


def _ratios(ours: Runs, other: Runs) -> list[float]:
    """Round by round, since what slows the machine for a while slows both."""
    return [a / b for a, b in zip(ours.speeds("warm"), other.speeds("warm"), strict=False)]


def _mib(each: Runs) -> str:
    return f"{each.peak / 2**20:,.0f}"


def _sureness(measured: Sequence[Runs]) -> str:
    rounds = max(len(each.told) for each in measured)
    again = [each for each in measured if len(each.told) == rounds]  # others were far behind in the first
    widths = [max(each.speeds("warm")) / min(each.speeds("warm")) - 1 for each in again]
    who_else = ", of one for who is far behind" if again != measured else ""
    return (
        f"medians of {rounds} round{'s' * (rounds > 1)}{who_else}; the fastest round of a contender is ahead of its "
        f"slowest by {median(widths):.0%} (the median contender) to {max(widths):.0%} (the widest)"
    )


def _states(kind: Kind, ours: Sequence[Runs]) -> Table:
    columns = ("ours, with", "after batches", "taking: ms", "KiB", "loading, and a batch: ms", "the rest")
    rows = []
    for each in ours:
        name = _with_workers(each.workers)
        try:
            told = each.state()
        except PeerError as error:
            rows.append(Row((name,), "exact", False, f"not measured: {error}"))
            continue
        figures = [str(told["half"]), f"{told['taking'] * 1e3:.2f}", f"{told['bytes'] / 1024:,.1f}"]
        figures += [f"{told['loading'] * 1e3:.0f}", "exact" if told["exact"] else "differs"]
        rows.append(Row((name, *figures), "exact", told["exact"]))
    return Table(f"{kind.title}: a state in the middle of an epoch", columns, rows)
