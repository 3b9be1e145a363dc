"""Partition of a dataset among several processes: the shard of this one.

Each process has one block of a collection's index range, without a gap; blocks do not overlap. If it is shuffled, all
processes draw the same permutation of the whole range, and each takes its block of that. The order of an epoch depends
on the seed and the epoch's number only. So processes that leave epochs early, or load ahead, agree as long as they
count the same epochs. Of a stream, each process has every P-th element.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import IterableDataset, Sampler, get_worker_info

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe
from datapipes.errors import BadArgument
from datapipes.iter import ShardingFilter
from datapipes.position.iterator import PipeIterator
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from datapipes.position.torch_worker import warn_of_copies
from datapipes.position.user_classes import is_sharding
from reading_services.ipu.host.arithmetic import Batching


class ProcessBlock(Sampler[int]):
    """Indices of one process's block of a collection, epoch after epoch.

    >>> list(ProcessBlock(100, Batching(micro_batch=4, processes=3, process=1), drop_last=True))[:3]
    [32, 33, 34]

    If shuffled, the block begins later by the number of left-over rows in the first epoch and every other one after it,
    so that these rows are used, too.
    """

    epoch = 0

    def __init__(self, elements: int, batching: Batching, drop_last: bool, seed: int | None = None) -> None:
        self._elements = elements
        self._part = batching.part(elements, drop_last)
        self._seed = seed
        self._moves = elements % len(self._part) if drop_last and self._part else 0
        self._drawn: tuple[int, torch.Generator] | None = None
        if drop_last and not self._part:
            raise BadArgument(
                f"{elements} elements are too few for {batching.processes} processes to have one step of "
                f"{batching.combined} rows each: pass drop_last=False, or make the combined batch smaller"
            )

    def __len__(self) -> int:
        return len(self._part)

    def __iter__(self) -> Iterator[int]:
        if self._seed is None:
            return iter(self._part)
        start = self._part.start + (self._moves if self.epoch % 2 == 0 else 0)
        return iter(self._permutation(self._seed, self.epoch)[start : start + len(self._part)].tolist())

    def _permutation(self, seed: int, epoch: int) -> torch.Tensor:
        """Return the permutation of draw ``epoch + 1`` of one generator."""
        if self._drawn is None or self._drawn[0] > epoch:
            self._drawn = 0, torch.Generator().manual_seed(seed)
        drawn, generator = self._drawn
        for _ in range(drawn, epoch):
            torch.randperm(self._elements, generator=generator)
        self._drawn = epoch + 1, generator
        return torch.randperm(self._elements, generator=generator)


class ProcessShare(IterableDataset[Any]):
    """One process's shard of a stream. Each element is in exactly one shard.

    A pipe is sharded at its ``sharding_filter()``, over the workers of all processes; without one at its end, over the
    processes. Its shuffles draw alike in all of them. Another dataset must give all processes the same elements in the
    same order. The elements of each worker are divided among the processes in turn. With ``drop_last`` an incomplete
    last round is dropped there, so that all processes have equally many.
    """

    def __init__(self, dataset: Iterable[Any], batching: Batching, drop_last: bool, seed: int) -> None:
        self.dataset = dataset
        self._batching = batching
        self._drop_last = drop_last
        self._seed = seed
        self._next = 0

    def begin(self, epoch: int) -> None:
        """Set the epoch of the next iteration. Later iterations in the same worker count on from it."""
        self._next = epoch

    def __iter__(self) -> Iterator[Any]:
        epoch, self._next = self._next, self._next + 1
        return self._of_pipe(self.dataset, epoch) if isinstance(self.dataset, IterDataPipe) else self._in_turn()

    def _of_pipe(self, pipe: IterDataPipe[Any], epoch: int) -> Iterator[Any]:
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        shards, shard = workers * self._batching.processes, worker * self._batching.processes + self._batching.process
        if not any(map(is_sharding, structure.walk(pipe))):  # its classes may shard by worker themselves
            if shard == 0:
                warn_of_copies(pipe, pipe, workers)
            pipe, shards, shard = ShardingFilter(pipe), self._batching.processes, self._batching.process
        return PipeIterator.over(Session.of(pipe, Run(self._seed, epoch, (shards, shard))))

    def _in_turn(self) -> Iterator[Any]:
        source, processes = iter(self.dataset), self._batching.processes
        while len(turn := list(islice(source, processes))) == processes or (turn and not self._drop_last):
            yield from turn[self._batching.process : self._batching.process + 1]

    def __len__(self) -> int:
        dataset: Any = self.dataset
        all_of_them = len(dataset)
        mine, more = divmod(all_of_them, self._batching.processes)
        return mine + (self._batching.process < more and not self._drop_last)
