"""Interoperability with torch's own code: its pipes have our chain methods, its functions walk our graphs.

Other people's classes derive from ``torch.utils.data.IterDataPipe`` and call ``torch.utils.data.graph``. torchdata's
pipes were of torch's classes, and so such code worked with them. Ours are not, and are no virtual subclasses either: to
torch's DataLoader that would mean to wrap a graph in a pipe of its own, which cannot say where it is, and to shard,
shuffle and seed the user's own pipes for good. So torch is told of two things here, and its loaders of three more in
``datapipes.graph.torch_loader``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data import MapDataPipe as TorchMapDataPipe
from torch.utils.data import graph as torchs_graph

from datapipes.description.pipe import IterDataPipe, MapDataPipe
from datapipes.description.structure import is_pipe, walk
from datapipes.fluent import IterMethods, MapMethods
from datapipes.graph.editing import DataPipeGraph, traverse_dps

_OF_A_LOADER = ("_IterDataPipeSerializationWrapper", "_MapDataPipeSerializationWrapper")
"""Wrappers of torch's DataLoader around torch's pipes. Stages of ours above one are sharded and seeded without it: as
``datapipes.position.torch_worker`` says, for one opening, and so that a resumed epoch has the same seeds."""


def lend_methods() -> None:
    """Register the chain methods that torch has not for its pipes, as torchdata did with its own.

    A class that is registered with torch under such a name takes it, as with this library (``description.names``).
    """
    pairs: tuple[tuple[Any, Any, type], ...] = (
        (TorchIterDataPipe, IterDataPipe, IterMethods),
        (TorchMapDataPipe, MapDataPipe, MapMethods),
    )
    for torchs, ours, methods in pairs:
        names = (name for name in dir(methods) if not name.startswith("_") and name not in torchs.functions)
        lent = {name: _lent(ours, name) for name in names}
        torchs.functions.update(lent)
        by_torch = torchs.register_datapipe_as_function.__func__
        torchs.register_datapipe_as_function = classmethod(_giving_way(by_torch, lent))


def _lent(pipes: type, name: str) -> Callable[..., Any]:
    """Return a function that calls the chain method of this library's pipes that has the name when it is called."""

    def method(pipe: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(pipes, name)(pipe, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"``.{name}()`` of this library's pipes, for one of a pipe of torch's."
    return method


def _giving_way(by_torch: Callable[..., None], lent: dict[str, Callable[..., Any]]) -> Callable[..., None]:
    @wraps(by_torch)
    def register(cls: Any, function_name: str, *args: Any, **options: Any) -> None:
        if function_name in lent and cls.functions.get(function_name) is lent[function_name]:
            del cls.functions[function_name]
        by_torch(cls, function_name, *args, **options)

    return register


def lend_traversal() -> None:
    """Have ``torch.utils.data.graph`` and what builds on it take graphs that have a pipe of ours in them."""
    # The name is private: with a torch that has it no more, its functions refuse our pipes, and nothing else changes.
    by_torch: Any = vars(torchs_graph).get("_traverse_helper")
    if by_torch is None:
        return

    @wraps(by_torch)
    def traversed(datapipe: Any, only_datapipe: bool, cache: set[int]) -> DataPipeGraph:
        by_a_user = not cache and is_pipe(datapipe) and type(datapipe).__name__ not in _OF_A_LOADER
        if by_a_user and any(isinstance(stage, IterDataPipe | MapDataPipe) for stage in walk(datapipe)):
            return traverse_dps(datapipe)
        graph: DataPipeGraph = by_torch(datapipe, only_datapipe, cache)
        return graph

    vars(torchs_graph)["_traverse_helper"] = traversed
