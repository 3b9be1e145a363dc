"""What the documents say, runs.

Every block of Python in README.md and in the tutorials' pages, and every tutorial that is a script, is a program of its
own, for a reader copies one and not all those above it: it runs to its end in a fresh interpreter, in an empty
directory, with warnings as errors, within a time limit. A block that cannot run (it needs a network, say) tells why in
a comment right above it, which the reader of the page does not see: <!-- not run: the reason -->.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 50  # less than the limit of one test, so that the program's own stacks can still be told
BLOCK = re.compile(r"^([ \t]*)```(?:py|python)\b[^\n]*\n(?P<code>.*?)^\1```", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: \S(?:(?!-->).)*-->\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of Python in a page: its place and its code."""

    page: str
    line: int
    code: str
    runs: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def program(self) -> str:
        """The code, moved down to its own line, so that a traceback tells the line in the page."""
        return "\n" * (self.line - 1) + self.code


def blocks(page: str, text: str) -> Iterator[Block]:
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        above = text[: found.start()].rpartition("```")[2]
        yield Block(page, line, dedent(found["code"]), runs=not NOT_RUN.search(above))


def pages() -> list[Path]:
    return [page for page in (ROOT / "README.md", *sorted((ROOT / "tutorials").glob("*.md"))) if page.exists()]


def scripts() -> list[Path]:
    return sorted(path for path in (ROOT / "tutorials").glob("*.py") if path.name != "__init__.py")


BLOCKS = [block for page in pages() for block in blocks(page.relative_to(ROOT).as_posix(), page.read_text("utf-8"))]


def run_to_the_end(program: Path, room: Path) -> None:
    """Run a program of its own in an empty directory below `room`; fail with all that it said if it does."""
    empty, said = room / "empty", room / "said.txt"
    empty.mkdir()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1", "MPLBACKEND": "agg"}
    command = [sys.executable, "-W", "error", str(program)]
    # Its words go to a file and not to a pipe, which would stay open as long as any process that it may leave behind.
    with said.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=empty, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    code = None
    try:
        code = process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # the fault handler then writes down the stacks of all threads
        process.wait(5)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code != 0:
        end = f"did not end within {SECONDS} s" if code is None else f"ended with {code}"
        pytest.fail(f"{program.name} {end}, and said:\n{said.read_text('utf-8', 'replace')[-8000:]}", pytrace=False)


def run_block(block: Block, room: Path) -> None:
    program = room / f"{Path(block.page).stem}_line_{block.line}.py"
    program.write_text(block.program(), encoding="utf-8")
    run_to_the_end(program, room)


def test_there_is_something_to_run() -> None:
    shown = [block for block in BLOCKS if block.page == "README.md" and block.runs]
    assert shown, "README.md shows no Python that runs"
    assert scripts(), "there is no script in tutorials/"


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.runs], ids=str)
def test_a_block_runs(block: Block, tmp_path: Path) -> None:
    run_block(block, tmp_path)


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.name)
def test_a_tutorial_runs(script: Path, tmp_path: Path) -> None:
    run_to_the_end(script, tmp_path)


PAGE = """
```python
first = 1
```
Text <!-- not run: about something else --> between.

```python title="two"
assert False, "second"
```

<!-- not run: it needs a network -->

  ```py
  fetch()
  ```
```text
not.python()
```
"""


def test_blocks_are_found_with_their_lines() -> None:
    assert [(block.line, block.code, block.runs) for block in blocks("page.md", PAGE)] == [
        (3, "first = 1\n", True),
        (8, 'assert False, "second"\n', True),
        (14, "fetch()\n", False),
    ]


def test_a_block_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    second = list(blocks("page.md", PAGE))[1]
    with pytest.raises(pytest.fail.Exception, match=r'(?s)page_line_8\.py ended with 1.*line 8.*"second"'):
        run_block(second, tmp_path)


def test_a_warning_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="UserWarning: mind"):
        run_block(Block("page.md", 1, "import warnings\nwarnings.warn('mind', stacklevel=1)", True), tmp_path)


def test_a_block_that_does_not_end_is_told_with_its_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.SECONDS", 1)
    code = "import threading\ndef wait_for_nobody():\n    threading.Event().wait()\nwait_for_nobody()"
    with pytest.raises(pytest.fail.Exception, match=r"(?s)did not end within 1 s.*line 3 in wait_for_nobody"):
        run_block(Block("page.md", 1, code, True), tmp_path)
