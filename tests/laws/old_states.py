"""States of releases, kept to be loaded by all that come after: ``python -m tests.laws.old_states`` writes this one's.

``states/VERSION.xz`` is a text with a line for each specimen, ``TITLE<tab>STATES``. The states are a literal of Python,
so that reading them runs no code: a list of (epoch, how many of its elements were taken, the loader's state then). A
specimen whose states name a folder or a port has no line, since they mean nothing on another machine.

There are no workers, and positions of what runs ahead are never looked at, so that speed has little say in the states.
"""

from __future__ import annotations

import ast
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import cloudpickle

from datapipes.position.position_history import SnapshotBudget
from loader2 import DataLoader2, __version__
from loader2.testing.comparing import SEED, must, must_equal, taken
from loader2.testing.position import State
from tests.specimens.catalogue import SPECIMENS
from tests.specimens.specimen import Specimen

FOLDER = Path(__file__).parent / "states"
Kept = tuple[int, int, State]


def read(path: Path) -> dict[str, str]:
    """The states of a release by the titles of specimens, each still a text."""
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    return dict(line.split("\t", 1) for line in lines)


def go_on(specimen: Specimen, states: str) -> None:
    """Raise unless a specimen goes on from each state as it does in a run from the start."""
    epochs = [taken(iterator) for iterator in _epochs(_loader(specimen, SEED), 3)]
    # By the hash of its elements a source knows that the folders have other names here.
    is_portable = not _is_of_this_machine(cloudpickle.dumps(specimen.pipe()))
    for epoch, k, state in ast.literal_eval(states):
        loader = _loader(specimen)
        loader.load_state_dict(state, strict=is_portable)
        found = [taken(iterator) for iterator in _epochs(loader, 2)]
        must_equal(found, [epochs[epoch][k:], epochs[epoch + 1]], f"epoch {epoch}, after {k} elements")


def _loader(specimen: Specimen, seed: int | None = None) -> DataLoader2[Any]:
    """A loader without workers, even where the specimen has a service: what they save depends on their speed."""
    loader: DataLoader2[Any] = DataLoader2(specimen.pipe())
    if seed is not None:
        loader.seed(seed)
    return loader


def _epochs(loader: DataLoader2[Any], number: int) -> Iterator[Iterator[Any]]:
    try:
        for _ in range(number):
            yield iter(loader)
    finally:
        loader.shutdown()


def _is_of_this_machine(told: bytes) -> bool:
    """Whether there are names in it that another machine does not know, or a digest of such names."""
    return b"specimens-" in told or b"127.0.0.1:" in told or b"'names': '" in told


def _states(specimen: Specimen) -> list[Kept]:
    """The states at three positions: at the beginning and amid an epoch, and amid the next one."""
    (length,) = (len(taken(iterator)) for iterator in _epochs(_loader(specimen, SEED), 1))
    stops = [sorted({min(1, length), length // 2}), [min(length // 2 + 1, length)]]
    states: list[Kept] = []
    for epoch, iterator in enumerate(_epochs(loader := _loader(specimen, SEED), 2)):
        done = 0
        for k in stops[epoch]:
            must(len(taken(iterator, k - done)) == k - done, f"epoch {epoch} has fewer than {k} elements")
            done = k
            states.append((epoch, k, loader.state_dict()))
        taken(iterator)
    return states


def main() -> None:
    """Write the states of this release."""
    path = FOLDER / f"{__version__}.xz"
    if path.exists():
        sys.exit(f"{path} is there: what a release has saved does not change")
    lines = []
    with mock.patch.object(SnapshotBudget, "is_cheap", return_value=False):
        for specimen in SPECIMENS:
            if not specimen.raises:
                states = repr(_states(specimen))
                if not _is_of_this_machine(states.encode()):
                    lines.append(f"{specimen}\t{states}\n")
    FOLDER.mkdir(exist_ok=True)
    path.write_bytes(lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{path}: {len(lines)} of {len(SPECIMENS)} specimens, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
