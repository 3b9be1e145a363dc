"""Global random number generators: those of ``random``, ``numpy.random`` and torch's default one.

In a process of its own a worker seeds them for each epoch, so that functions which draw from them can be repeated. Once
something was drawn, the worker's positions say where the generators are, beside where the stages are: an epoch that is
resumed, or goes on behind an error, draws what it would have drawn. A graph with a class that is replayed has no
position once something was drawn: what is behind that class was drawn in between, so all is made again from the start
of the epoch, or from the last position before that. What was drawn for a buffer cannot be drawn again, so buffers save
their elements then. Threads share these generators with the program, and leave them alone.
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
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from datapipes.position.user_positions import Replayed

PLACE: Final = -1
"""Key of the generators in a worker's positions: no stage's place."""

_WHAT: Final = "the global generators of random numbers"


def seed_all(seed: int) -> None:
    """Seed the three generators; numpy's if there is a numpy, which torch imports."""
    random.seed(seed)
    # torch.manual_seed looks for devices of each kind, and keeps a stack trace for those to come: a millisecond.
    (torch if torch.accelerator.current_accelerator() else torch.default_generator).manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


def load_numpy() -> None:
    """Load numpy's generator before processes are forked: by default each of them would load it when it is seeded."""
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
        """Return the state of the generators as an entry of a table; no entry as long as nothing was drawn."""
        return {PLACE: encode(_now(), what=_WHAT)} if self.drawn() else {}

    def beside(self, session: Session) -> Table | None:
        """The position of a session, and of the generators if anybody has drawn from them; None: there is none.

        Where a stage carries an earlier position of those above it, the generators are as they were then.
        """
        cells = session.cells.values()
        if self.drawn() and any(isinstance(cell, Replayed) for cell in cells):
            return None
        table = session.table()
        carries = any(cell.carries and cell.carried() is not None for cell in cells)
        return table if carries else {**table, **self.saved()}

    def load(self, saved: object) -> None:
        """Go on from a saved position."""
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


def opened(graph: Pipe, run: Run, above: Table | None, generators: Generators | None) -> Session:
    """A session of a worker at a position, and the generators where they were then."""
    drawn = None if above is None else above.get(PLACE)
    session = Session(graph, run, None if above is None else {at: above[at] for at in above if at != PLACE})
    if drawn is not None and generators is not None:
        session.iterator()  # opening it may draw as well
        generators.load(drawn)
    return session
