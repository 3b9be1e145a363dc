"""Pipes that are iterated directly: with a fresh seed, or as the shard of a worker of torch's DataLoader.

torch gives all workers the same dataset, and the dataset has to shard itself. A graph does so at its sharding stages,
with one shard for each worker of each rank. The workers of one loader share a seed that is new each epoch
(``worker_info.seed - worker_info.id``). The ranks share that of rank 0, so all shuffle alike. A loader without
workers reads its dataset in the rank's process. It is found by its fetcher among the callers.

A graph without a sharding stage is not sharded. Its classes or functions, or a ``worker_init_fn``, may shard the
elements themselves, and sharding twice would lose elements. Nothing above a map-style pipe is sharded, because torch
itself distributes its keys.

Persistent workers keep their seed over epochs, so epochs are counted here, continuing from a loaded position.
"""

from __future__ import annotations

import inspect
import multiprocessing
import sys
from collections.abc import Iterator, MutableMapping
from types import CodeType
from typing import Any
from weakref import finalize

from torch.utils.data import ChainDataset, get_worker_info
from torch.utils.data._utils.fetch import _IterableDatasetFetcher
from torch.utils.weak import WeakIdKeyDictionary

from datapipes.description import passes, structure
from datapipes.description.pipe import IterDataPipe
from datapipes.description.printing import on_any_machine
from datapipes.messages.warnings import warn
from datapipes.position.parent_watch import leaving_with
from datapipes.position.seeds import Run, draw_default_seed
from datapipes.position.session import Session
from datapipes.position.user_classes import is_sharding
from datapipes.sharding.group import RankInfo, ranks

_FETCHING = {_IterableDatasetFetcher.__init__.__code__, _IterableDatasetFetcher.fetch.__code__}
"""Code of torch's loader that reads the elements of a stream."""

_begun: MutableMapping[structure.Pipe, tuple[int, int]] = WeakIdKeyDictionary()
"""The seed of each pipe that was iterated in this worker, and its latest epoch."""

_given: dict[int, int] = {}
"""The seed that a loader without workers has drawn from its ``generator``, by the id of its dataset."""

_sessions: dict[int, Session] = {}
"""The latest session of each pipe that torch reads. They are few, and live as long as the worker."""


def session_here(pipe: IterDataPipe[Any]) -> Session:
    """Return a session on a pipe that is iterated directly."""
    info, here = get_worker_info(), ranks()
    dataset = info.dataset if info is not None else _dataset_of_a_caller() if here.world > 1 or _given else None
    whole = _graph_in(dataset, pipe)
    if info is None and (whole is None or here.world == 1):
        return Session.of(pipe, Run(_seed_for(None if whole is None else dataset), passes=None, plain=True))
    if whole is None:
        here = RankInfo()  # a pipe that a function reads beside the dataset is not read alike by all ranks
    workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
    shards, shard = workers * here.world, worker * here.world + here.rank
    if info is None:
        seed, epoch = here.shared(on_any_machine(whole), "no worker", _seed_for(dataset)), 0
    else:
        seed, epoch = _next_epoch(pipe, info, here)
    by_key = structure.is_pipe(dataset) and not structure.is_stream(dataset)
    counted = None if info is None or whole is None else passes.numbers(pipe)
    run = Run(seed, epoch, None if by_key else (shards, shard), world=here.world, passes=counted, plain=True)
    session = Session.of(pipe, run)
    if whole is not None and info is not None:
        _sessions[id(pipe)] = session
    if whole is not None and shard == 0:
        warn_of_copies(pipe, whole, workers, here.world)
    return session


def begin_epoch(loader: Any, seed: int | None) -> None:
    """Prepare an epoch of a torch loader before it starts its workers. It has drawn ``seed`` for them.

    Workers that are started for each epoch get the number of the epoch from the passes that are counted here.
    """
    dataset, by_generator = loader.dataset, loader.num_workers == 0 and loader.generator is not None
    if loader.num_workers:
        for graph in _graphs_in(dataset):
            passes.count(graph)
    _given.pop(id(dataset), None)
    if by_generator and seed is not None and any(True for _ in _graphs_in(dataset)):
        _given[id(dataset)] = seed
        finalize(dataset, _given.pop, id(dataset), None).atexit = False


def _seed_for(dataset: Any) -> int:
    """Return the seed that the loader's ``generator`` has given for a dataset, or draw one."""
    given = _given.get(id(dataset))
    return draw_default_seed() if given is None else given


def warn_of_copies(pipe: structure.Pipe, whole: structure.Pipe, workers: int, world: int = 1) -> None:
    """Warn that each of these workers gives all elements of a pipe, unless a stage of the whole graph shards it."""
    if workers * world == 1 or any(map(_takes_its_part, structure.walk(whole))):
        return
    givers = [f"{workers} workers"] * (workers > 1) + [f"{world} ranks"] * (world > 1)
    warn(
        f"{pipe!r} has no sharding_filter(): each of the {' of each of the '.join(givers)} gives all of it, so every "
        f"element comes {workers * world} times, unless a worker_init_fn gives each its shard; put .sharding_filter() "
        "below the shuffle, before the expensive stages"
    )


def _next_epoch(pipe: structure.Pipe, info: Any, here: RankInfo) -> tuple[int, int]:
    """Return the seed of a pipe in this worker, and the number of its next epoch."""
    if pipe not in _begun:
        asker = f"worker {info.id} of {info.num_workers}"
        seed = (info.seed - info.id) % 2**64
        if here.world > 1:
            rank: Any = multiprocessing.parent_process()
            with leaving_with(rank.pid):  # torch's own workers check for it only between two elements
                seed = here.shared(on_any_machine(pipe), asker, seed)
        _begun[pipe] = seed, 0
    else:
        seed, epoch = _begun[pipe]
        if id(pipe) in _sessions:  # a loaded state may have changed its epoch
            epoch = _sessions[id(pipe)].run.epoch
        _begun[pipe] = seed, epoch + 1
    return _begun[pipe]


def _dataset_of_a_caller() -> Any:
    """Return the dataset that a torch loader is reading in this process now, or None."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code not in _FETCHING:
        frame = frame.f_back
    return frame.f_locals["self"].dataset if frame.f_code in _FETCHING else None


def _graph_in(dataset: Any, pipe: structure.Pipe) -> structure.Pipe | None:
    """Return the graph in a dataset that contains a pipe, or None. The search stops at this library's pipes."""
    for graph in _graphs_in(dataset):
        if any(stage is pipe for stage in structure.walk(graph, inputs=_in_torch)):
            return graph
    return None


def _graphs_in(dataset: Any) -> Iterator[structure.Pipe]:
    """Yield the graphs that a dataset consists of."""
    if isinstance(dataset, ChainDataset):
        for part in dataset.datasets:
            yield from _graphs_in(part)
    elif structure.is_pipe(dataset):
        yield dataset


def _in_torch(stage: structure.Pipe) -> list[structure.Pipe]:
    """Return the inputs of a torch stage. Return none for a stage of this library, whose inputs its session reads."""
    return [] if isinstance(stage, IterDataPipe) or not structure.is_stream(stage) else structure.parents(stage)


def _takes_its_part(stage: structure.Pipe) -> bool:
    """Return whether a stage shards, or its code looks up the worker's number, as torch's documentation shows."""
    if is_sharding(stage):
        return True
    things = [stage, *structure.attributes(stage).values()]
    codes = [function.__code__ for thing in things for function in _functions(thing)]
    return any("get_worker_info" in names for code in codes for names in _names(code))


def _functions(thing: object) -> Iterator[Any]:
    """Return a function, or those of an object's class, without their decorators."""
    of_class = [value for cls in type(thing).__mro__ for value in vars(cls).values()]
    return filter(inspect.isfunction, map(inspect.unwrap, [thing] if inspect.isfunction(thing) else of_class))


def _names(code: CodeType) -> Iterator[tuple[str, ...]]:
    """Yield the names that a piece of code uses, and those that its inner functions use."""
    yield code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
