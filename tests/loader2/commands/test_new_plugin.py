"""The package that ``new-plugin`` writes, and the page on plugins: a test does what the page says, in its order."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from datapipes.errors import BadArgument
from loader2.__main__ import main
from loader2.commands.new_plugin import FILES, write
from tests.plugins_installed import Environment
from tests.test_house import ROOT

PAGE = ROOT / "docs" / "own-plugin.md"
BLOCK = re.compile(r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```', re.MULTILINE | re.DOTALL)


def test_the_page_can_be_followed_to_its_end(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    commands, programs = [], 0
    for block in BLOCK.finditer(PAGE.read_text("utf-8")):
        kind, title, text = block["kind"], block["title"], block["text"]
        if kind == "console":
            for told in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, says = told.partition("\n")
                ran = environment.ran(*command.split(), cwd=tmp_path)
                assert (ran.returncode, says in ran.stdout) == (0, True), f"{command}: {ran.stdout}{ran.stderr}"
                commands.append(command)
        elif title is None:
            ran = environment.ran("python", "-W", "error", "-c", text, cwd=tmp_path)
            assert (ran.returncode, ran.stderr) == (0, ""), text
            programs += 1
        elif kind == "toml":
            with (tmp_path / title).open("a") as file:
                file.write(text)
        elif (tmp_path / title).exists():
            assert (tmp_path / title).read_text() == text
        else:
            (tmp_path / title).write_text(text)
    assert [command.split()[2] for command in commands] == ["loader2", "pip", "pytest", "loader2", "pip", "pytest"]
    assert programs == 2


def test_it_is_forty_lines_of_python_at_most(tmp_path: Path) -> None:
    lines = [
        line for path in write("tokens", tmp_path) if path.suffix == ".py" for line in path.read_text().split("\n")
    ]
    assert 20 < len(lines) <= 40


def test_what_is_written_is_formatted_and_can_be_installed_anywhere(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    (folder,) = {path.relative_to(tmp_path).parts[0] for path in write("byte_pairs", tmp_path)}
    for command in (
        ["python", "-m", "ruff", "format", "--isolated", "--check", folder],
        ["python", "-m", "ruff", "check", "--isolated", "--select=E,F,I", f"--config=src=['{folder}']", folder],
        ["python", "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--target", "elsewhere", f"./{folder}"],
    ):
        ran = environment.ran(*command, cwd=tmp_path)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    shutil.rmtree(tmp_path / folder)
    program = "from datapipes.iter import IterableWrapper as W; print(type(W([1, 2]).byte_pairs()).__name__)"
    ran = environment.ran("python", "-c", f"import sys; sys.path.append('elsewhere'); {program}", cwd=tmp_path)
    assert ran.stdout == "BytePairs\n", ran.stderr
    described = tomllib.loads(FILES["pyproject.toml"].replace("$distribution", "d").replace("$name", "n"))
    assert described["project"]["dependencies"] == ["loader2"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("map", "pipes of this library have 'map' already"),
        ("json", "a module 'json' already exists"),
        ("Sums", "lower case, digits and _"),
        ("a-b", "lower case, digits and _"),
        ("class", "lower case, digits and _"),
        ("_sums", "lower case, digits and _"),
        ("there", "there already exists: choose another name, or --output"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(BadArgument, match=f"new-plugin {name}: .*{message}"):
        write(name, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_the_command_says_what_it_was_refused_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["loader2", "new-plugin", "map"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "new-plugin map: pipes of this library have 'map' already: choose another name" in capsys.readouterr().err
