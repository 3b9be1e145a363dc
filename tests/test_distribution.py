"""Builds of this project: an editable install that type checkers can follow, and a wheel without tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import loader2

PROJECT = Path(loader2.__file__).parents[1]
PACKAGES = ("datapipes", "loader2", "reading_services")
PLUGIN = "loader2_pytest.py"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The project somewhere else, because building leaves files beside the sources."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", PLUGIN):
        shutil.copy(PROJECT / name, project)
    for name in (*PACKAGES, "tests"):
        shutil.copytree(PROJECT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    return project


def built(project: Path, how: str) -> dict[str, str]:
    """Contents of the wheel that the project's build backend makes: its texts by their names."""
    folder = project.parent / how
    folder.mkdir()
    code = f"from setuptools import build_meta; build_meta.{how}({str(folder)!r})"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, timeout=500, check=False
    )
    assert ran.returncode == 0, ran.stderr
    (wheel,) = folder.iterdir()
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def metadata(files: dict[str, str], name: str) -> str:
    (text,) = [text for path, text in files.items() if path.endswith(f".dist-info/{name}")]
    return text


def test_an_editable_install_is_a_path(copied: Path) -> None:
    files = built(copied, "build_editable")
    (pth,) = [name for name in files if ".dist-info/" not in name]
    assert pth.endswith(".pth")
    assert files[pth].split() == [str(copied)]


def test_a_wheel_holds_the_packages_and_nothing_else(copied: Path) -> None:
    files = built(copied, "build_wheel")
    assert {name.split("/")[0] for name in files if ".dist-info/" not in name} == {*PACKAGES, PLUGIN}
    assert {f"{package}/py.typed" for package in PACKAGES} <= files.keys()
    sources = {str(path.relative_to(PROJECT)) for package in PACKAGES for path in (PROJECT / package).rglob("*.py")}
    assert {name for name in files if name.endswith(".py")} == {*sources, PLUGIN}
    described = metadata(files, "METADATA")
    assert f"\nVersion: {loader2.__version__}\n" in described
    assert "\nProvides-Extra: tfrecord\n" in described
    entry_points = metadata(files, "entry_points.txt")
    assert "poprun = reading_services.ipu.poprun.launcher:main" in entry_points
    assert "[pytest11]\nloader2_pytest = loader2_pytest\n" in entry_points
