"""The parent's side: one lasting child process in the peers' environment, asked for one round at a time.

While nothing is asked of it the child waits on its input and takes no time, so its rounds can stand between ours. If
the environment has not been made, or is broken, `contender` still gives a contender, which says so in its row.
"""

import json
import os
import select
import signal
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from types import TracebackType
from typing import Any, Self

from benchmarks.harness import Contender

ROOT = Path(__file__).resolve().parents[2]
INTERPRETER = ROOT / ".venv-peers" / "bin" / "python"
HOW_TO_GET_IT = "run `make bench-peers`"
FAMILY = "torchdata 0.9"
CASES = "benchmarks.peers.old_torchdata"
SECONDS_TO_LEAVE = 3.0
SECONDS_TO_ANSWER = 120.0


class PeerError(RuntimeError):
    """The peers' process did not answer, or answered with an error."""


class OldTorchdata:
    """torchdata 0.9 behind a pipe; use it in a `with` statement, which ends the process."""

    def __init__(self, cases: str = CASES, deadline: float = SECONDS_TO_ANSWER) -> None:
        self._cases = cases
        self._deadline = deadline
        self.absent = "" if INTERPRETER.exists() else HOW_TO_GET_IT
        self.versions = ""
        self._process: Popen[str] | None = None

    def __enter__(self) -> Self:
        if not self.absent:
            command = [str(INTERPRETER), "-W", "ignore", "-m", "benchmarks.peers.serve", self._cases]
            self._process = Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True, start_new_session=True)
            try:
                self.versions = str(self._answer())
            except PeerError as error:
                self.absent = f"{error}; {HOW_TO_GET_IT}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        try:
            # The end of its input is the child's signal to leave; one that is busy does not see it.
            self._process.communicate(timeout=SECONDS_TO_LEAVE)
        except TimeoutExpired:
            self._kill()
            self._process.communicate()

    def _kill(self) -> None:
        """End the child, and the workers that it has."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def contender(self, case: str, *arguments: str, in_order: bool = True, check_by: str = "check") -> Contender:
        """torchdata 0.9 doing the named case."""

        def seconds() -> float:
            return float(self._ask({"do": "seconds", "case": case, "arguments": arguments, "in_order": in_order}))

        def check() -> str:
            return str(self._ask({"do": check_by, "case": case, "arguments": arguments, "in_order": in_order}))

        return Contender("torchdata 0.9 DataLoader2", FAMILY, seconds, check, self.absent)

    @property
    def notes(self) -> list[str]:
        """The versions behind the figures, once there are any."""
        return [f"torchdata 0.9 ran on {self.versions}"] if self.versions else []

    def _ask(self, request: dict[str, Any]) -> float | str:
        if self._process is None or self._process.stdin is None:
            raise PeerError(f"the peers' process was asked before it was started; {HOW_TO_GET_IT}")
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
        except OSError as error:
            raise PeerError(f"the peers' process does not listen any more: {error}") from error
        return self._answer()

    def _answer(self) -> float | str:
        line = ""
        if self._process and self._process.stdout:
            there, _, _ = select.select([self._process.stdout], [], [], self._deadline)
            if not there:
                self._kill()  # it hangs, as its workers may; from now on it does not answer at all
                raise PeerError(f"it did not answer within {self._deadline:g} s")
            line = self._process.stdout.readline()
        if not line:
            raise PeerError("the peers' process ended without an answer")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        value: float | str = answer["value"]
        return value
