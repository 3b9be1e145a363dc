"""Environment variables that switch parts of the library on and off in a process and in its workers."""

import os

SHOW_WORK = "LOADER2_SHOW_WORK"
FAST = "LOADER2_FAST"


def current_switches() -> dict[str, str]:
    """Return the switches as environment variables, for worker processes that do not inherit this process's own."""
    return {name: os.environ[name] for name in (SHOW_WORK, FAST) if name in os.environ}
