"""Interoperability with torch's own code: its pipes have our chain methods, and its functions walk our graphs.

Classes of other packages derive from ``torch.utils.data.IterDataPipe`` and call ``torch.utils.data.graph``. Our pipes
are not of torch's classes, and not virtual subclasses either. torch's DataLoader would wrap such a graph in a pipe of
its own, which has no position, and would shard, shuffle and seed the user's own pipes in place. Instead, this file
changes two things in torch, and ``datapipes.graph.torch_loader`` changes three more in its loaders.
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
"""Wrappers of torch's DataLoader around torch's pipes. Our stages above one are sharded and seeded without the wrapper:
``datapipes.position.torch_worker`` does so for one opening, so that a resumed epoch has the same seeds."""


def lend_methods() -> None:
    """Register the chain methods that torch lacks on torch's pipes.

    A class that is registered with torch under such a name replaces the method, as with this library
    (``description.names``).
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
    """Return a function that looks up and calls the chain method of this library's pipes."""

    def method(pipe: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(pipes, name)(pipe, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"Call ``.{name}()`` of this library's pipes on a pipe of torch's."
    return method


def _giving_way(by_torch: Callable[..., None], lent: dict[str, Callable[..., Any]]) -> Callable[..., None]:
    @wraps(by_torch)
    def register(cls: Any, function_name: str, *args: Any, **options: Any) -> None:
        if function_name in lent and cls.functions.get(function_name) is lent[function_name]:
            del cls.functions[function_name]
        by_torch(cls, function_name, *args, **options)

    return register


def lend_traversal() -> None:
    """Make ``torch.utils.data.graph`` and the functions that use it accept graphs that contain our pipes."""
    # The name is private. With a torch that does not have it, torch's functions refuse our pipes.
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
