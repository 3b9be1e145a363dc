"""Global random number generators: those of ``random``, ``numpy.random`` and torch's default one.

In a process of its own, a worker seeds them for each epoch, so that functions that draw from them are repeatable. After
the first draw, the worker's tables have the states of the generators, beside the cells of the stages. A resumed epoch
then draws the same numbers. Threads share these generators with the program, and leave them alone.

After a draw, a graph with a replayed class has no position: the stages below that class drew in between. A resume makes
all elements again, from the start of the epoch or the last table before the draw. Numbers drawn for a buffer cannot be
drawn again, so buffers save their elements then.
"""

from __future__ import annotations

import ctypes
import random
import sys
from importlib import import_module
from typing import Any, Final

import torch

from datapipes.description.structure import Pipe
from datapipes.elements import decode, encode
from datapipes.errors import StateError
from datapipes.position.cells import Table
from datapipes.position.plan import Plan
from datapipes.position.seeds import Run
from datapipes.position.session import Session

PLACE: Final = -1
"""Key of the generators in a worker's table. No stage has this place."""

_WHAT: Final = "the global generators of random numbers"


def seed_all(seed: int) -> None:
    """Seed the three generators; numpy's only if numpy is loaded, as torch does by itself."""
    random.seed(seed)
    # torch.manual_seed takes a millisecond: it searches all kinds of devices, and keeps a stack trace for later ones.
    (torch if torch.accelerator.current_accelerator() else torch.default_generator).manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


def load_numpy() -> None:
    """Load numpy's generator before processes are forked. Otherwise each of them loads it when it is seeded."""
    if "numpy" in sys.modules:
        import_module("numpy.random")


class Generators:
    """The three global random number generators of this process."""

    def __init__(self) -> None:
        self._fresh: list[Any] = []
        self._drawn = False

    def seed(self, seed: int) -> None:
        """Seed the generators for an epoch."""
        seed_all(seed)
        self._fresh, self._drawn = _now(), False

    def drawn(self) -> bool:
        """Return whether anything was drawn since the generators were seeded."""
        self._drawn = self._drawn or _now() != self._fresh
        return self._drawn

    def saved(self) -> Table:
        """Return the states of the generators as an entry of a table. The table is empty before the first draw."""
        return {PLACE: encode(_now(), what=_WHAT)} if self.drawn() else {}

    def beside(self, session: Session) -> Table | None:
        """Return the table of a session, with the generators if they were drawn from. Return None if there is none.

        If a cell replaces the table of the stages above it by an earlier one, that table has the generators.
        """
        cells = session.cells.values()
        if self.drawn() and any(cell.is_replayed for cell in cells):
            return None
        table = session.table()
        carries = any(cell.carries and cell.carried() is not None for cell in cells)
        return table if carries else {**table, **self.saved()}

    def load(self, saved: object) -> None:
        """Restore the states of the generators. Raise StateError if they cannot be read."""
        try:
            drawn: Any = decode(saved, what=_WHAT)
            of_python, of_numpy, of_torch = drawn
            random.setstate(of_python)
            if of_numpy is not None:
                import numpy

                numpy.random.set_state(("MT19937", numpy.frombuffer(of_numpy[0], "u4"), *of_numpy[1:]))
            torch.set_rng_state(torch.frombuffer(bytearray(of_torch), dtype=torch.uint8))
        except Exception as error:
            raise StateError(f"{_WHAT}: {error}") from error
        self._drawn = True


def _now() -> list[Any]:
    return [random.getstate(), _of_numpy(), _of_torch()]


def _of_numpy() -> tuple[Any, ...] | None:
    if (numpy := sys.modules.get("numpy")) is None:
        return None
    _, keys, *rest = numpy.random.get_state()
    return keys.tobytes(), *rest


def _of_torch() -> bytes:
    state = torch.get_rng_state()
    return ctypes.string_at(state.data_ptr(), state.numel())


def opened(
    graph: Pipe, run: Run, above: Table | None, generators: Generators | None, before: Plan | None = None
) -> Session:
    """Return a worker's session at a table, with the generators as the table has them; ``before``: the last plan."""
    drawn = None if above is None else above.get(PLACE)
    session = Session.of(graph, run, None if above is None else {at: above[at] for at in above if at != PLACE}, before)
    if drawn is not None and generators is not None:
        session.iterator()  # open it first, since this may draw as well
        generators.load(drawn)
    return session
