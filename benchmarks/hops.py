"""How many of this library's functions an act of a loader calls: ``python -m benchmarks.hops``, ``-v`` names them.

A reader of the code follows these functions; a lambda or comprehension is part of the function that contains it. The
loader is new, and has two worker processes. The way is the one at home, but for that of a chunk, which is a worker's.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

from datapipes.graph import Pipe
from datapipes.iter import FileLister
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, WorkerInfo
from reading_services.workers.worker import WorkerLoop

ROOT = Path(__file__).parent.parent
OURS = tuple(f"{ROOT / package}/" for package in ("datapipes", "loader2", "reading_services"))
CHUNKS = 41  # of a worker, of which the median is told

Calls = Counter[CodeType]
"""How often each function of ours was called."""


@contextmanager
def counted() -> Iterator[Calls]:
    """A block whose calls are counted, those of this thread."""
    calls: Calls = Counter()
    sys.setprofile(_profile(calls))
    try:
        yield calls
    finally:
        sys.setprofile(None)


def _profile(calls: Calls, before: Callable[[CodeType], object] = lambda code: None) -> Any:
    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS) and not code.co_name.startswith("<"):
            before(code)
            calls[code] += 1

    return note


def graph(folder: str) -> Pipe:
    """Rows of files, shuffled and sharded."""
    return FileLister(folder).open_files().parse_csv().shuffle().sharding_filter().map(len).batch(8)


def in_a_worker(folder: str) -> list[str]:
    """The names of the functions that one chunk of a worker calls, from making it to having sent it."""
    said = Path(folder, "said")

    def begin(datapipe: Pipe, info: WorkerInfo) -> Pipe:
        calls: Calls = Counter()
        chunks: list[Calls] = []

        def before(code: CodeType) -> None:
            if code is WorkerLoop._make.__code__:
                chunks.append(calls.copy())
                if len(chunks) == CHUNKS and info.worker_id == 0:
                    said.write_text("\n".join(map(named, sorted(chunks, key=len)[CHUNKS // 2])))
                calls.clear()

        sys.setprofile(_profile(calls, before))
        return datapipe

    service = MultiProcessingReadingService(2, "fork", worker_init_fn=begin)
    with DataLoader2(graph(f"{folder}/data"), reading_service=service) as dl:
        next(_ for _ in dl if said.exists())
    return said.read_text().split("\n")


def a_next(it: Iterator[Any]) -> Calls:
    """The calls of taking one element."""
    with counted() as calls:
        next(it)
    return calls


def named(code: CodeType) -> str:
    """A function by its file, from the root, and its name."""
    return f"{Path(code.co_filename).relative_to(ROOT)} {code.co_qualname}"


def hops() -> dict[str, tuple[list[str], int]]:
    """The functions that each act calls, by name, and how many calls there are; 0 where that was not counted."""
    found: dict[str, Calls] = {}
    with TemporaryDirectory() as folder:
        Path(folder, "data").mkdir()
        for number in range(8):
            Path(folder, "data", f"{number}.csv").write_text("a,b\n" * 100_000)

        def new() -> DataLoader2[Any]:
            return DataLoader2(graph(f"{folder}/data"), reading_service=MultiProcessingReadingService(2, "fork"))

        with new() as dl:  # what is imported when it is needed is there then
            next(iter(dl))
            dl.state_dict()
        with counted() as found["DataLoader2()"]:
            dl = new()
        with dl:
            dl.seed(0)
            with counted() as found["iter()"]:
                it = iter(dl)
            with counted() as found["the first next()"]:
                next(it)
            found["next()"] = min((a_next(it) for _ in range(100)), key=len)
            with counted() as found["state_dict()"]:
                state = dl.state_dict()
        with new() as dl, counted() as found["load_state_dict()"]:
            dl.load_state_dict(state)
        all_found = {act: (list(map(named, calls)), calls.total()) for act, calls in found.items()}
        return all_found | {"a chunk in a worker": (in_a_worker(folder), 0)}


def main(verbose: bool) -> None:
    """Print the numbers, and the functions if they are asked for."""
    print(f"{'':<32}{'functions':>9}{'files':>7}{'calls':>7}")
    for act, (names, calls) in hops().items():
        print(f"{act:<32}{len(names):>9}{len({name.split()[0] for name in names}):>7}{calls or '':>7}")
        if verbose:
            print(*(f"    {name}" for name in names), sep="\n")


if __name__ == "__main__":
    main("-v" in sys.argv[1:])
