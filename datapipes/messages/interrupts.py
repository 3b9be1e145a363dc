"""Ctrl-C: its traceback ends in the user's code, wherever in the library's own work it found the program.

A stage's function is the user's, and shows where it was; an import, the opening of a graph or a wait for workers tells
nobody anything, and would fill the terminal.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import FrameType, TracebackType

import torch

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("datapipes", "reading_services", "loader2")
_OURS = tuple(os.path.join(folder, "") for folder in (*map(_ROOT.joinpath, _PACKAGES), Path(torch.__file__).parent))
_PYTHONS = os.path.join(Path(os.__file__).parent, "")
_OF_OTHERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class ShortInterrupts:
    """A block of the library's own work, whose frames a KeyboardInterrupt does not show."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            cut(error)


def cut(interrupt: KeyboardInterrupt) -> None:
    """Take from a traceback all that is below the last frame of the user's; below an import nobody's counts."""
    last, at = None, interrupt.__traceback__
    while at is not None and not at.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
        last = at if _is_users(at.tb_frame) else last
        at = at.tb_next
    if last is None:
        interrupt.__traceback__ = None
    else:
        last.tb_next = None


def _is_users(frame: FrameType) -> bool:
    file, package = frame.f_code.co_filename, str(frame.f_globals.get("__name__")).partition(".")[0]
    if file.startswith((*_OURS, "<loop of ", "<frozen ")):  # compiled by us, or by Python
        return False
    if file == "<string>" and package in _PACKAGES:  # a constructor that Python wrote for a class of ours
        return False
    return not file.startswith(_PYTHONS) or any(folder in file for folder in _OF_OTHERS)
