"""Plugins: entry points of installed distributions, imported when one of their names is used.

Methods of pipes are entry points of the group ``loader2.datapipes``, named like the method. Each refers to a class of
pipes, or to a module that registers the name with ``functional_datapipe``. Entry points are read at the first name that
is not known otherwise, because reading them searches every installed distribution.

Names that a program registers by itself come first. The names of this library are reserved, for both kinds of pipe: a
plugin that offers one causes a warning and is not imported for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from datapipes.errors import PluginError
from datapipes.messages.warnings import warn

METHODS = "loader2.datapipes"
SERVICES = "loader2.reading_services"

is_loading: ContextVar[bool] = ContextVar("is_loading", default=False)
"""Whether a plugin is being imported, so that the names that it registers are a plugin's."""


def offered(group: str, taken: Callable[[str], bool]) -> Mapping[str, list[EntryPoint]]:
    """Return the entry points of a group, by name. Warn of those whose name is ``taken`` and leave them out."""
    return _offered(group, taken, tuple(sys.path))


@cache
def _offered(group: str, taken: Callable[[str], bool], path: tuple[str, ...]) -> Mapping[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, source_of(entry))):
        if taken(entry.name):
            warn(f"{source_of(entry)} offers {entry.name!r}, which is a name of this library: it is not used")
        else:
            found.setdefault(entry.name, []).append(entry)
    return found


def source_of(entry: EntryPoint) -> str:
    """Return the distribution and the target of an entry point, for messages."""
    return f"{entry.dist.name if entry.dist is not None else 'loader2'} ({entry.value})"


def load(entries: Iterable[EntryPoint]) -> Any:
    """Import the target of a name. Raise PluginError if several distributions offer the name, or if it fails."""
    entry, *others = entries
    if others:
        owners = " and ".join(map(source_of, (entry, *others)))
        raise PluginError(f"{entry.name!r} is offered by {owners}: uninstall one, or import the class that you mean")
    token = is_loading.set(True)
    try:
        return entry.load()
    except Exception as error:
        raise PluginError(
            f"{entry.name!r} of the plugin {source_of(entry)} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    finally:
        is_loading.reset(token)


def named(names: Mapping[str, list[EntryPoint]]) -> str:
    """Return names and the distributions that offer them, for messages."""
    return ", ".join(f"{name!r} of {' and '.join(map(source_of, entries))}" for name, entries in names.items())
