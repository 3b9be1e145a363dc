"""Datasets for the tests of the IPU side's loader; processes of their own import them from here."""

from __future__ import annotations

import os
import signal
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from reading_services.ipu import ICustomArgParser


class Numbers(Dataset[torch.Tensor]):
    """Rows 0, 1, 2 ..., each of as many equal numbers as asked for."""

    def __init__(self, count: int, width: int = 3) -> None:
        self.count = count
        self.width = width

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: Any) -> torch.Tensor:
        if not 0 <= index < self.count:
            raise IndexError(index)
        return torch.full((self.width,), float(index))


class Stream(IterableDataset[torch.Tensor]):
    """The same numbers; each of several workers gives its contiguous part of them."""

    def __init__(self, count: int, dtype: torch.dtype = torch.float32) -> None:
        self.count = count
        self.dtype = dtype

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        size = -(-self.count // workers)
        for number in range(worker * size, min((worker + 1) * size, self.count)):
            yield torch.tensor(float(number), dtype=self.dtype)


class Endless(IterableDataset[int]):
    """A stream that does not know its length."""

    def __iter__(self) -> Iterator[int]:
        yield from range(10)


class Counted(IterableDataset[torch.Tensor]):
    """A stream that writes a letter into a file each time it is iterated."""

    def __init__(self, count: int, file: Path) -> None:
        self.count = count
        self.file = file

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[torch.Tensor]:
        with self.file.open("a") as file:
            file.write("i")
        yield from map(torch.tensor, range(self.count))


class Elements(Dataset[Any]):
    """Elements that are given."""

    def __init__(self, *elements: Any) -> None:
        self.elements = elements

    def __len__(self) -> int:
        return len(self.elements)

    def __getitem__(self, index: int) -> Any:
        return self.elements[index]


class Failing(Numbers):
    """Numbers, one of which cannot be made."""

    def __init__(self, count: int, bad: int) -> None:
        super().__init__(count)
        self.bad = bad

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.bad:
            raise LookupError(f"row {index} is broken")
        return super().__getitem__(index)


class Leaving(Numbers):
    """Numbers; making one of them ends the process, by a signal or with a status."""

    def __init__(self, count: int, at: int, how: int) -> None:
        super().__init__(count)
        self.at = at
        self.how = how

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.at:
            if self.how:
                os.kill(os.getpid(), signal.Signals(self.how))
            os._exit(0)
        return super().__getitem__(index)


class Drawn(Dataset[torch.Tensor]):
    """Rows drawn from torch's generator."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        if index >= 4:
            raise IndexError(index)
        return torch.rand(2)


Named = namedtuple("Named", ["left", "right"])


class Couple:
    """A structure of a user's own."""

    def __init__(self, left: torch.Tensor, right: torch.Tensor, label: str) -> None:
        self.left = left
        self.right = right
        self.label = label


class CoupleParser(ICustomArgParser):
    """How it is taken apart."""

    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        yield from (struct.left, struct.right)

    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        return Couple(next(tensor_iterator), next(tensor_iterator), original_structure.label)
