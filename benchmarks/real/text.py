"""Lines of text to blocks of tokens: read, shuffled, tokenised, put into blocks of equal length, batched.

The tokenizer is the same for all contenders and needs no download: the number of a word is a hash of it. Each 256 lines
are put into blocks for themselves, and the last block is filled up with zeros; here `pack` fills it with the next ones.
What counts as an element is a token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from torch.utils.data import IterableDataset, default_collate

from benchmarks.real import data, kind, loaders

FILES = 8
LINE = 20
LINES_AT_ONCE = 256
BLOCK = 512
BATCH = 8
VOCABULARY = 50_000
WORDS = re.compile(r"\w+")
BUFFER = 10_000


def make(folder: Path, elements: int) -> None:
    """Files of lines, of so many words altogether."""
    known = data.words(20_000)
    random = np.random.default_rng(1)
    files = [(folder / f"part-{number}.txt").open("w") for number in range(FILES)]
    left, line = elements, 0
    while left:
        length = min(left, int(random.integers(1, 2 * LINE)))
        print(*(known[number] for number in random.integers(0, len(known), length)), file=files[line % FILES])
        left, line = left - length, line + 1
    for file in files:
        file.close()


def tokens(line: str) -> list[int]:
    return [1 + crc32(word.encode()) % VOCABULARY for word in WORDS.findall(line)]


def encode(lines: Iterable[str]) -> list[int]:
    """The tokens of all lines, one after the other."""
    return [token for line in lines for token in tokens(line)]


def blocks(lines: Iterable[str]) -> npt.NDArray[np.int64]:
    """The tokens of all lines in blocks of equal length."""
    flat = encode(lines)
    cut: npt.NDArray[np.int64] = np.zeros((-(-len(flat) // BLOCK), BLOCK), dtype=np.int64)
    cut.flat[: len(flat)] = flat
    return cut


def paths(folder: Path) -> list[str]:
    return sorted(map(str, folder.glob("part-*.txt")))


def size(batch: Any) -> int:
    return int((_array(batch) != 0).sum())


def plain(batch: Any) -> npt.NDArray[np.int64]:
    """Its tokens, one a row."""
    array = _array(batch)
    chosen: npt.NDArray[np.int64] = array[array != 0]
    return chosen


def _array(batch: Any) -> Any:
    return np.asarray(batch.get("blocks", batch.get("tokens")) if isinstance(batch, dict) else batch)


def ours(folder: Path, workers: int) -> Any:
    from tutorials.recipes import text_to_blocks

    return loaders.ours(text_to_blocks.training(paths(folder), encode), workers)


class Blocks(IterableDataset[npt.NDArray[np.int64]]):
    """By hand, for torch's DataLoader."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[npt.NDArray[np.int64]]:
        mix: Any = loaders.ShuffleBuffer(BUFFER)
        mixed = mix(self.lines())
        while lines := list(islice(mixed, LINES_AT_ONCE)):
            yield from blocks(lines)

    def lines(self) -> Iterator[str]:
        for path in loaders.Shuffled(loaders.part_of_worker(self.files)):
            with open(path, encoding="utf-8") as file:
                yield from file


def torch(folder: Path, workers: int) -> Any:
    return loaders.torch_of(Blocks(paths(folder)), workers, batch_size=BATCH)


def datasets(folder: Path, workers: int) -> Any:
    """`batched=True`: as its page on language models does it."""
    from datasets import load_dataset

    rows = load_dataset("text", data_files=paths(folder), split="train", streaming=True)
    rows = rows.shuffle(seed=0, buffer_size=BUFFER)
    rows = rows.map(_block_rows, batched=True, batch_size=LINES_AT_ONCE, remove_columns=["text"])
    return loaders.torch_of(rows.with_format("torch"), workers, batch_size=BATCH)


def _block_rows(rows: dict[str, list[str]]) -> dict[str, Any]:
    return {"blocks": blocks(rows["text"])}


def nodes(folder: Path, workers: int) -> Any:
    """Lines go to the workers, and blocks of 256 of them come back."""
    from torchdata import nodes

    mixed = nodes.IterableWrapper(Mixed(paths(folder)))
    in_blocks = loaders.parallel_node(nodes.Batcher(mixed, LINES_AT_ONCE, drop_last=False), blocks, workers)
    return nodes.Loader(nodes.Mapper(nodes.Batcher(nodes.Unbatcher(in_blocks), BATCH, drop_last=False), np.stack))


class Mixed:
    """The lines of all files, shuffled; opened anew each epoch."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[str]:
        mix: Any = loaders.ShuffleBuffer(BUFFER)
        mixed: Iterator[str] = mix(Blocks(self.files).lines())
        return mixed


def old(folder: Path, workers: int) -> Any:
    wrapper = import_module("torchdata.datapipes.iter").IterableWrapper
    files = wrapper(paths(folder)).shuffle().sharding_filter().open_files(encoding="utf-8")
    lines = files.readlines(return_path=False).shuffle(buffer_size=BUFFER).batch(LINES_AT_ONCE)
    return loaders.old(lines.flatmap(blocks).batch(BATCH).collate(default_collate), workers)


def spdl(folder: Path, workers: int) -> Any:
    return loaders.SpdlPipeline(partial(_spdl, paths(folder), workers))


def _spdl(files: list[str], workers: int) -> Any:
    from spdl.pipeline import PipelineBuilder

    threads = max(workers, 1)
    lines = PipelineBuilder().add_source(loaders.InLists(Mixed(files), LINES_AT_ONCE))
    in_blocks = lines.pipe(blocks, concurrency=threads).disaggregate().aggregate(BATCH).pipe(np.stack)
    return in_blocks.add_sink(3).build(num_threads=threads)


KIND = kind.Kind(
    "Text to blocks of tokens",
    "tokens",
    4_000_000,
    make,
    kind.ways(ours, torch, datasets, nodes, old, spdl),
    ahead=1.15,
    size=size,
    plain=plain,
)
