"""Cost of keeping ranks in step: two gloo ranks that do it, against the same two that do not know of each other.

Each rank is a process of its own. A round lasts from when both have begun, which takes one longer than the other, until
both are done. torchdata 0.9, which reduces over all ranks for each element, is given fewer batches, and so is what it
is compared with.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from subprocess import PIPE, Popen, TimeoutExpired
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness import OURS, Claim, Contender, contest
from benchmarks.peers.child import FAMILY, HOW_TO_GET_IT, INTERPRETER, ROOT, SECONDS_TO_LEAVE, PeerError
from benchmarks.rank_cases import ALONE, OLD, RANKS, SYNCED
from benchmarks.table import Table
from benchmarks.workload import BATCH_SIZE

BATCHES = 100_000
OF_OLD = 2_000
APART = "apart"


def tables(rounds: int) -> Iterator[Table]:
    with ExitStack() as ending, TemporaryDirectory() as folder:
        here = Ranks(ending, sys.executable, f"{folder}/here")
        old = Ranks(ending, str(INTERPRETER), f"{folder}/old") if INTERPRETER.exists() else None
        for known in (True, False):
            about = "known" if known else "not known"
            apart = here.contender("no fullsync", APART, ALONE, BATCHES, known)
            yield contest(
                f"{RANKS} ranks, {BATCHES:,} batches of {BATCH_SIZE} ints, collated, length {about}",
                [here.contender("DistributedReadingService", OURS, SYNCED, BATCHES, known), apart],
                [Claim(OURS, APART, at_least=0.97)],
                elements=BATCHES,
                rounds=rounds,
                reference=apart,
            )
        synced = here.contender("DistributedReadingService", OURS, SYNCED, OF_OLD, False)
        name = "torchdata 0.9 DistributedReadingService"
        if old is None:
            peer = Contender(name, FAMILY, lambda: 0.0, lambda: "", HOW_TO_GET_IT)
        else:
            peer = old.contender(name, FAMILY, OLD, OF_OLD, False)
        yield contest(
            f"{RANKS} ranks, {OF_OLD:,} batches of {BATCH_SIZE} ints, collated",
            [synced, peer],
            [Claim(OURS, FAMILY, at_least=10.0)],
            elements=OF_OLD,
            rounds=rounds,
            reference=synced,
        )


class Ranks:
    """Processes that are asked for one round at a time, all at once."""

    def __init__(self, ending: ExitStack, interpreter: str, meeting: str) -> None:
        self.meeting = meeting
        command = [interpreter, "-W", "ignore", "-m", "benchmarks.peers.serve", "benchmarks.rank_cases"]
        self.processes = [Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True) for _ in range(RANKS)]
        ending.callback(self.end)
        for process in self.processes:
            _answer(process)

    def contender(self, name: str, family: str, case: str, batches: int, length_is_known: bool) -> Contender:
        """A case, done by all ranks."""

        def ask(what: str) -> list[Any]:
            for rank, process in enumerate(self.processes):
                arguments = [rank, self.meeting, batches, length_is_known]
                request = {"do": what, "case": case, "arguments": arguments, "in_order": True}
                print(json.dumps(request), file=process.stdin, flush=True)
            return [_answer(process) for process in self.processes]

        def seconds() -> float:
            begun, ended = zip(*ask("span"), strict=True)
            return float(max(ended) - max(begun))

        return Contender(name, family, seconds, lambda: " ".join(ask("check")))

    def end(self) -> None:
        """End the processes; the end of its input is each one's signal to leave."""
        for process in self.processes:
            try:
                process.communicate(timeout=SECONDS_TO_LEAVE)
            except TimeoutExpired:
                process.kill()
                process.communicate()


def _answer(process: Popen[str]) -> Any:
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise PeerError("a rank's process ended without an answer")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise PeerError(answer["error"])
    return answer["value"]
