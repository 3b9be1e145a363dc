"""Rows of Parquet files, as columns of tensors: row groups shuffled, batches of rows handed on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch as torch_
from torch.utils.data import IterableDataset

from benchmarks.real import kind, loaders

FILES = 4
GROUPS = 8
COLUMNS = 8
BATCH = 4_096


def make(folder: Path, elements: int) -> None:
    import pyarrow
    from pyarrow import parquet

    random = np.random.default_rng(2)
    for number, ids in enumerate(np.array_split(np.arange(elements), FILES)):
        columns = {f"x{column}": random.random(len(ids), dtype=np.float32) for column in range(COLUMNS)}
        table = pyarrow.table({"id": ids, **columns})
        parquet.write_table(table, folder / f"part-{number}.parquet", row_group_size=-(-len(ids) // GROUPS))


def paths(folder: Path) -> list[str]:
    return sorted(map(str, folder.glob("part-*.parquet")))


def ours(folder: Path, workers: int) -> Any:
    """Row groups are shuffled, and not the rows among them, as the peers do it."""
    from datapipes.iter import IterableWrapper
    from tutorials.recipes import parquet_to_tensors

    groups = IterableWrapper(paths(folder)).list_row_groups().shuffle().sharding_filter()
    return loaders.ours(parquet_to_tensors.columns(groups, BATCH), workers)


def row_groups(files: list[str]) -> list[tuple[str, int]]:
    from pyarrow.parquet import ParquetFile

    return [(path, group) for path in files for group in range(ParquetFile(path).num_row_groups)]


def batches(group: tuple[str, int]) -> Iterator[dict[str, torch_.Tensor]]:
    """By hand: pyarrow's batches of a row group, as tensors."""
    from pyarrow.parquet import ParquetFile

    path, number = group
    with ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH, row_groups=[number], use_threads=False):
            columns = zip(batch.schema.names, batch.columns, strict=True)
            yield {name: torch_.from_numpy(column.to_numpy().copy()) for name, column in columns}


class Rows(IterableDataset[dict[str, torch_.Tensor]]):
    """By hand, for torch's DataLoader."""

    def __init__(self, files: list[str]) -> None:
        self.groups = row_groups(files)

    def __iter__(self) -> Iterator[dict[str, torch_.Tensor]]:
        for group in loaders.Shuffled(loaders.part_of_worker(self.groups)):
            yield from batches(group)


def torch(folder: Path, workers: int) -> Any:
    return loaders.torch_of(Rows(paths(folder)), workers, batch_size=None)


def datasets(folder: Path, workers: int) -> Any:
    from datasets import load_dataset

    rows = load_dataset("parquet", data_files=paths(folder), split="train", streaming=True)
    # From several files at once it waits for five seconds at the end of each epoch, for pyarrow's threads.
    batched = rows.shuffle(seed=0, buffer_size=1, max_buffer_input_shards=1).with_format("torch").batch(BATCH)
    return loaders.torch_of(batched, workers, batch_size=None)


def nodes(folder: Path, workers: int) -> Any:
    from torchdata import nodes

    groups = nodes.IterableWrapper(loaders.Shuffled(row_groups(paths(folder))))
    read = loaders.parallel_node(groups, _all_batches, workers)
    return nodes.Loader(nodes.Unbatcher(read))


def _all_batches(group: tuple[str, int]) -> list[dict[str, torch_.Tensor]]:
    return list(batches(group))


def old(folder: Path, workers: int) -> Any:
    wrapper = import_module("torchdata.datapipes.iter").IterableWrapper
    return loaders.old(wrapper(row_groups(paths(folder))).shuffle().sharding_filter().flatmap(batches), workers)


def litdata(folder: Path, workers: int) -> Any:
    """It reads Parquet files as they are, once they are indexed, and gives rows."""
    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.streaming.item_loader import ParquetLoader

    own = str(folder / kind.LITDATA)
    rows = StreamingDataset(str(folder), item_loader=ParquetLoader(), index_path=own, shuffle=True)
    options = {"persistent_workers": True, "multiprocessing_context": "spawn"} if workers else {}  # it refuses fork
    return StreamingDataLoader(rows, batch_size=BATCH, num_workers=workers, **options)


def index(folder: Path, target: Path) -> None:
    import litdata

    target.mkdir()
    litdata.index_parquet_dataset(str(folder), str(target), num_workers=1)


def spdl(folder: Path, workers: int) -> Any:
    groups = loaders.Shuffled(row_groups(paths(folder)))
    return loaders.SpdlPipeline(partial(loaders.spdl_mapped, groups, batches, workers))


def grain(folder: Path, workers: int) -> Any:
    """Files are mixed row by row: it has no reading of row groups."""
    import grain

    files = grain.MapDataset.source(paths(folder)).shuffle(seed=0)
    rows = grain.experimental.InterleaveIterDataset(
        files.map(grain.experimental.ParquetIterDataset), cycle_length=FILES
    ).batch(BATCH)
    return rows.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers)) if workers else rows


KIND = kind.Kind(
    "Rows of Parquet files",
    "rows",
    2_000_000,
    make,
    (
        kind.Way(kind.OURS, ours),
        kind.Way(kind.TORCH, torch),
        kind.Way(kind.DATASETS, datasets),
        kind.Way(kind.NODES, nodes),
        kind.Way(kind.OLD, old),
        kind.Way(kind.LITDATA, litdata, prepare=index),
        kind.Way(kind.SPDL, spdl),
        kind.Way(kind.GRAIN, grain),
    ),
)
