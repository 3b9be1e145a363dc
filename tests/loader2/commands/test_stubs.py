"""Stubs of plugins' methods: mypy and pyright find them without a setting, and see what the plugin's class says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from loader2.commands.new_plugin import write
from loader2.commands.stubs import STUB
from tests.plugins_installed import Environment, installed

PLUGIN = """
from collections.abc import Iterator
from typing import Any, TypeVar
from datapipes import functional_datapipe
from datapipes.iter import IterDataPipe
from datapipes.map import MapDataPipe

T = TypeVar("T")


class RunningSum(IterDataPipe[int]):
    def __init__(self, source_datapipe: IterDataPipe[int], factor: int = 1) -> None:
        self.source_datapipe, self.factor = source_datapipe, factor

    def __iter__(self) -> Iterator[int]:
        yield from self.source_datapipe


class Outer:
    @functional_datapipe("twice")
    class Twice(IterDataPipe[tuple[T, T]]):
        def __init__(self, source_datapipe: IterDataPipe[T]) -> None:
            self.source_datapipe = source_datapipe

        def __iter__(self) -> Iterator[tuple[T, T]]:
            for element in self.source_datapipe:
                yield element, element


class Backwards(MapDataPipe[T]):
    def __init__(self, source_datapipe: MapDataPipe[T]) -> None:
        self.source_datapipe = source_datapipe


def nowhere() -> type:
    class Local(IterDataPipe[Any]):
        def __init__(self, source_datapipe):
            self.source_datapipe = source_datapipe
    return Local

Local = nowhere()
"""
METHODS = {"sums": "sums:RunningSum", "twice": "sums", "backwards": "sums:Backwards", "local": "sums:Local"}
USE = """
from typing import Any, assert_type
from datapipes.iter import IterableWrapper
from datapipes.map import SequenceWrapper
from sums import Backwards, Outer, RunningSum

numbers = IterableWrapper([1, 2])
assert_type(numbers.sums(factor=2), RunningSum)
for a, b in numbers.map(str).filter(bool).twice().header(3):
    assert_type(a, str)
assert_type(SequenceWrapper("ab").map(len).backwards(), Backwards[int])
assert_type(numbers.local(), Any)
numbers.sums("2")
numbers.summs()
numbers.backwards()
"""
WRONG = (13, 14, 15)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("environment") / "env")
    installed(environment.site, "sums", PLUGIN, datapipes=METHODS)
    # As a package, which says that it has types.
    package = environment.site / "sums"
    package.mkdir()
    (environment.site / "sums.py").rename(package / "__init__.py")
    (package / "py.typed").touch()
    return environment


def test_both_type_checkers_see_plugins_methods(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(USE)
    before = environment.ran("python", "-m", "loader2", "stubs", "--check", cwd=tmp_path)
    assert (before.returncode, before.stdout) == (1, "")
    assert (
        before.stderr == f"{environment.site / STUB} does not exist or is out of date: run `python -m loader2 stubs`\n"
    )
    written = environment.ran("python", "-m", "loader2", "stubs", cwd=tmp_path)
    assert written.stdout == f"{environment.site / STUB}: backwards, local, sums, twice\n", written.stderr
    assert environment.ran("python", "-m", "loader2", "stubs", "--check", cwd=tmp_path).returncode == 0

    write("byte_pairs", tmp_path)  # what new-plugin writes has types, too
    mypy = environment.ran("python", "-m", "mypy", "--strict", "use.py", "byte_pairs/byte_pairs", cwd=tmp_path)
    assert f"Found {len(WRONG)} errors in 1 file (checked 2 source files)" in mypy.stdout
    assert tuple(map(int, re.findall(r"^use.py:(\d+): error", mypy.stdout, re.MULTILINE))) == WRONG, mypy.stdout

    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"include": ["use.py"]}))
    command = ("python", "-m", "pyright", "--outputjson", "--pythonpath", str(environment.python))
    pyright = environment.ran(*command, cwd=tmp_path)
    found = json.loads(pyright.stdout)["generalDiagnostics"]
    assert tuple(each["range"]["start"]["line"] + 1 for each in found) == WRONG, found


def test_what_is_broken_is_left_out_and_said(environment: Environment, tmp_path: Path) -> None:
    broken = installed(
        tmp_path / "more", "broken", "import nothing_of_this_name", datapipes={"broken": "broken:Broken"}
    )
    (environment.site / "more.pth").write_text(str(broken))
    try:
        ran = environment.ran("python", "-m", "loader2", "stubs", "--output", "typings", cwd=tmp_path)
    finally:
        (environment.site / "more.pth").unlink()
    assert ran.returncode == 1
    assert ran.stderr.startswith("left out: 'broken' of the plugin broken (broken:Broken) cannot be imported: Module")
    text = (tmp_path / "typings" / STUB).read_text()
    assert "    sums = chained(_sums_)\n" in text
    assert "broken" not in text
    assert (tmp_path / "typings" / "datapipes-stubs" / "py.typed").read_text() == "partial\n"
