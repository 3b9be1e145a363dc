"""Warnings that point to the user's own line, whatever is between it and the stage that warns."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from types import FrameType

# The last three close things, and call functions in threads and event loops, for us.
_OURS = ("datapipes", "loader2", "reading_services", "contextlib", "concurrent", "asyncio")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and show the nearest line that is not this library's: the loop that iterates, as a rule."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and is_ours(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def users_line(error: BaseException) -> str | None:
    """Return ``file:line`` of the outermost frame of an error that is not this library's. None: there is none."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if not is_ours(frame):
            return f"{os.path.basename(frame.f_code.co_filename)}:{line}"
    return None


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame is of this library, and not of the program that uses it."""
    module = str(frame.f_globals.get("__name__"))
    return frame.f_code.co_filename.startswith("<") or module.partition(".")[0] in _OURS
