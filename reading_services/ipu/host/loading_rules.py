"""Validation of a DataLoader's arguments, and its warnings in the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datapipes.description.pipe import IterDataPipe
from datapipes.errors import BadArgument
from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.host.partition import ProcessBlock
from reading_services.ipu.names.enums import DataLoaderMode
from reading_services.ipu.names.messages import logger
from reading_services.ipu.options import Options


def must_rebatch(mode: DataLoaderMode, drop_last: bool, combined: int | None, several_parts: bool) -> bool:
    """Whether rows are to be regrouped; ``several_parts``: each of several workers has a last, incomplete batch."""
    if combined is None:
        return False
    if mode == DataLoaderMode.AsyncRebatched:
        return True
    return combined > 1 and ((mode == DataLoaderMode.Async and not drop_last) or (several_parts and drop_last))


def check_rebatching(
    mode: DataLoaderMode, combined: int | None, worker_size: int | None, async_options: Mapping[str, Any]
) -> None:
    """Refuse arguments that rebatching excludes."""
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
    """This process's part of a collection, if one can be told."""
    if batching.combined is None:
        raise BadArgument(
            "batch_size=None not allowed when several processes share a collection: give a batch_size, or pass "
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
    """Warn that the last step is smaller than the others, if it is."""
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
    """Warn that the last step has fewer of a sampler's batches than the others, if it has, or may have."""
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
    """Warn that a stream comes once from each of several workers, unless somebody sees to it; pipes do."""
    if workers > 1 and init_fn is None and not isinstance(dataset, IterDataPipe):
        logger.warning(
            "each of the %d workers is given the whole IterableDataset, so the dataset will be returned %d times "
            "unless it takes a worker's part by get_worker_info() or in a worker_init_fn",
            workers,
            workers,
        )
