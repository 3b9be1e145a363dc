"""ServiceRun: the reading service of one loader, and the graph as the service has changed it.

========  ===================================  =======  ======  ======  =========
phase     meaning                              planned  open    load    finalize
========  ===================================  =======  ======  ======  =========
NEW       ``initialize()`` was not called      asks     starts  keeps   nothing
STARTING  ``initialize()`` has not returned    asks     starts  resets  tolerates
STARTED   ``initialize()`` has returned        graph    opens   resets  ends
========  ===================================  =======  ======  ======  =========

``asks``: calls the service's ``planned()``. ``starts``: calls ``initialize()`` or ``restore()``, then opens. ``keeps``:
keeps the state for ``restore()``. ``resets``: does the same, and ends a checkpointable service, which is NEW again. But
the service goes on if the state is None, or is the service's state already. ``ends``: calls ``finalize_iteration()``
and ``finalize()``. ``tolerates``: does the same, and ignores an AttributeError, because the service may lack attributes
that ``initialize()`` sets. A loader without a service has the same phases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from enum import Enum
from typing import Any

from datapipes.description import passes, structure
from datapipes.errors import BadArgumentType
from datapipes.iter import IterableWrapper, Lanes
from datapipes.position.cells import Table
from datapipes.position.plan import Plan
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from datapipes.position.source_fingerprints import SourceFingerprints
from loader2.epochs import Epochs
from loader2.random import SeedGenerator
from reading_services import CheckpointableReadingServiceInterface, ReadingServiceInterface
from reading_services.interface.service import own_copy, warn_without_ranks
from reading_services.workers.gather import announce_saving, refuse_other_workers

ServicePhase = Enum("ServicePhase", "NEW STARTING STARTED")


class ServiceRun:
    """Life of a reading service for one loader."""

    def __init__(self, stages: list[structure.Pipe], service: ReadingServiceInterface | str | None) -> None:
        self.graph: Any = (graph := stages[-1])
        self.service = own_copy(service)
        self.phase = ServicePhase.NEW
        self.sources = SourceFingerprints(graph)
        self.foreign: Iterator[Any] | None = None  # over an iterable, if the service returned one that is no graph
        self._saved: bytes | None = None  # the service's state that was loaded, until the service gets it
        self._original: tuple[Any, Any] | None = None  # graph and checkpointable service before initialize()
        self._warns = True  # whether the next session warns of a position that cannot be saved
        self._announced = False  # whether the workers of this session know that the caller saves positions
        for stage in stages:
            if isinstance(stage, Lanes):
                stage.check()
        if isinstance(self.service, ReadingServiceInterface):
            self.service.check(graph)
        # A graph with hubs that can never be opened raises here. Sessions use the last plan for as long as it is right.
        self._plan = Plan(graph, Run(seed=0), {}) if structure.has_hubs(stages) else None

    def planned(self) -> Any:
        """Return a graph with the length of the graph that the service makes."""
        if self.phase is ServicePhase.STARTED or not isinstance(self.service, ReadingServiceInterface):
            return self.graph
        return self.service.planned(self.graph)

    def open(self, epochs: Epochs, cells: Table | None, shown: bool) -> Session:
        """Return a session for an epoch, at its start or at saved positions."""
        if self.phase is not ServicePhase.STARTED:
            self._initialize()
        run, service = epochs.run(), self.service
        if service is not None:
            run = service.agree(run, cells is not None) if isinstance(service, ReadingServiceInterface) else run
            prepare = service.initialize_iteration(SeedGenerator(run.stage_seed(-1)))
            if prepare is not None:
                self.graph = prepare(self.graph)
        pipe = self.graph
        if not structure.is_pipe(pipe):
            if not isinstance(pipe, Iterable):
                name = type(service).__name__
                raise BadArgumentType(
                    f"{name} must return the graph to iterate, or an iterable; it returned {pipe!r:.80}"
                )
            self.foreign = iter(pipe)
            pipe = IterableWrapper(self.foreign, deepcopy=False)
        self.sources.begin()
        passes.settle(pipe, run.number)
        run = replace(run, shown=shown, passes=passes.numbers(pipe))
        session = Session.of(pipe, run, cells, self._plan)
        if cells is not None:
            _restore(session, cells)
        self._plan, session.warns_if_unsavable = session.plan, self._warns
        self._warns = self._announced = False
        return session

    def _initialize(self) -> None:
        service, saved, self._saved = self.service, self._saved, None
        warn_without_ranks(self.graph, service)
        self.phase = ServicePhase.STARTING
        if isinstance(service, CheckpointableReadingServiceInterface):
            self._original = structure.unfold(self.graph), own_copy(service)
        if saved is not None and isinstance(service, CheckpointableReadingServiceInterface):
            self.graph = service.restore(self.graph, saved)
        elif service is not None:
            self.graph = service.initialize(self.graph)
        if structure.is_pipe(self.graph):
            passes.settle(self.graph, 0)
        self.phase = ServicePhase.STARTED

    def state(self) -> bytes | None:
        """Return the service's own state. Return None if it has none."""
        if isinstance(self.service, CheckpointableReadingServiceInterface) and self._saved is None:
            return self.service.checkpoint() or None  # a chain of services without any state returns b""
        return self._saved

    def announce_saving(self) -> None:
        """Have the workers send large tables as well, from now on."""
        if not self._announced and structure.is_pipe(self.graph):
            self._announced = True
            announce_saving(self.graph)

    def load(self, saved: bytes | None) -> None:
        """Start the service from its own saved state when the next session is opened."""
        service, self._saved = self.service, saved
        if saved is None or self._original is None or not isinstance(service, CheckpointableReadingServiceInterface):
            return
        if self.phase is ServicePhase.STARTED and service.checkpoint() == saved:
            self._saved = None
            return
        service.finalize()
        (self.graph, self.service), self._original = self._original, None
        self.phase = ServicePhase.NEW

    def end_epoch(self) -> None:
        """Tell the service that the epoch has ended."""
        if self.service is not None:
            self.service.finalize_iteration()

    def finalize(self) -> None:
        """End the epoch and the service, if it was started."""
        if self.service is None or self.phase is ServicePhase.NEW:
            return
        is_started = self.phase is ServicePhase.STARTED
        with nullcontext() if is_started else suppress(AttributeError), ExitStack() as closing:
            closing.callback(self.service.finalize)
            self.service.finalize_iteration()


def _restore(session: Session, cells: Table) -> None:
    """Open a session at saved positions. Raise if they do not fit."""
    try:
        session.iterator()
    except BaseException as error:
        session.close()
        refuse_other_workers(error, session.plan.graph, cells)
        raise
