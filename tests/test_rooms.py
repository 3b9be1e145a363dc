"""Folders are rooms: each lists its files, and imports among rooms go one way. ``python -m tests.test_rooms`` shows it.

A room is a folder of the three packages; what an import at the head of a file asks for is the room of that file. The
list in an ``__init__`` has a line for each file and folder beside it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.test_house import PACKAGES, ROOT, Source, imported_files, imports, python

LISTED = re.compile(r"^- ``(?P<name>[\w/]+)``: \S", re.MULTILINE)
ADD_ONS = (
    "loader2/commands/",
    "loader2/porting/",
    "loader2/testing/",
    "reading_services/cluster/",
    "reading_services/ipu/",
)
# The lazy public name of RayReadingService, the commands, and the modules that switch old names on.
MAY_IMPORT_ADD_ONS = {
    *("loader2/__main__.py", "loader2/old_names.py", "loader2/poptorch_names.py", "loader2/torchdata_names.py"),
    "reading_services/__init__.py",
}
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")

Directions = dict[str, Counter[str]]


def directions(sources: tuple[Source, ...]) -> Directions:
    """For each room, the rooms that it imports at module level, and by how many imports."""
    table: Directions = {room: Counter() for room in sorted(map(room_of, sources))}
    for source, _, asked in imported_files({source.module: source for source in sources}):
        if room_of(source) != room_of(asked):
            table[room_of(source)][room_of(asked)] += 1
    return table


def room_of(source: Source) -> str:
    """The folder of a file."""
    return source.path.rpartition("/")[0]


def packages() -> tuple[Source, ...]:
    return tuple(source for source in python() if source.path.partition("/")[0] in PACKAGES)


def ring(table: Directions) -> str | None:
    """Rooms that import each other, one way or another, if there are any."""
    try:
        TopologicalSorter(table).prepare()
    except CycleError as error:
        return " imports ".join(reversed(error.args[1]))
    return None


def test_rooms_import_one_way() -> None:
    assert ring(directions(packages())) is None, "move what they share into a room below both"


def test_a_ring_of_rooms_is_noticed() -> None:
    sources = (
        Source("datapipes/a/__init__.py", ""),
        Source("datapipes/a/one.py", "from datapipes.b import two"),
        Source("datapipes/b/two.py", "from datapipes.c.three import x"),
        Source("datapipes/c/three.py", "import datapipes.a.one"),
    )
    table = directions(sources)
    assert table["datapipes/a"] == {"datapipes/b": 1}
    assert (found := ring(table)) is not None
    assert found.count(" imports ") == 3
    assert ring(directions(sources[:3])) is None


def imported_add_ons(sources: tuple[Source, ...]) -> list[str]:
    """Return the imports of add-ons in files that are no add-ons, and that may not import any."""
    add_ons = tuple(path.replace("/", ".") for path in ADD_ONS)
    return [
        source.at(line, f"{name} is of an add-on, which the engine and the catalogue must not import")
        for source in sources
        if not source.path.startswith(ADD_ONS) and source.path not in MAY_IMPORT_ADD_ONS
        for line, name in imports(source, ast.walk(source.tree))
        if f"{name}.".startswith(add_ons)
    ]


def test_add_ons_are_imported_by_no_other_package() -> None:
    assert imported_add_ons(packages()) == []
    assert imported_add_ons((Source("loader2/a.py", "def f():\n    from loader2.testing import laws"),))
    assert imported_add_ons((Source("loader2/a.py", "import reading_services.ipu"),))
    assert imported_add_ons((Source("loader2/testing/a.py", "from loader2.testing import laws"),)) == []


@cache
def in_a_catalogue() -> set[str]:
    """The files that the catalogue above their room lists already, with the operators that are in them."""
    above = ("datapipes.iter", "datapipes.map")
    catalogues = (source for source in packages() if source.module in above)
    return {
        name.rpartition(".")[0]
        for source in catalogues
        for _, name in imports(source, ast.walk(source.tree))
        if name.startswith(f"{source.module}.")
    }


@pytest.mark.parametrize("room", directions(packages()))
def test_a_room_lists_what_is_in_it(room: str) -> None:
    folder = ROOT / room
    listed = LISTED.findall(ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or "")
    there = [path.stem for path in folder.glob("*.py") if path.name != "__init__.py"]
    there = [name for name in there if f"{room.replace('/', '.')}.{name}" not in in_a_catalogue()]
    there += [f"{path.parent.name}/" for path in folder.glob("*/__init__.py")]
    assert sorted(listed) == sorted(there), (
        f"{room}/__init__.py: a line ``- ``name``: what it is`` for each file beside it"
    )


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    targets = [link["target"].partition("#")[0] for link in LINK.finditer((ROOT / page).read_text("utf-8"))]
    dead = [target for target in targets if target and "://" not in target and not Path(ROOT, target).exists()]
    assert targets, f"{page} links to nothing"
    assert not dead, f"{page} links to what is not there: {dead}"


def shown(table: Directions) -> str:
    """The table as text: a room in a line, with what it imports."""
    width = max(map(len, table))
    lines = (f"{room:{width}}  {', '.join(sorted(asked)) or '-'}" for room, asked in table.items())
    return "\n".join(lines)


if __name__ == "__main__":
    print(shown(directions(packages())))  # noqa: T201  asked for on a command line
