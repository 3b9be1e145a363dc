"""What a kind of work is, and a contender: one library's way of doing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.child import INTERPRETER as PEERS_INTERPRETER
from benchmarks.real.digest import columns

Build = Callable[[Path, int], Any]
"""Makes a loader, given the folder of the data and how many workers; iterated, it gives an epoch's batches."""

OURS = "loader2"
TORCH = "torch"
WEBDATASET = "webdataset"
DATASETS = "datasets"
NODES = "torchdata.nodes"
OLD = "torchdata 0.9"
LITDATA = "litdata"
SPDL = "spdl"
GRAIN = "grain"

PACKAGES = {
    OURS: ("loader2", "reading_services", "datapipes.iter", "datapipes.map"),
    TORCH: ("torch.utils.data",),
    WEBDATASET: ("webdataset",),
    DATASETS: ("datasets", "torch.utils.data"),
    NODES: ("torchdata.nodes",),
    OLD: ("torchdata.datapipes.iter", "torchdata.dataloader2"),
    LITDATA: ("litdata",),
    SPDL: ("spdl.dataloader", "torch.utils.data"),
    GRAIN: ("grain",),
}
"""What is imported before the clock starts."""

ELSEWHERE = {OLD, LITDATA, SPDL, GRAIN}
"""The contenders that run in the peers' environment, because two versions of torchdata cannot share one."""

WORKERS = (0, 2)


@dataclass(frozen=True)
class Way:
    """One library's way of doing a kind of work; `note` tells it from another way of the same library.

    `prepare` makes the library's own form of the data, once, while no clock runs; it is given the data's folder, and
    where to. With `share`, this is done by hand as quickly as can be: without workers it is no rival of ours, which has
    to reach that share of its speed.
    """

    library: str
    build: Build
    note: str = ""
    prepare: Callable[[Path, Path], object] | None = None
    share: float | None = None

    @property
    def name(self) -> str:
        return f"{self.library}, {self.note}" if self.note else self.library

    def own(self, folder: Path) -> Path:
        """Where the library's own form of the data is."""
        return folder / self.library.replace(" ", "-")

    @property
    def interpreter(self) -> Path | None:
        """None: the one that runs."""
        return PEERS_INTERPRETER if self.library in ELSEWHERE else None


def ways(*builds: Build) -> tuple[Way, ...]:
    """The ways of libraries after which their functions are called."""
    return tuple(Way(_LIBRARIES[build.__name__], build) for build in builds)


_LIBRARIES = {
    "ours": OURS,
    "torch": TORCH,
    "datasets": DATASETS,
    "nodes": NODES,
    "old": OLD,
    "spdl": SPDL,
    "grain": GRAIN,
}


def length(batch: Any) -> int:
    return len(columns(batch)[0])


def same(batch: Any) -> Any:
    return batch


@dataclass(frozen=True)
class Kind:
    """`make` writes so many elements into a folder.

    Ours has to be so far `ahead` of the best peer, and, where it is `lean`, to take at most torch's memory.
    `size` says how many elements a batch has, and `plain` gives it as columns where it is not a dict or tuple of them.
    If elements are equal within a tolerance only, `compared` makes a function of a batch from the data's folder: what
    has to be equal.
    """

    title: str
    unit: str
    elements: int
    make: Callable[[Path, int], object]
    ways: tuple[Way, ...]
    ahead: float = 1.05
    lean: bool = False
    size: Callable[[Any], int] = length
    plain: Callable[[Any], Any] = same
    compared: Callable[[Path], Callable[[Any], Any]] | None = None

    def comparable(self, folder: Path) -> Callable[[Any], Any]:
        return self.plain if self.compared is None else self.compared(folder)

    def way(self, name: str) -> Way:
        return next(way for way in self.ways if way.name == name)

    @property
    def reference(self) -> Way:
        """Whose elements are the right ones: torch's loader over a plain class, without workers."""
        return next(way for way in self.ways if way.library == TORCH)
