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

with lazy_imports(__name__):
    from datapipes.description.structure import DataPipe as DataPipe
    from datapipes.description.structure import Pipe as Pipe
    from datapipes.description.structure import parents as parents
    from datapipes.description.structure import rewrite as rewrite
    from datapipes.description.structure import walk as walk
    from datapipes.graph.drawing import to_graph as to_graph
    from datapipes.graph.drawing import to_mermaid as to_mermaid
    from datapipes.graph.drawing import to_svg as to_svg
    from datapipes.graph.drawing import to_text as to_text
    from datapipes.graph.editing import DataPipeGraph as DataPipeGraph
    from datapipes.graph.editing import find_dps as find_dps
    from datapipes.graph.editing import list_dps as list_dps
    from datapipes.graph.editing import remove_dp as remove_dp
    from datapipes.graph.editing import replace_dp as replace_dp
    from datapipes.graph.editing import traverse as traverse
    from datapipes.graph.editing import traverse_dps as traverse_dps
    from datapipes.graph.settings import apply_random_seed as apply_random_seed
    from datapipes.graph.settings import apply_sharding as apply_sharding
    from datapipes.graph.settings import apply_shuffle_seed as apply_shuffle_seed
    from datapipes.graph.settings import apply_shuffle_settings as apply_shuffle_settings
    from datapipes.graph.settings import get_all_graph_pipes as get_all_graph_pipes
    from datapipes.graph.settings import set_datapipes_seed as set_datapipes_seed
    from datapipes.graph.settings import set_graph_random_seed as set_graph_random_seed
    from datapipes.sharding.sharding import SHARDING_PRIORITIES as SHARDING_PRIORITIES
