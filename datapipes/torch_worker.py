"""Iterating a pipe directly: with a fresh seed, or, inside a worker of torch's DataLoader, as that worker's part.

torch starts every worker with the same dataset and leaves it to the dataset to take its part. The workers of one
``DataLoader`` share a seed that is new each epoch (``worker_info.seed - worker_info.id``), so all of them shuffle
alike, and a graph with a sharding stage is sharded there. A graph without one would give every element once per worker;
it is sharded at its end instead, with a warning, because every worker then computes everything. Of a map-style pipe
torch itself hands out the keys: nothing is sharded above it.

Persistent workers keep their seed over epochs, so the epochs are counted here, on from a position that was loaded.
"""

from __future__ import annotations

import warnings
from typing import Any
from weakref import finalize

import torch
from torch.utils.data import ChainDataset, get_worker_info

from datapipes import structure
from datapipes.legacy import is_sharding
from datapipes.pipe import IterDataPipe
from datapipes.seeds import Run
from datapipes.session import Session

_epochs: dict[int, int] = {}
"""How many epochs of each pipe were begun in this worker."""

_sessions: dict[int, Session] = {}
"""The latest session of the pipes that torch reads; they are few, and live as long as the worker."""


def session_here(pipe: IterDataPipe[Any]) -> Session:
    """A session on a pipe that is iterated directly."""
    run = run_here(pipe)
    session = Session(sharded_here(pipe, run), run)
    if _loaded_graph(pipe) is not None:
        _sessions[id(pipe)] = session
    return session


def run_here(pipe: structure.Pipe) -> Run:
    """The run of a pipe that is iterated directly; outside a worker its seed comes from torch's default generator."""
    info = get_worker_info()
    if info is None:
        # The device is named because torch.set_default_device must not decide which generator is drawn from.
        return Run(seed=int(torch.empty((), dtype=torch.int64, device="cpu").random_().item()))
    by_key = structure.is_pipe(info.dataset) and not structure.is_stream(info.dataset)
    return Run(
        seed=(info.seed - info.id) % 2**64,
        epoch=_next_epoch(pipe),
        shard=None if by_key else (info.num_workers, info.id),
    )


def _next_epoch(pipe: structure.Pipe) -> int:
    if id(pipe) not in _epochs:
        finalize(pipe, _epochs.pop, id(pipe), None)
        epoch = 0
    elif id(pipe) in _sessions:  # which may have been sent to an epoch that was saved elsewhere
        epoch = _sessions[id(pipe)].run.epoch + 1
    else:
        epoch = _epochs[id(pipe)] + 1
    _epochs[id(pipe)] = epoch
    return epoch


def sharded_here(pipe: structure.Pipe, run: Run) -> structure.Pipe:
    """The graph to open: sharded at its end if nothing else shards it and there is more than one worker."""
    info, whole = get_worker_info(), _loaded_graph(pipe)
    if info is None or run.shard is None or info.num_workers < 2 or whole is None:
        return pipe
    if any(map(is_sharding, structure.walk(whole))):
        return pipe
    if info.id == 0:
        warnings.warn(
            f"{pipe!r} has no sharding_filter(): each of the {info.num_workers} workers computes all of it and keeps "
            "its part; put .sharding_filter() behind the shuffle, before the expensive stages. (A class that takes its "
            "worker's part by itself says so by having a method apply_sharding.)",
            stacklevel=4,
        )
    return IterDataPipe.sharding_filter(pipe)


def _loaded_graph(pipe: structure.Pipe) -> structure.Pipe | None:
    """The graph in this worker's dataset that a pipe is the end of, as far as it is ours; None if it is of none."""
    info = get_worker_info()
    parts = [] if info is None else [info.dataset]
    for part in parts:
        if isinstance(part, ChainDataset):
            parts += part.datasets
        elif structure.is_pipe(part) and any(stage is pipe for stage in structure.walk_by(_in_torch, part)):
            return part
    return None


def _in_torch(stage: structure.Pipe) -> list[structure.Pipe]:
    """What stands above a stage of torch's; what is above one of ours is for the session to read."""
    return [] if isinstance(stage, IterDataPipe) or not structure.is_stream(stage) else structure.parents(stage)
