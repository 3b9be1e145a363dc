"""Distributions as pip leaves them, written into a folder for a test: metadata, entry points and a module."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

from tests.test_house import ROOT

PIPE = '''
from datapipes.iter import IterDataPipe


class RunningSum(IterDataPipe):
    """Each number's sum with those before it, times a factor."""

    def __init__(self, source_datapipe, factor=1):
        self.source_datapipe, self.factor = source_datapipe, factor
        self.total = 0

    def __iter__(self):
        for number in self.source_datapipe:
            self.total += number
            yield self.factor * self.total

    def state_dict(self):
        return {"total": self.total}

    def load_state_dict(self, state):
        self.total = state["total"]
'''


def installed(folder: Path, name: str, module: str, **groups: Mapping[str, str]) -> Path:
    """Write a distribution with one module of the same name; ``groups`` are its entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    sections = ("\n".join([f"[loader2.{group}]", *map(" = ".join, names.items())]) for group, names in groups.items())
    (info / "entry_points.txt").write_text("\n".join(sections))
    (folder / f"{name}.py").write_text(module)
    return folder


class Environment:
    """An environment with all that this one has, and a ``site-packages`` of its own."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")
        here = [str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
        (self.site / "here.pth").write_text("\n".join(here))

    def ran(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a command, in which ``python`` is that of this environment."""
        outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
        env = {**outside, "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}", "PIP_NO_INDEX": "1"}
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=500, check=False)
