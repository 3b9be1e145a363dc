"""Distributions as pip leaves them, written into a folder for a test: metadata, entry points and a module."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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
