"""README.md's map of the rooms is true to the tree.

Each file of the three packages has one line there, and each line names something that exists; so does each link of the
page that leads to a file.
"""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("datapipes", "reading_services", "loader2")
HEADING = "## Map of the rooms\n"
LINE = re.compile(r"^- `(?P<path>[^`\n]+)`: \S", re.MULTILINE)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")


def page() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def mapped(text: str) -> list[str]:
    """The paths that the map names, in its order."""
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    return [line["path"] for line in LINE.finditer(section)]


def files() -> set[str]:
    return {path.relative_to(ROOT).as_posix() for name in PACKAGES for path in (ROOT / name).rglob("*.py")}


def line_for(path: str) -> str:
    """A line that the map could have for a file: what the file says of itself."""
    said = ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8"))) or "..."
    return f"- `{path}`: {said.splitlines()[0]}"


def test_every_file_has_a_line() -> None:
    missing = sorted(files() - set(mapped(page())))
    assert not missing, "README.md's map needs a line for each of these:\n" + "\n".join(map(line_for, missing))


def test_the_map_names_only_what_is_there() -> None:
    gone = [path for path in mapped(page()) if not (ROOT / path).exists()]
    assert not gone, f"README.md's map names what is not there: {gone}"


def test_no_file_has_two_lines() -> None:
    twice = [path for path, lines in Counter(mapped(page())).items() if lines > 1]
    assert not twice, f"README.md's map names these more than once: {twice}"


def test_links_to_files_lead_somewhere() -> None:
    targets = [link["target"].partition("#")[0] for link in LINK.finditer(page())]
    dead = [target for target in targets if target and "://" not in target and not (ROOT / target).exists()]
    assert not dead, f"README.md links to what is not there: {dead}"


def test_only_lines_of_the_map_are_read() -> None:
    text = f"- `a.py`: before\n{HEADING}\nText `b.py`: none\n\n- `c/d.py`: one\n- `e.py`:\n\n## Next\n- `f.py`: after\n"
    assert mapped(text) == ["c/d.py"]
