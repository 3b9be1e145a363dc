"""torchdata's functions that find and replace stages of a graph.

A ``DataPipeGraph`` is a dict of dicts, ``{id(pipe): (pipe, graph of its inputs)}``, with one key, the end of the graph.
A stage that is reached by several paths is one shared sub-dict under each, so building it takes a step per stage.
``replace_dp`` and ``remove_dp`` change the consumers of a stage in place; use ``datapipes.graph.rewrite`` to keep the
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
    """The graph that ends in a pipe.

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
    """The old name of ``traverse_dps``.

    Args:
        datapipe: The end of the graph.
        only_datapipe: Taken because torchdata has it; it changes nothing.
    """
    warnings.warn("`traverse` is deprecated, use `traverse_dps` instead", FutureWarning, stacklevel=2)
    return traverse_dps(datapipe)


def list_dps(graph: DataPipeGraph, exclude_dps: Pipe | Sequence[Pipe] | None = None) -> list[Pipe]:
    """Every stage once, breadth first from the end; without those of ``exclude_dps`` and all that is above them."""
    if exclude_dps is None:
        excluded = []
    else:
        excluded = structure.walk(*([exclude_dps] if structure.is_pipe(exclude_dps) else exclude_dps))
    return breadth_first(graph.values(), {id(pipe) for pipe in excluded})


def breadth_first(level: Iterable[Node], seen: set[int]) -> list[Pipe]:
    """Breadth-first walk of all stages at or above some, but for those ``seen``, to which they are added."""
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
    """Every stage of a type or of a subclass of it, depth first from the end.

    torchdata matched the exact type only, so that it did not find what users derive from its pipes.

    Args:
        graph: What ``traverse_dps`` gave.
        dp_type: The type. An operator that is a function, such as ``Forker``, stands for the stages that it gave.
    """
    kind: Any = dp_type
    return [pipe for pipe, _ in depth_first(graph) if isinstance(pipe, kind)]


def depth_first(graph: DataPipeGraph) -> Iterator[Node]:
    """Every stage once with the graph of its inputs, depth first from the end."""
    seen: set[int] = set()
    stack = list(reversed(graph.values()))
    while stack:
        pipe, inputs = stack.pop()
        if id(pipe) not in seen:
            seen.add(id(pipe))
            yield pipe, inputs
            stack += reversed(inputs.values())


def replace_dp(graph: DataPipeGraph, old_datapipe: Pipe, new_datapipe: Pipe) -> DataPipeGraph:
    """Make every consumer of ``old_datapipe`` read ``new_datapipe`` instead; the graph afterwards.

    The new pipe may read the old one, also where the old one is the end of the graph: what the new pipe reads is left
    as it is.

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
    """Make every consumer of a stage read that stage's one input instead; the graph afterwards."""
    inputs = structure.parents(datapipe)
    if structure.is_hub(datapipe) or structure.hub_of(datapipe) is not None:
        raise GraphError(
            f"Cannot remove {datapipe!r}: it is one of several streams of a stage, or what they share; "
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
