"""Warnings that point to the user's own line, whatever is between it and the stage that warns."""

from __future__ import annotations

import sys
import warnings

_OURS = ("datapipes", "loader2", "reading_services", "contextlib")  # the last of which closes things for us


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and show the nearest line that is not this library's: the loop that iterates, as a rule."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__"), frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: object, file: str) -> bool:
    return file.startswith("<") or str(module).partition(".")[0] in _OURS
