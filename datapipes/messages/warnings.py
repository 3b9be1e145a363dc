"""Warnings that point to the user's own line, however deep in the library the warning comes from."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from types import FrameType

# The last three close things, and call functions in threads and event loops, for the library.
_OURS = ("datapipes", "loader2", "reading_services", "contextlib", "concurrent", "asyncio")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that shows the nearest line outside this library and torch, usually that of the user's loop."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and (is_ours(frame) or _package(frame) == "torch"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def users_line(error: BaseException) -> str | None:
    """Return ``file:line`` of the outermost frame of an error outside this library. Return None if there is none."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if not is_ours(frame):
            return f"{os.path.basename(frame.f_code.co_filename)}:{line}"
    return None


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame is part of this library."""
    return frame.f_code.co_filename.startswith("<") or _package(frame) in _OURS


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]
