"""Datasets of Ray's as sources, and the elements of a graph as such a dataset.

Both run in the process that has joined the cluster: the workers of this library are no part of Ray's, and could not
fetch a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from datapipes.map import MapDataPipe


class RayBlocks(MapDataPipe[Any]):
    """The blocks of a dataset of Ray's, as tables of pyarrow; a block is fetched when it is asked for.

    Its rows are those of ``.flatmap(lambda table: table.to_pylist())``, and ``rebatch(n)`` gives batches of columns.
    Ranks take their blocks at a ``sharding_filter``; each of them has the dataset made for itself. So does a program
    that resumes: the dataset has to give the same blocks again, which Ray keeps in order.

    Args:
        dataset: The dataset. It is made, by Ray, when it is first asked for its length or a block, and stays in Ray's
            object store.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._blocks: list[Any] | None = None

    def is_replicable(self) -> bool:
        """False: a worker could fetch no block."""
        return False

    def _made(self) -> list[Any]:
        if self._blocks is None:
            options = self.dataset.context.execution_options
            kept, options.preserve_order = options.preserve_order, True  # or blocks are numbered as they get ready
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
    """The blocks of a dataset of Ray's, as a source."""
    return RayBlocks(dataset)


def to_ray_dataset(rows: Iterable[Mapping[str, Any]], rows_in_a_block: int = 10_000) -> Any:
    """A dataset of Ray's with the elements of a graph as its rows.

    They are made here, and put into Ray's object store a block at a time.

    Args:
        rows: The graph; its elements are mappings of columns to plain values.
        rows_in_a_block: How many rows a block has.
    """
    import pyarrow
    import ray

    left, blocks = iter(rows), []
    while block := list(islice(left, rows_in_a_block)):
        blocks.append(ray.put(pyarrow.Table.from_pylist(block)))
    return ray.data.from_arrow_refs(blocks)
