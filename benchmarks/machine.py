"""Facts of the machine that the figures depend on: cores that may be used, and versions."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = ("loader2", "torch", "torchdata", "numpy")


def header() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    interpreter = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{cores} cores, {interpreter}, {', '.join(map(_versioned, LIBRARIES))}"


def _versioned(library: str) -> str:
    try:
        return f"{library} {version(library)}"
    except PackageNotFoundError:
        return f"{library} (not installed)"
