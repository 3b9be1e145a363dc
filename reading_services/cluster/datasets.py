"""Datasets of Ray's as sources, and the elements of a graph as such a dataset.

Both run in the main process, which has joined the cluster. This library's workers are not part of Ray's, and cannot
fetch a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from datapipes.map import MapDataPipe


class RayBlocks(MapDataPipe[Any]):
    """Blocks of a dataset of Ray's, as tables of pyarrow. A block is fetched when it is read.

    ``.flatmap(lambda table: table.to_pylist())`` gives its rows, and ``rebatch(n)`` gives batches of columns. Ranks
    shard the blocks at a ``sharding_filter``; each rank has Ray compute the dataset. So does a program that resumes:
    the dataset must give the same blocks again, and Ray keeps them in order.

    Args:
        dataset: The dataset. Ray computes it when its length or a block is first needed, and keeps it in its object
            store.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._blocks: list[Any] | None = None

    def is_replicable(self) -> bool:
        """Return False: a worker cannot fetch a block."""
        return False

    def _made(self) -> list[Any]:
        if self._blocks is None:
            options = self.dataset.context.execution_options
            kept, options.preserve_order = options.preserve_order, True  # otherwise in order of completion
            try:
                self._blocks = self.dataset.materialize().to_arrow_refs()
            finally:
                options.preserve_order = kept
        return self._blocks

    def __getitem__(self, index: int) -> Any:
        import ray

        return ray.get(self._made()[index])

    def __len__(self) -> int:
        return len(self._made())


def from_ray_dataset(dataset: Any) -> RayBlocks:
    """Return the blocks of a dataset of Ray's, as a source."""
    return RayBlocks(dataset)


def to_ray_dataset(rows: Iterable[Mapping[str, Any]], rows_in_a_block: int = 10_000) -> Any:
    """Return a dataset of Ray's with the elements of a graph as its rows.

    The elements are made in this process, and put into Ray's object store a block at a time.

    Args:
        rows: The graph; its elements are mappings of columns to plain values.
        rows_in_a_block: The number of rows of a block.
    """
    import pyarrow
    import ray

    left, blocks = iter(rows), []
    while block := list(islice(left, rows_in_a_block)):
        blocks.append(ray.put(pyarrow.Table.from_pylist(block)))
    return ray.data.from_arrow_refs(blocks)
