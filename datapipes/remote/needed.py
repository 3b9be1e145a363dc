"""Optional packages: imported when they are used, and named together with what installs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def needed(module: str, extra: str) -> Any:
    """An optional module.

    >>> needed("a_package_that_nobody_has", "http")
    Traceback (most recent call last):
    ModuleNotFoundError: Package `a_package_that_nobody_has` is required here: pip install 'loader2[http]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        raise ModuleNotFoundError(
            f"Package `{package}` is required here: pip install 'loader2[{extra}]'", name=error.name
        ) from error
