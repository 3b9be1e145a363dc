"""DataLoader: combined batches, one step of the device at a time, made in this process or ahead in another.

It is torch's DataLoader with batches as large as a step, so that rows are collated once. The rest that each of torch's
workers leaves of a stream is regrouped. Rows of tensors are gathered instead of read one by one. Several processes each
have their own part of the data. Contradictory arguments are refused; lost or repeated rows are logged.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch.utils import data
from torch.utils.data import IterableDataset, Subset, TensorDataset, default_collate

from datapipes.description.pipe import IterDataPipe
from datapipes.errors import BadArgument
from datapipes.memory import batches as memory
from datapipes.rewriting.gathering import batches_of
from reading_services.ipu.host.accessor import AsynchronousDataAccessor
from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.host.partition import ProcessBlock, ProcessShare
from reading_services.ipu.host.rebatching import grouped, rebatched
from reading_services.ipu.host.sources import EpochSource, Rebatched, Sourced
from reading_services.ipu.names.enums import DataLoaderMode
from reading_services.ipu.names.errors import Error
from reading_services.ipu.names.messages import logger
from reading_services.ipu.options import Options

GatherRows = Callable[[Sequence[int]], Any]


def gather_of(dataset: Any) -> GatherRows | None:
    """Return a function from indices to a collated batch. Return None if rows can only be read one by one.

    >>> import torch
    >>> gather = gather_of(Subset(TensorDataset(torch.arange(10), torch.arange(10) * 2), [1, 3, -1]))
    >>> gather([2, 0])
    [tensor([9, 1]), tensor([18,  2])]
    """
    if type(dataset) is Subset and (inner := gather_of(dataset.dataset)) is not None:
        chosen = dataset.indices
        return lambda indices: inner([chosen[i] for i in indices])
    if type(dataset) is TensorDataset and dataset.tensors and (together := batches_of(dataset)) is not None:
        count = len(dataset)
        return lambda indices: together([i + count if i < 0 else i for i in indices])
    return None


def must_rebatch(mode: DataLoaderMode, drop_last: bool, combined: int | None, several_parts: bool) -> bool:
    """Return whether to regroup rows. ``several_parts``: each of several workers ends with an incomplete batch."""
    if combined is None:
        return False
    if mode == DataLoaderMode.AsyncRebatched:
        return True
    return combined > 1 and ((mode == DataLoaderMode.Async and not drop_last) or (several_parts and drop_last))


def check_rebatching(
    mode: DataLoaderMode, combined: int | None, worker_size: int | None, async_options: Mapping[str, Any]
) -> None:
    """Raise BadArgument for arguments that rebatching excludes."""
    if combined == 1:
        raise BadArgument(
            f"{mode.name} with a combined batch size of 1: the rebatched size must be None or greater than 1"
        )
    if worker_size is not None and not 1 <= worker_size <= (combined or 1):
        raise BadArgument(
            f"rebatched_worker_size={worker_size} must be at least 1 and <= the combined batch size, {combined}"
        )
    if "rebatched_size" in async_options:
        raise BadArgument(
            f"async_options cannot have a 'rebatched_size' in combination with {mode.name} (AsyncRebatched): rows are "
            f"regrouped to the combined batch size already, {combined}"
        )


def block_of(
    dataset: Any, batching: Batching, options: Options, shuffle: bool, drop_last: bool, sampler: Any
) -> ProcessBlock:
    """Return this process's block of a collection. Raise BadArgument if it is not defined."""
    if batching.combined is None:
        raise BadArgument(
            "batch_size=None not allowed when several processes share a collection: pass a batch_size, or "
            "auto_distributed_partitioning=False and have the dataset give this process's part"
        )
    if sampler is not None:
        raise BadArgument(
            "a sampler is mutually exclusive with auto_distributed_partitioning=True: pass False, and have the sampler "
            "give this process's part (options.Distributed.processId)"
        )
    if shuffle and not options.exists("random_seed"):
        raise BadArgument(
            "to shuffle in several processes you must set poptorch.Options.randomSeed(), to the same number in all of "
            "them, so that the order is the same in all processes"
        )
    return ProcessBlock(len(dataset), batching, drop_last, options.random_seed if shuffle else None)


def warn_of_rest(elements: int, batching: Batching) -> None:
    """Log a warning if the last step has fewer rows than the others."""
    at_once = (batching.combined or 1) * batching.processes
    if rest := elements % at_once:
        logger.warning(
            "the number of elements in the dataset (%d) is not divisible by the number of elements processed per step "
            "(%d) and drop_last=False: the last tensor will have batch size %d. Pass drop_last=True to leave it out",
            elements,
            at_once,
            rest,
        )


def warn_of_last_group(batch_sampler: Any, batching: Batching) -> None:
    """Log a warning if the last step may have fewer of a sampler's batches than the others."""
    try:
        rest = len(batch_sampler) % batching.micro_batches
    except (TypeError, NotImplementedError):
        logger.warning("the length of the batch_sampler is not implemented: the last tensor may be incomplete")
        return
    if rest:
        logger.warning(
            "the number of batches of the batch_sampler (%d) is not divisible by the number of them in a step (%d) and "
            "drop_last=False: the last tensor will have %d rows. Pass drop_last=True to leave it out",
            len(batch_sampler),
            batching.micro_batches,
            rest * (batching.micro_batch or 1),
        )


def warn_of_copies(dataset: Any, workers: int, init_fn: Any) -> None:
    """Log a warning if each of several workers gives the whole stream. Pipes divide theirs."""
    if workers > 1 and init_fn is None and not isinstance(dataset, IterDataPipe):
        logger.warning(
            "each of the %d workers gets the whole IterableDataset, so the dataset will be returned %d times "
            "unless it takes a worker's part by get_worker_info() or in a worker_init_fn",
            workers,
            workers,
        )


class DataLoader(Sourced, data.DataLoader[Any]):
    """Loader of combined batches of ``batch_size`` x device iterations x gradient accumulation x input groups rows.

    >>> from reading_services.ipu import Options
    >>> import torch
    >>> rows = data.TensorDataset(torch.arange(100))
    >>> loader = DataLoader(Options().deviceIterations(4), rows, batch_size=8)
    >>> loader.combinedBatchSize, len(loader), [len(x) for x, in loader]
    (32, 3, [32, 32, 32])

    Rows of a stream with several workers are regrouped in all modes with ``drop_last``, so at most one incomplete step
    is dropped. PopTorch drops the rest of each worker.

    ``len()`` counts steps, also with a ``batch_sampler``, whose own batches PopTorch counts.

    Args:
        options: The options, which set the number of micro-batches in a step and the number of processes. They are
            frozen from then on.
        dataset: The rows: a dataset of torch, by index or a stream, a list, or a graph of pipes.
        batch_size: The number of rows of a micro-batch, which is the input of one forward pass. ``None``: the dataset
            makes batches itself, and each is a step; ``drop_last`` must be False.
        shuffle: Draw another order of the rows in each epoch. In several processes this needs ``options.randomSeed``.
            ``None``: no shuffling.
        num_workers: The number of torch's workers that make batches. 0: the process that makes the steps makes them.
        drop_last: Drop a last, incomplete step. If False, it is shorter, which few models accept.
        persistent_workers: Keep workers from epoch to epoch. ``None``: True if there are workers.
        auto_distributed_partitioning: Give each of several processes (``options.Distributed``) its part of the data.
            PopTorch refuses streams here. ``False``: the dataset has to give this process's part.
        mode: The place where steps are made. Sync: here, when they are asked for. Async: ahead, in a process of its
            own. AsyncRebatched: as Async, and rows are regrouped, so that no worker's rest is lost.
        async_options: Options of that process by name, those of ``AsynchronousDataAccessor``. If rows are regrouped,
            ``rebatched_size`` is refused. ``None``: its defaults.
        rebatched_worker_size: The number of rows in the batches of torch's workers if rows are regrouped, at most that
            of a step. It does not change the steps. ``None``: as many as a step.
        batch_sampler: An iterable of lists of indices, one for each micro-batch. It excludes ``batch_size`` and
            ``shuffle``. In several processes it has to give this process's part itself, with
            ``auto_distributed_partitioning=False``. ``None``: indices follow from the parameters above.
        **kwargs: Other arguments of torch's DataLoader: ``collate_fn``, ``worker_init_fn``, ``sampler``, ``generator``,
            ``timeout``, ``prefetch_factor`` and so on.
    """

    def __init__(
        self,
        options: Options,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        num_workers: int = 0,
        drop_last: bool = True,
        persistent_workers: bool | None = None,
        auto_distributed_partitioning: bool = True,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        async_options: Mapping[str, Any] | None = None,
        rebatched_worker_size: int | None = None,
        batch_sampler: Any = None,
        **kwargs: Any,
    ) -> None:
        self._accessor: AsynchronousDataAccessor | None = None
        if not isinstance(options, Options):
            raise BadArgument(f"the first argument of a DataLoader is its poptorch.Options, and not {options!r:.100}")
        options._freeze()
        streams = isinstance(dataset, IterableDataset)
        if batch_sampler is not None and (batch_size != 1 or shuffle):
            raise Error("the `batch_sampler` option is mutually exclusive with batch_size, shuffle.")
        rows = batch_size if batch_sampler is None else getattr(batch_sampler, "batch_size", None) or 1
        batching = Batching.of(options, rows)
        combined = batching.combined
        self._options = options
        self._batching = batching
        self._keeps_rest = not drop_last
        self._has_sampler = batch_sampler is not None
        self._rebatches = not self._has_sampler and must_rebatch(
            mode, drop_last, combined, several_parts=streams and num_workers > 1
        )
        self._epoch = 0
        async_options = dict(async_options or {})
        if self._rebatches:
            check_rebatching(mode, combined, rebatched_worker_size, async_options)
        if streams:
            warn_of_copies(dataset, num_workers, kwargs.get("worker_init_fn"))
        elif not drop_last and self._has_sampler:
            warn_of_last_group(batch_sampler, batching)
        elif not drop_last and combined is not None:
            warn_of_rest(len(dataset), batching)

        if auto_distributed_partitioning and batching.processes > 1:
            if self._has_sampler:
                raise Error(
                    "the `batch_sampler` option is mutually exclusive with auto_distributed_partitioning=True: pass "
                    "False, and have the sampler give this process's part (options.Distributed.processId)"
                )
            if streams:
                seed = options.random_seed if options.exists("random_seed") else 0
                dataset = ProcessShare(dataset, batching, drop_last, seed)
            else:
                kwargs["sampler"] = block_of(
                    dataset, batching, options, bool(shuffle), drop_last, kwargs.get("sampler")
                )
                shuffle = None

        super().__init__(
            dataset,
            batch_size=1 if self._has_sampler else (rebatched_worker_size or combined if self._rebatches else combined),
            shuffle=shuffle or None,
            num_workers=num_workers,
            drop_last=drop_last and not self._rebatches and not self._has_sampler,
            persistent_workers=num_workers > 0 if persistent_workers is None else persistent_workers,
            batch_sampler=batch_sampler,
            **kwargs,
        )
        if mode != DataLoaderMode.Sync:
            self._accessor = AsynchronousDataAccessor(StepSource(self._exclusive_because()), **async_options)

    @property
    def combinedBatchSize(self) -> int | None:
        """Rows of a step; None if the dataset makes its batches itself."""
        return self._batching.combined

    @property
    def options(self) -> Options:
        """The options of the batches."""
        return self._options

    def __len__(self) -> int:
        if not (self._rebatches or self._has_sampler):
            return super().__len__()
        if self._has_sampler:
            whole, rest = divmod(len(self.batch_sampler), self._batching.micro_batches)  # type: ignore[arg-type]  # if it has a length
        else:
            elements: Any = self.dataset if isinstance(self.dataset, IterableDataset) else self.sampler
            whole, rest = divmod(len(elements), self._batching.combined or 1)
        return whole + bool(rest and self._keeps_rest)

    def __iter__(self) -> Any:
        if self._accessor is not None:
            return iter(self._accessor)
        self._epoch += 1
        return self.steps(self._epoch - 1)

    def steps(self, epoch: int) -> Iterator[Any]:
        """Return an iterator of an epoch's steps, which are made in this process."""
        if isinstance(self.sampler, ProcessBlock):
            self.sampler.epoch = epoch
        if isinstance(self.dataset, ProcessShare):
            self.dataset.begin(epoch)
        batches: Iterator[Any] = super().__iter__()
        if self._rebatches:
            return rebatched(batches, self._batching.combined or 1, self._keeps_rest)
        if self._has_sampler and self._batching.micro_batches > 1:
            return grouped(batches, self._batching.micro_batches, self._keeps_rest)
        return batches

    def _get_iterator(self) -> Any:
        iterator: Any = super()._get_iterator()
        if self.num_workers == 0 and self.collate_fn is default_collate and self._auto_collation:
            fetcher = iterator._dataset_fetcher
            fetcher.collate_fn = memory.collated
            gather = None if isinstance(self.dataset, IterableDataset) else gather_of(self.dataset)
            fetcher.fetch = gather or fetcher.fetch
        return iterator

    def source(self, rebatched_size: int | None) -> EpochSource:
        """Return the source for an accessor that the caller makes."""
        if self._accessor is not None:
            raise Error(
                "this DataLoader already uses an AsynchronousDataAccessor internally: iterate it as it is, or give the "
                "accessor one with mode=DataLoaderMode.Sync"
            )
        alone = StepSource(self._exclusive_because())
        if self._keeps_rest and not self._has_sampler and (self.combinedBatchSize or 1) > 1 and rebatched_size is None:
            raise BadArgument(
                "with drop_last=False the last step may be smaller, and an accessor only works if 'rebatched_size' is "
                "specified too"
            )
        return alone.source(rebatched_size)

    def _exclusive_because(self) -> DataLoader:
        """Return the same loader without an accessor, for iteration in a process of its own.

        There it gathers rows of tensors without workers.
        """
        alone = copy.copy(self)
        alone.__dict__.update(_accessor=None, _iterator=None)
        if self.collate_fn is default_collate and self.worker_init_fn is None and gather_of(self.dataset) is not None:
            alone.__dict__.update(num_workers=0, persistent_workers=False, prefetch_factor=None, timeout=0)
        return alone

    def terminate(self) -> None:
        """End the process of an asynchronous loader. A second call does nothing."""
        if self._accessor is not None:
            self._accessor.terminate()

    def __del__(self) -> None:
        if getattr(self, "_accessor", None) is not None:
            self.terminate()


class StepSource(EpochSource):
    """Steps of a loader, which are made in another process."""

    rows_vary = True  # a sampler and a collate_fn may make batches of any size

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        self.keeps_rest = loader._keeps_rest
        self.batch_size = loader.combinedBatchSize or 1
        options = loader.options
        self.seed = options.random_seed if options.exists("random_seed") else None

    def source(self, rebatched_size: int | None) -> EpochSource:
        return Rebatched(self, rebatched_size, keep_rest=self.keeps_rest) if rebatched_size else self

    def epoch(self, number: int) -> Iterator[Any]:
        return iter(self.loader.steps(number))

    def __len__(self) -> int:
        return len(self.loader)
