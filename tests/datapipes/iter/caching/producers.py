"""Caches whose productions are counted: each writes a line to a log that is opened for appending."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from datapipes.iter import IterableWrapper


def note(folder: str, name: object) -> None:
    """Add a line to the log, which several processes may do at once."""
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{name}\n".encode())
    os.close(log)


def noted(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().split() if log.exists() else []


def place(folder: str, name: object) -> str:
    return os.path.join(folder, "cache", str(name))


def make(folder: str, name: object) -> tuple[object, bytes]:
    note(folder, name)
    return name, b"made of %s" % str(name).encode()


def make_several(folder: str, name: object) -> Iterator[tuple[str, list[bytes]]]:
    note(folder, name)
    for part in "xyz":
        yield f"{name}{part}", [b"part ", part.encode()]


def one_each(folder: Path, names: Any, **options: Any) -> Any:
    """A cache with a file for each name."""
    at = partial(place, str(folder))
    held = IterableWrapper(names).on_disk_cache(at)
    return held.map(partial(make, str(folder))).end_caching(same_filepath_fn=True, skip_read=True, **options)


def several_each(folder: Path, names: Any, **options: Any) -> Any:
    """A cache with three files for each name."""
    at = partial(place, str(folder))
    held = IterableWrapper(names).on_disk_cache(at)
    return held.flatmap(partial(make_several, str(folder))).end_caching(filepath_fn=at, **options)


def left_in(folder: Path) -> list[str]:
    """The files of a cache."""
    cache = folder / "cache"
    return sorted(os.listdir(cache)) if cache.exists() else []


def read_all(build: Any, folder: Path, names: Any) -> None:
    """Go through a cache that this process builds; for a child process."""
    for path in build(folder, names):
        with open(path, "rb") as file:
            assert file.read()
