"""The quicker libraries of the extra ``fast``: the one place that names them and decides whether they are used.

A stage asks when it is opened, and does its work with the usual library if the answer is ``None``. Elements, types of
errors and saved states do not depend on the answer. ``LOADER2_FAST=0`` in the environment switches all of them off; a
pool of workers sends the variable to its processes, as it does with ``LOADER2_SHOW_WORK``.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Literal

from datapipes.messages.switches import FAST

Library = Literal["isal.isal_zlib", "obstore", "orjson", "simplejpeg"]


def fast_library(name: Library) -> Any:
    """Return the module if it is installed and not switched off, else ``None``."""
    if os.environ.get(FAST) == "0":
        return None
    try:
        return import_module(name)
    except ImportError:
        return None
