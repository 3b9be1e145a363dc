"""check_pipe: the laws, tried on an author's pipe."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Collection, Iterable
from functools import partial

from datapipes.description import structure
from datapipes.errors import BadArgumentType
from datapipes.graph import Pipe, replace_dp, traverse_dps
from datapipes.iter import IterableWrapper
from loader2.testing.comparing import SEED, taken
from loader2.testing.laws import LAWS, check
from loader2.testing.specimen import AfterFault, Build, Order, Specimen, Tap
from reading_services.interface.service import graph_from


def check_pipe(
    make: Callable[..., Pipe],
    *,
    laws: Iterable[str] = LAWS,
    order: Order = "unknown",
    after_fault: AfterFault = "goes on or stays",
    memo: Collection[str] = (),
) -> None:
    """Raise LawBroken unless a pipe keeps every law. The error names the law, the shortest graph, and the remedy.

    All positions are tried, so some ten elements are enough. The stream has to end. Each ``IterableWrapper`` of the
    graph is a source: all are made shorter to find the shortest graph, and each in turn is made to raise for the law of
    errors. A graph without one, such as a source of your own, is tried as it is and without exceptions.

    Args:
        make: Builds a new graph with your pipe in it. If it has a parameter, it gets a ``Tap``, to name other parts
            that may raise: ``lambda tap: MyPipe(tap(IterableWrapper(range(9))), tap.function(fn))``.
        laws: The names of the laws to try; all of them by default.
        order: Dependence of the elements' order: ``""`` on nothing, ``"by seed"`` on the seed and the number of the
            epoch, ``"pinned"`` on the number alone. By default, one seed must give one order.
        after_fault: ``"goes on"`` demands that all elements that an exception did not hit follow it. By default the
            same exception may also come again and again, as from a class whose ``__iter__`` is a generator. With
            ``"otherwise"`` any elements may follow, but the same ones after a resume.
        memo: Attributes that may change while iterating, because they cache the results of a pure function.

    >>> from datapipes.iter import IterableWrapper
    >>> check_pipe(lambda: IterableWrapper(range(6)).shuffle().batch(4))
    """
    __tracebackhide__ = True
    name = make.__name__ if inspect.isclass(make) else type(make).__name__
    if inspect.isclass(make) or not callable(make):
        raise BadArgumentType(f"{name} builds no graph: check_pipe(lambda: {name}(IterableWrapper(range(9)), ...))")
    build: Build = make if _wants_tap(make) else partial(_with_source_tapped, make, 0)
    pipe = graph_from(make, build(Tap()))
    sources = 1 if build is make else len(_sources(pipe))
    specimen = Specimen(
        operator=type(pipe).__name__,
        title=repr(pipe),
        build=build,
        random=order,
        after_fault=after_fault,
        by="pickle" if _is_plain(pipe) else "cloudpickle",
        memo=frozenset(memo),
        thorough=True,
        by_source=tuple(partial(_with_source_tapped, make, i) for i in range(sources)) if sources > 1 else (),
    )
    taken(iter(specimen.loader(seed=SEED)))  # a graph that raises by itself does so here, unchanged
    check(specimen, laws)


def _wants_tap(make: Callable[..., Pipe]) -> bool:
    parameters = inspect.signature(make).parameters.values()
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _with_source_tapped(make: Callable[[], Pipe], number: int, tap: Tap) -> Pipe:
    """Return the graph with its sources passed through a tap: one as the first, and the others beside it."""
    pipe = make()
    for i, source in enumerate(_sources(pipe)):
        tapped = tap(source) if i == number else tap.beside(source)
        if tapped is not source:
            ((pipe, _),) = replace_dp(traverse_dps(pipe), source, tapped).values()
    return pipe


def _sources(pipe: Pipe) -> list[Pipe]:
    stages = structure.walk(pipe) if structure.is_pipe(pipe) else ()
    return [source for source in stages if type(source) is IterableWrapper]


def _is_plain(pipe: Pipe) -> bool:
    """Return whether plain pickle can pickle a graph. If cloudpickle cannot either, the law reports it."""
    try:
        pickle.dumps(pipe)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True
