"""Code blocks of the documents, and tutorials, run.

Every block of Python in README.md, CONTRIBUTING.md, docs and the tutorials' pages, and every tutorial that is a
script, is a program of its own, for a reader copies one and not all those above it: it runs to its end in an
interpreter that has imported nothing but torch, in an empty directory, with warnings as errors, within a time limit. A
block that cannot run (it needs a network, say) tells why in a comment right above it, which the reader of the page does
not see: <!-- not run: the reason -->.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from tests.preloaded import Preloaded

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 500  # less than the limit of one test, so that the program's own stacks can still be told
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
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("**/*.md")),
        *sorted((ROOT / "tutorials").glob("*.md")),
    ]


def scripts() -> list[Path]:
    return sorted(path for path in (ROOT / "tutorials").glob("*.py") if path.name != "__init__.py")


BLOCKS = [block for page in pages() for block in blocks(page.relative_to(ROOT).as_posix(), page.read_text("utf-8"))]


def run_to_the_end(preloaded: Preloaded, program: Path, room: Path) -> None:
    """Run a program of its own in an empty directory below `room`; fail with all that it said if it does."""
    empty = room / "empty"
    empty.mkdir()
    ended = preloaded.ran(program, cwd=empty, seconds=SECONDS, strict=True, env={**os.environ, "MPLBACKEND": "agg"})
    if ended.code != 0:
        end = f"did not end within {SECONDS} s" if ended.code is None else f"ended with {ended.code}"
        pytest.fail(f"{program.name} {end}, and said:\n{(ended.out + ended.err)[-8000:]}", pytrace=False)


def run_block(preloaded: Preloaded, block: Block, room: Path) -> None:
    program = room / f"{Path(block.page).stem}_line_{block.line}.py"
    program.write_text(block.program(), encoding="utf-8")
    run_to_the_end(preloaded, program, room)


def test_there_is_something_to_run() -> None:
    shown = [block for block in BLOCKS if block.page == "README.md" and block.runs]
    assert shown, "README.md shows no Python that runs"
    assert len(shown[0].code.splitlines()) <= 20, "the example of the README is read in a minute"
    assert scripts(), "there is no script in tutorials/"


def test_files_that_pages_name_exist() -> None:
    name = re.compile(r"`((?:benchmarks|datapipes|docs|loader2|reading_services|tests|tutorials)/[\w/.-]+)`")
    named = [(page.name, file) for page in pages() for file in name.findall(page.read_text("utf-8"))]
    assert len(named) > 20
    assert not [(page, file) for page, file in named if not (ROOT / file).exists()]


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.runs], ids=str)
def test_a_block_runs(block: Block, tmp_path: Path, preloaded: Preloaded) -> None:
    run_block(preloaded, block, tmp_path)


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.name)
def test_a_tutorial_runs(script: Path, tmp_path: Path, preloaded: Preloaded) -> None:
    run_to_the_end(preloaded, script, tmp_path)


def test_the_tour_runs(tmp_path: Path, preloaded: Preloaded) -> None:
    tour = tmp_path / "tour.py"
    tour.write_text("""
import runpy, sys
if __name__ == "__main__":
    sys.argv[1:] = ["demo"]
    runpy.run_module("loader2", run_name="__main__")
""")
    run_to_the_end(preloaded, tour, tmp_path)


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


def test_a_block_that_fails_is_told_with_its_line(tmp_path: Path, preloaded: Preloaded) -> None:
    second = list(blocks("page.md", PAGE))[1]
    with pytest.raises(pytest.fail.Exception, match=r'(?s)page_line_8\.py ended with 1.*line 8.*"second"'):
        run_block(preloaded, second, tmp_path)


def test_a_warning_is_a_failure(tmp_path: Path, preloaded: Preloaded) -> None:
    with pytest.raises(pytest.fail.Exception, match="UserWarning: mind"):
        run_block(
            preloaded, Block("page.md", 1, "import warnings\nwarnings.warn('mind', stacklevel=1)", True), tmp_path
        )


def test_a_block_that_does_not_end_is_told_with_its_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preloaded: Preloaded
) -> None:
    monkeypatch.setattr(f"{__name__}.SECONDS", 1)
    code = "import threading\ndef wait_for_nobody():\n    threading.Event().wait()\nwait_for_nobody()"
    with pytest.raises(pytest.fail.Exception, match=r"(?s)did not end within 1 s.*line 3 in wait_for_nobody"):
        run_block(preloaded, Block("page.md", 1, code, True), tmp_path)
