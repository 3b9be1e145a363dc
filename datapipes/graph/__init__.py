"""Functions on graphs of pipes: torchdata's, and the pure ones that this library uses itself.

torchdata's functions (``replace_dp``, ``remove_dp``, ``apply_sharding``, ``set_graph_random_seed`` ...) change a graph
in place and return it, as their users expect. This library never calls one on a user's graph: loaders work on copies.
``rewrite`` is the pure function: it returns a new graph that shares the unchanged pipes.

- ``drawing``: a graph as text, as Mermaid, or with graphviz
- ``editing``: torchdata's functions that find and replace stages
- ``settings``: torchdata's functions that shard, shuffle and seed a whole graph
- ``torch_interop``: registration of chain methods and graph traversal with torch's own pipes and functions
- ``torch_loader``: ``shuffle=`` and ``len`` of torch's DataLoader over a graph
- ``validation``: decorators that check users' classes: determinism of the order, and declared types
"""

from datapipes.description.exports import lazy_imports
from datapipes.description.structure import DataPipe, Pipe, parents, rewrite, walk
from datapipes.graph.editing import DataPipeGraph, find_dps, list_dps, remove_dp, replace_dp, traverse, traverse_dps
from datapipes.graph.settings import (
    apply_random_seed,
    apply_sharding,
    apply_shuffle_seed,
    apply_shuffle_settings,
    get_all_graph_pipes,
    set_datapipes_seed,
    set_graph_random_seed,
)
from datapipes.sharding.sharding import SHARDING_PRIORITIES

with lazy_imports(__name__):
    from datapipes.graph.drawing import to_graph as to_graph
    from datapipes.graph.drawing import to_mermaid as to_mermaid
    from datapipes.graph.drawing import to_svg as to_svg
    from datapipes.graph.drawing import to_text as to_text

__all__ = [
    "SHARDING_PRIORITIES",
    "DataPipe",
    "DataPipeGraph",
    "Pipe",
    "apply_random_seed",
    "apply_sharding",
    "apply_shuffle_seed",
    "apply_shuffle_settings",
    "find_dps",
    "get_all_graph_pipes",
    "list_dps",
    "parents",
    "remove_dp",
    "replace_dp",
    "rewrite",
    "set_datapipes_seed",
    "set_graph_random_seed",
    "to_graph",
    "to_mermaid",
    "to_svg",
    "to_text",
    "traverse",
    "traverse_dps",
    "walk",
]
