"""Exports of a package: names that are imported when they are first asked for.

A program uses a few operators, and pays for importing these. The package tells type checkers of all under
``if TYPE_CHECKING``, and ``__all__`` names them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package; ``homes`` has the names that are in each module.

    >>> get, names = exports("datapipes.map", {"datapipes.errors": "BadArgument GraphError"})
    >>> get("GraphError")
    <class 'datapipes.errors.GraphError'>
    """
    module = sys.modules[package]
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(module, name, value)  # from now on it is found without coming here
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(module), *home_of})

    return __getattr__, __dir__
