"""Adapters: changes that a loader makes to its own copy of a graph before it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from datapipes.description import structure
from datapipes.errors import BadArgument, BadArgumentType
from datapipes.graph import apply_shuffle_settings, walk
from datapipes.messages.where import where

__all__ = ["Adapter", "AdapterFn", "CacheTimeout", "Shuffle"]

AdapterFn: TypeAlias = Callable[[Any], Any]


class Adapter(ABC):
    """Base of objects that take a graph and return the graph to use. Any callable may take its place."""

    @abstractmethod
    def __call__(self, datapipe: Any) -> Any:
        """Return the graph to use instead of ``datapipe``, which may be changed."""


class Shuffle(Adapter):
    """Switches every shuffle of the graph on or off.

    Args:
        enable: Whether they are on. If there is no shuffle, True adds one at the end, with a warning. ``None`` changes
            nothing.

    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> list(DataLoader2(IterableWrapper(range(4)).shuffle(), datapipe_adapter_fn=Shuffle(False)))
    [0, 1, 2, 3]
    """

    def __init__(self, enable: bool | None = True) -> None:
        self.enable = enable

    def __call__(self, datapipe: Any) -> Any:
        return apply_shuffle_settings(datapipe, self.enable)


class CacheTimeout(Adapter):
    """Sets how long the caches of the graph wait for another process that fills them.

    Args:
        timeout: The number of seconds, a whole number. It has no default; ``None`` is refused.
    """

    def __init__(self, timeout: int | None = None) -> None:
        if type(timeout) is not int or timeout < 0:
            raise BadArgument(f"CacheTimeout(timeout={timeout!r}): timeout should be integer, the seconds to wait")
        self.timeout = timeout

    def __call__(self, datapipe: Any) -> Any:
        for stage in walk(datapipe):
            set_timeout = getattr(type(stage), "set_timeout", None)
            if callable(set_timeout):
                set_timeout(stage, self.timeout)
        return datapipe


def listed(adapters: AdapterFn | Iterable[AdapterFn] | None) -> list[AdapterFn] | None:
    """Return the adapters of a loader as a list, or None if it has none."""
    if adapters is None:
        return None
    several = list(adapters) if isinstance(adapters, Iterable) and not callable(adapters) else [adapters]
    for adapter in several:
        if not callable(adapter):
            raise BadArgumentType(
                f"datapipe_adapter_fn must be callable, or several callables; got {type(adapter).__name__}: "
                f"{adapter!r:.80}"
            )
    return several


def adapted(datapipe: Any, adapters: Iterable[AdapterFn]) -> Any:
    """Apply the adapters to a graph in turn. Raise BadArgumentType if one returns no stream."""
    for adapter in adapters:
        datapipe = adapter(datapipe)
        if not (structure.is_pipe(datapipe) and structure.is_stream(datapipe)):
            raise BadArgumentType(
                f"the adapter {where(adapter)} returned {type(datapipe).__name__}: {datapipe!r:.80}; "
                "it must return the IterDataPipe to use"
            )
    return datapipe
