"""torchdata's functions that find and replace stages of a graph.

A ``DataPipeGraph`` is a dict of dicts, ``{id(pipe): (pipe, graph of its inputs)}``, with one key, the last pipe. A
stage that is reached by several paths is one shared sub-dict under each, so building it takes one step per stage.
``replace_dp`` and ``remove_dp`` change the consumers of a stage in place. Use ``datapipes.graph.rewrite`` to keep the
old graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.errors import GraphError

DataPipeGraph: TypeAlias = "dict[int, tuple[Pipe, DataPipeGraph]]"
Node: TypeAlias = tuple[Pipe, DataPipeGraph]


def traverse_dps(datapipe: Pipe) -> DataPipeGraph:
    """Return the graph that ends in a pipe.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper([1]).map(str)
    >>> [(end, inputs)] = traverse_dps(dp).values()
    >>> end is dp, [pipe for pipe, _ in inputs.values()]
    (True, [IterableWrapper([1])])
    """
    graphs: dict[int, DataPipeGraph] = {}
    for pipe in structure.walk(datapipe):
        inputs: DataPipeGraph = {}
        for parent in structure.parents(pipe):
            inputs.update(graphs.get(id(parent), {}))  # absent only for a pipe that is above itself
        graphs[id(pipe)] = {id(pipe): (pipe, inputs)}
    return graphs[id(datapipe)]


def traverse(datapipe: Pipe, only_datapipe: bool | None = None) -> DataPipeGraph:
    """Return the graph that ends in a pipe. Deprecated name of ``traverse_dps``.

    Args:
        datapipe: The last pipe of the graph.
        only_datapipe: Accepted for torchdata's programs. It has no effect.
    """
    warnings.warn("`traverse` is deprecated, use `traverse_dps` instead", FutureWarning, stacklevel=2)
    return traverse_dps(datapipe)


def list_dps(graph: DataPipeGraph, exclude_dps: Pipe | Sequence[Pipe] | None = None) -> list[Pipe]:
    """Return every stage once, breadth first from the end, without ``exclude_dps`` and all stages above them."""
    if exclude_dps is None:
        excluded = []
    else:
        excluded = structure.walk(*([exclude_dps] if structure.is_pipe(exclude_dps) else exclude_dps))
    return breadth_first(graph.values(), {id(pipe) for pipe in excluded})


def breadth_first(level: Iterable[Node], seen: set[int]) -> list[Pipe]:
    """Return all stages at or above a level, breadth first, except those in ``seen``. Add them to ``seen``."""
    found: list[Pipe] = []
    while level:
        following: list[Node] = []
        for pipe, inputs in level:
            if id(pipe) not in seen:
                seen.add(id(pipe))
                found.append(pipe)
                following += inputs.values()
        level = following
    return found


def find_dps(graph: DataPipeGraph, dp_type: type | Callable[..., Any]) -> list[Pipe]:
    """Return every stage of a type or of a subclass of it, depth first from the end.

    Args:
        graph: The result of ``traverse_dps``.
        dp_type: The type. An operator that is a function, such as ``Forker``, stands for the stages that it returned.
    """
    kind: Any = dp_type
    return [pipe for pipe, _ in depth_first(graph) if isinstance(pipe, kind)]


def depth_first(graph: DataPipeGraph) -> Iterator[Node]:
    """Yield every stage once, with the graph of its inputs, depth first from the end."""
    seen: set[int] = set()
    stack = list(reversed(graph.values()))
    while stack:
        pipe, inputs = stack.pop()
        if id(pipe) not in seen:
            seen.add(id(pipe))
            yield pipe, inputs
            stack += reversed(inputs.values())


def replace_dp(graph: DataPipeGraph, old_datapipe: Pipe, new_datapipe: Pipe) -> DataPipeGraph:
    """Make every consumer of ``old_datapipe`` read ``new_datapipe`` instead. Return the resulting graph.

    The new pipe may read the old one, even if the old one is the end of the graph. The inputs of the new pipe are not
    changed.

    >>> from datapipes.iter import IterableWrapper
    >>> source = IterableWrapper(range(4))
    >>> graph = replace_dp(traverse_dps(source.batch(2)), source, source.map(lambda x: -x))
    >>> [(end, _)] = graph.values()
    >>> list(end)
    [[0, -1], [-2, -3]]
    """
    end = _end(graph)
    if end is old_datapipe:
        return traverse_dps(new_datapipe)
    inside = {id(pipe) for pipe in structure.walk(new_datapipe)}
    for pipe, _ in depth_first(graph):
        if id(pipe) not in inside and any(parent is old_datapipe for parent in structure.parents(pipe)):
            structure.fill(pipe, pipe, lambda parent: new_datapipe if parent is old_datapipe else parent)
    return traverse_dps(end)


def remove_dp(graph: DataPipeGraph, datapipe: Pipe) -> DataPipeGraph:
    """Make every consumer of a stage read the stage's one input instead. Return the resulting graph."""
    inputs = structure.parents(datapipe)
    if structure.is_hub(datapipe) or structure.hub_of(datapipe) is not None:
        raise GraphError(
            f"Cannot remove {datapipe!r}: it is one of several streams of a stage, or the stage that they share; "
            "give its consumers another input with replace_dp()"
        )
    if not inputs:
        raise GraphError(f"Cannot remove the source DataPipe {datapipe!r} from the graph")
    if len(inputs) > 1:
        raise GraphError(f"Cannot remove {datapipe!r}: it is a DataPipe with multiple sending DataPipes")
    return replace_dp(graph, datapipe, inputs[0])


def _end(graph: DataPipeGraph) -> Any:
    if len(graph) != 1:
        raise AssertionError(f"a graph has one end, and this one has {len(graph)}; pass what traverse_dps() returned")
    ((end, _),) = graph.values()
    return end
