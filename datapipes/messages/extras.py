"""Optional packages: imported when they are used. The error for a missing one names the command that installs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def needed(module: str, extra: str, method: str = "") -> Any:
    """Import a module of an optional package. ``method`` is the chain method that needs it.

    >>> needed("a_package_that_nobody_has", "http", "read_from_http")
    Traceback (most recent call last):
    ModuleNotFoundError: read_from_http() needs the package `a_package_that_nobody_has`: pip install 'loader2[http]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        raise ModuleNotFoundError(
            f"{f'{method}()' if method else 'this'} needs the package `{package}`: pip install 'loader2[{extra}]'",
            name=error.name,
        ) from error
