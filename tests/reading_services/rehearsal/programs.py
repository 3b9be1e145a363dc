"""Programs that a test starts: bounded in time, heard when they fail, and ended with the test even if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import pytest

ROOT = Path(__file__).resolve().parents[3]

_LEAVING = 40.0  # seconds for what a program has to end itself; torchrun gives its ranks 30


def ended(command: list[str], seconds: float, ending: signal.Signals = signal.SIGTERM, **environment: str) -> str:
    """Run a program; what it said. One that fails or takes longer fails the test.

    ``ending`` is the signal on which it ends all that it has started; it gets it when the test dies, too.
    """
    with TemporaryFile() as said:
        program = subprocess.Popen(
            ["setpriv", "--pdeathsig", ending.name.removeprefix("SIG"), "--", *command],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        try:
            code = program.wait(seconds)
            how = f"ended with {code}" if code else ""
        except subprocess.TimeoutExpired:
            how = f"did not end within {seconds} s"
        finally:
            program.send_signal(ending)
            with suppress(subprocess.TimeoutExpired):
                program.wait(_LEAVING)
            program.kill()
            program.wait()
        said.seek(0)
        text = said.read().decode(errors="replace")
    if how:
        pytest.fail(f"{' '.join(command)} {how}, and said:\n{text[-8000:]}", pytrace=False)
    return text
