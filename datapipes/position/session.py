"""Session, one opening of a graph: its iterators, its cells, and how to start again.

A session takes a private copy of the graph, asks each stage to start, sources first, and gets back plain iterators; the
last one is the stream. All that the stages remember is in ``cells``, by place: saving reads them, restoring starts with
them filled in. After an exception the generators on the way are gone, as Python has it, but not the cells: the next
``next()`` starts the stages again from there, with the element after the one that failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from types import GeneratorType
from typing import Any

from datapipes.description import structure
from datapipes.errors import ForkedIteration, GraphError, StateError, consumes_element
from datapipes.messages.interrupts import CtrlCWaits, ShortInterrupts, cut
from datapipes.messages.warnings import warn
from datapipes.position import user_classes
from datapipes.position.blame import add_note, note_opening
from datapipes.position.cells import Cell, PutBack, Table, held_in, table_of, unsavable
from datapipes.position.on_error import LeftOut, StepFaults
from datapipes.position.opening import Opening
from datapipes.position.reopening import Reopening
from datapipes.position.seeds import Run
from datapipes.position.source_identity import Sources
from datapipes.position.steps import LONGEST, Groups, Step, interrupted_at, loop
from datapipes.position.user_positions import Replayed, close_unless_stuck

# A nested stage takes up to three units of Python's recursion limit, and less than a kilobyte of a stack of 8 MiB.
_DEEPEST = 11_000
_UNITS = 3


class _Run:
    """Neighbouring one-element stages, collected until somebody reads them."""

    __slots__ = ("source", "stages", "steps")

    def __init__(self, source: Iterator[Any]) -> None:
        self.source = source
        self.steps: list[Step] = []
        self.stages: list[structure.Pipe] = []


class Session:
    """A session: one opening of a graph, and the position in it."""

    def __init__(self, pipe: structure.Pipe, run: Run, saved: Table | None = None, native_end: bool = False) -> None:
        self.description = pipe
        self.joined = run.hubs
        self.run = replace(run.within(), held=held_in(saved))
        self.saved = saved
        self.cells: dict[int, Cell] = {}
        self.restarts = 0
        self.was_interrupted = False  # whether the last one was because of Ctrl-C, or of what else is no Exception
        self.is_inner = False  # whether a stage has opened it, and not a loop
        self.asked = False  # whether anybody has asked for an element
        self.tells = False  # whether to warn, at the first element, of a position that cannot be saved
        self.started = False
        self.ended = False
        self.failed = False
        self.on_stop: Callable[[], object] | None = None  # called when it ends, is closed, or meets an exception
        self._refused: tuple[Any, ...] | None = None  # why nothing is opened again, in a fork
        self._native_end = native_end  # a subclass of an operator that calls the operator's own __iter__
        self._generators: dict[int, list[GeneratorType[Any, Any, Any]]] = {}  # by the id of their stage
        self._threads: list[tuple[ExitStack, list[tuple[int, int]]]] = []  # what closes the stages above, and those
        self._looked_at = 0  # the traceback that was looked at last
        self._first: dict[int, int] = {}  # where in the order that which is above a stage begins
        self._untouched: dict[int, structure.Pipe] | None = None
        self.opened: dict[int, Any] = {}
        self._iterator: Iterator[Any] = iter(())
        self._lay_out()

    # -- opening -------------------------------------------------------------------------------------------------------

    def iterator(self) -> Iterator[Any]:
        """Iterator over the stream from its position: opened at the first call, and again after an exception."""
        if self._refused is not None:
            raise ForkedIteration(*self._refused)
        if self.failed:
            self._close_generators()
            for cell in list(self.cells.values()):
                cell.settle()
            self._lay_out()
            self.restarts += 1
        if self.failed or not self.started:
            self.started, self.failed = False, True  # until all are opened: otherwise the next attempt copies all anew
            try:
                self._open_all()
            except BaseException:
                self._stop()
                raise
            self.started, self.failed = True, False
        return self._iterator

    def _lay_out(self) -> None:
        """Take a private copy of the graph, and put its stages into the order in which they are opened."""
        self._end = self._whole = structure.unfold(self.description)
        for stage in structure.walk(self._whole):
            structure.needs_parents(stage)
        self.reopening = Reopening(self._whole)
        self.sources = Sources(self._whole)
        self._has_hubs = structure.has_hubs(structure.walk(self._end))
        self.apart = self._hubs_apart() if self._has_hubs else frozenset()
        self._order = structure.walk(self._end, inputs=self._above)  # what is above a user's class belongs to it
        self.stages = tuple(f"{structure.place_of(stage)} {type(stage).__name__}" for stage in self._order)
        self._end = in_run(self._whole, self._order, self.run)
        if self._end is not self._whole:
            self._order = structure.walk(self._end, inputs=self._above)
        self._refuse_readers_beside()
        self._readers = _read_by_position(self._order)
        self._index = {id(stage): i for i, stage in enumerate(self._order)}

    def _refuse_readers_beside(self) -> None:
        """Refuse a graph that can never be opened: what a stage has to have for itself is read by another one, too."""
        for stage in structure.walk(self._end) if self._has_hubs else ():
            why = stage._alone if structure.is_native(stage) else None
            if why is not None and not self.is_private(stage):
                raise GraphError(f"{stage!r} {why}")

    def _hubs_apart(self) -> frozenset[int]:
        """The places of hubs that are read in several sessions.

        A plain class of a user's reads each of its sources in a session of its own, but for other plain classes, whose
        code it runs; and a stage that goes over what is above it again does so in a session of its own.
        """
        apart: set[int] = set()
        self.apart = frozenset()
        stages = structure.walk(self._whole)
        read_in: dict[int, set[object]] = {id(stage): set() for stage in stages}
        read_in[id(self._end)].add(None)
        users: set[int] = set()  # the plain classes whose code is run from here
        for stage in reversed(stages):  # those who read come before what they read
            where = read_in[id(stage)]
            if structure.is_hub(stage) and len(where) > 1 and structure.place_of(stage) not in self.joined:
                apart.add(structure.place_of(stage))
                where = {id(stage)}
            sources = [id(source) for source in self._sources(stage)]
            if where == {None} and not sources and not self._is_native(stage):
                users.add(id(stage))
            for parent in structure.parents(stage):
                if id(stage) in users and not structure.is_native(parent):
                    users.add(id(parent))
                is_apart = id(stage) in users or (where == {None} and id(parent) not in sources)
                read_in[id(parent)] |= {(id(stage), id(parent))} if is_apart else where
        return frozenset(apart)

    def _open_all(self) -> None:
        self.sources.begin()
        if self.saved is not None:
            self.saved = _with_one_count(self.saved, self._order)
        self.opened = {}
        self._depth: dict[int, int] = {}
        self._first = {}
        self._shards: dict[int, object] = {}
        for stage in structure.walk(self._whole, self._end):
            if not structure.is_stream(stage):  # the streams that a map-style pipe reads are part of this run
                for source in filter(structure.is_stream, structure.parents(stage)):
                    source.__dict__["_run"] = self.run
        for i, stage in enumerate(self._order):
            sources = self._sources(stage)
            self._first[i] = min((self._first[self._index[id(above)]] for above in self._above(stage)), default=i)
            self._shards[id(stage)] = self._shard_of(stage, sources)
            try:
                self.opened[id(stage)] = self._open(stage)
            except Exception as error:
                note_opening(error, stage)
                raise
        self._iterator = self.read(self._end, by=None)
        self._allow_depth(self._depth[id(self._end)])
        self._note_cells()
        places = [place for place, _ in self._saving]
        self._threads = [
            (cell.above, [(structure.place_of(above), id(above)) for above in structure.walk(stage)[:-1]])
            for stage in self._order
            if (cell := self.cells.get(structure.place_of(stage))) is not None
            and cell.above is not None
            and self.is_private(stage)
        ]
        self._carries = any(cell.carries for _, cell in self._saving)
        if self.saved is not None and not set(self.saved) <= set(places):
            extra = sorted(set(self.saved) - set(places))
            raise StateError(f"cells: there are positions for the stages {extra}, which keep none in this graph")
        kept = {place for place in places if not isinstance(self.cells[place], PutBack)}
        if self.saved is not None and (missing := sorted(kept - set(self.saved))):
            raise StateError(f"cells: there are no positions for the stages {missing}, which keep one in this graph")
        self.saved = None  # the cells have it now

    def _open(self, stage: structure.Pipe) -> Any:
        at = Opening(self, stage)
        sources = self._sources(stage)
        depth = max((self._depth[id(source)] for source in sources), default=0)
        if structure.is_hub(stage) and structure.place_of(stage) in self.joined:
            opened: Any = self.joined[structure.place_of(stage)].queues
        elif not self._is_native(stage):
            opened = user_classes.start(stage, at)
        elif (step := stage._step()) is None:
            opened = stage._open(at)
        else:
            above = self.opened[id(sources[0])]
            if isinstance(above, _Run) and len(above.steps) < LONGEST and not self.has_put_back(stage):
                opened, depth = above, depth - 1
            else:
                opened = _Run(at.source(sources[0]))
            if stage.on_error != "raise":
                step = at.cell(partial(StepFaults, stage)).tolerant(step)
            opened.steps.append(step)
            opened.stages.append(stage)
        self._track(opened, stage)
        self._depth[id(stage)] = depth + (not structure.is_hub(stage))
        return opened

    def _shard_of(self, stage: structure.Pipe, sources: list[structure.Pipe]) -> object:
        if not sources and structure.parents(stage):  # what is above a user's class is not opened here
            return user_classes.shards_above(structure.walk(stage), self.run)[id(stage)]
        return next(filter(None, map(self._shard_below, sources)), None)

    def _shard_below(self, stage: structure.Pipe) -> object:
        return user_classes.shard_key(stage, self.run) if user_classes.is_sharding(stage) else self._shards[id(stage)]

    def elements_of(self, stage: structure.Pipe, groups: Groups | None = None) -> Iterator[Any]:
        """The iterator of an opened stage, for its one consumer; in batches, if ``groups`` are given."""
        opened = self.opened[id(stage)]
        if isinstance(opened, _Run):
            return self._track(loop(opened.source, opened.steps, opened.stages, groups), stage)
        return self._track(opened if groups is None else groups.batches(opened), stage)

    def read(self, stage: structure.Pipe, by: structure.Pipe) -> Iterator[Any]:
        """The iterator of an opened stage, for its one consumer; first, what that consumer has put back."""
        return self.after_put_back(by, self.elements_of(stage))

    def after_put_back(self, stage: structure.Pipe, elements: Iterator[Any]) -> Iterator[Any]:
        """The elements that a stage has put back, and then others."""
        put_back = self._put_back(stage)
        return elements if put_back is None else chain(put_back.again(), elements)

    def has_put_back(self, stage: structure.Pipe) -> bool:
        """Whether a stage ever had to take elements again because it was interrupted."""
        return self._put_back(stage) is not None

    def _track(self, opened: Iterator[Any], stage: structure.Pipe) -> Iterator[Any]:
        """Register a generator of a stage for ``close`` and return it."""
        if isinstance(opened, GeneratorType):
            self._generators.setdefault(id(stage), []).append(opened)
        return opened

    def _above(self, stage: structure.Pipe) -> list[structure.Pipe]:
        """Stages to open before a stage: its sources, and the hubs that are read by what is not opened here."""
        sources = self._sources(stage)
        if not self.apart or len(sources) == sum(map(structure.is_stream, structure.parents(stage))):
            return sources
        return sources + [hub for hub in structure.walk(stage)[:-1] if structure.place_of(hub) in self.apart]

    def _sources(self, stage: structure.Pipe) -> list[structure.Pipe]:
        """Sources that this session opens for a stage, to be read by it."""
        place = structure.place_of(stage)
        if place in self.joined or place in self.apart:
            return []
        if self._is_native(stage):
            read = stage._reads()
        else:
            read = structure.occurrences(stage) if user_classes.saves_itself(stage) else ()
        return [parent for parent in read if structure.is_stream(parent)]

    def _is_native(self, stage: structure.Pipe) -> bool:
        return structure.is_native(stage) or (self._native_end and stage is self._end)

    def _allow_depth(self, depth: int) -> None:
        """Let Python nest as many generators as this graph has stages; by default it stops at a thousand."""
        if depth > _DEEPEST:
            raise GraphError(
                f"this graph nests {depth} stages that each keep a position, more than a stack holds ({_DEEPEST}); "
                "do the work of several stages in one"
            )
        if depth * _UNITS + 600 > sys.getrecursionlimit():
            sys.setrecursionlimit(depth * _UNITS + 1600)

    def _put_back(self, stage: structure.Pipe) -> PutBack | None:
        """The cell of the elements that a stage had taken when it was interrupted; None if it never was.

        None in place of a stage is the loop, which reads the last one.
        """
        key = _put_back_key(stage)
        cell = self.cells.get(key)
        if cell is None and self.saved is not None and key in self.saved:
            cell = self._new_put_back(stage)
            cell.load(self.saved[key])
            self.cells[key] = cell
        return cell  # type: ignore[return-value]  # these keys have no others

    def _new_put_back(self, stage: structure.Pipe) -> PutBack:
        cell = PutBack()
        cell.stage, cell.reopening = self._end if stage is None else stage, self.reopening
        return cell

    def _note_cells(self) -> None:
        """Note the cells to be saved, and which stages are below those that have put elements back."""
        self._saving = self._cells_of([*self._order, None])
        for i, stage in enumerate(self._order):
            if (put_back := self._put_back(stage)) is not None:
                below = (j for j, first in self._first.items() if first <= i <= j)
                put_back.below = {structure.place_of(self._order[j]) for j in below}

    def _cells_of(self, stages: Sequence[structure.Pipe]) -> list[tuple[int, Cell]]:
        """The cells of some stages, in their order; what a stage has put back is above the stage."""
        places = (
            (_put_back_key(stage), structure.NO_CELL if stage is None else structure.place_of(stage))
            for stage in stages
        )
        keys = chain.from_iterable(places)
        return [(key, self.cells[key]) for key in keys if key in self.cells]

    # -- what stages ask -----------------------------------------------------------------------------------------------

    def shard_above(self, stage: structure.Pipe) -> object:
        """The shard that a stage works on, or None if it is above all sharding."""
        return self._shards[id(stage)]

    def readers_of(self, hub: structure.Pipe) -> list[structure.Pipe]:
        """The children of a hub, in whatever session they are read."""
        return [stage for stage in structure.walk(self._end) if structure.hub_of(stage) is hub]

    def detached_hubs(self) -> list[structure.Pipe]:
        """Return the hubs that are read in several sessions."""
        return [
            stage for stage in structure.walk(self._whole) if self.apart and structure.place_of(stage) in self.apart
        ]

    def is_last(self, stage: structure.Pipe) -> bool:
        """Whether a loop gets what a stage hands on, as it is."""
        return stage is self._end and not self.is_inner

    def untouched(self, place: int) -> structure.Pipe:
        """The stage at a place as it was before this session opened any: not yet used, nor bound to what it reads."""
        if self._untouched is None:
            stages = structure.walk(structure.unfold(self.description))
            self._untouched = {structure.place_of(stage): stage for stage in stages}
        return self._untouched[place]

    def cells_above(self, place: int) -> list[tuple[int, Cell]]:
        """The cells of all that is above the stage at a place, sources first."""
        i = next(i for i, stage in enumerate(self._order) if structure.place_of(stage) == place)
        cells = self._cells_of(self._order[self._first[i] : i + 1])
        return [(key, cell) for key, cell in cells if key != place]

    def is_private(self, stage: structure.Pipe) -> bool:
        """Whether what is above a stage is read by that stage alone: only hubs have several readers."""
        if not self._has_hubs:
            return True
        if any(structure.place_of(pipe) in self.joined for pipe in structure.walk(stage)):
            return False
        whole = structure.walk(self._end)
        above = {id(pipe) for pipe in structure.walk(stage)}
        return not any(
            id(source) in above and source is not stage and structure.is_stream(source)
            for reader in whole
            if id(reader) not in above
            for source in structure.parents(reader)
        )

    def opens(self) -> list[tuple[structure.Pipe, int, list[int]]]:
        """The stages that are opened here, sources first: each with its place, and with the ids of its sources."""
        return [
            (stage, stage.__dict__.get("_place", structure.NO_CELL), [id(source) for source in self._sources(stage)])
            for stage in self._order
        ]

    # -- saving and closing --------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """The position of every stage."""
        if not self.started or self.failed:
            self.iterator()
        if self._carries:
            return table_of(self._saving)
        return {place: cell.save() for place, cell in self._saving}

    def problem(self) -> str | None:
        """Why the position cannot be saved, as far as a look at a few of the waiting elements tells."""
        return unsavable(self._saving)

    def tell(self) -> None:
        """Warn if what waits in buffers cannot be saved."""
        self.tells = False
        if (problem := self.problem()) is not None:
            warn(f"{problem}; until then state_dict() raises this, and nothing can be resumed")

    def go_to(self, run: Run, saved: Table | None) -> None:
        """Open at a saved position, or at the end if there is none; what does not fit the graph is an error now."""
        self.run = replace(run, held=held_in(saved))
        self.saved = saved
        self.ended = saved is None
        if saved is not None:
            if self.run.held or self.run.buffered:
                self._lay_out()  # it may be read in another way
            self.iterator()

    def errors(self) -> dict[str, int]:
        """Counts of tolerated errors, by the stage as it prints; stages without any are left out."""
        return dict(self.run.errors.counts)

    def close(self) -> None:
        """End everything that this session runs: the last stage first, then threads and files."""
        self.ended = True
        with ExitStack() as closing:
            closing.callback(self._stop)
            for iterator in list(self.run.iterators or ()):
                closing.callback(iterator.close)  # after the threads that may be reading from it
            cells = dict(self.cells)
            for in_thread, above in self._threads:  # sources first: one thread may be above another one
                places = dict.fromkeys(place for place, _ in above if place in cells)  # two stages may have one
                self._close_in(in_thread, [cells.pop(place) for place in places], [stage for _, stage in above])
            self._close_in(closing, cells.values(), list(self._generators))
        self.opened.clear()
        self._iterator = iter(())

    def _stop(self) -> None:
        if self.on_stop is not None:
            self.on_stop()

    def _close_generators(self) -> None:
        with ExitStack() as closing:
            self._close_in(closing, (), list(self._generators))

    def _close_in(self, closing: ExitStack, cells: Iterable[Cell], stages: Iterable[int]) -> None:
        """Have the generators of some stages closed, the last one first, and then cells."""
        for cell in cells:
            closing.callback(cell.close)
        for stage in stages:
            for generator in self._generators.pop(stage, ()):
                closing.callback(close_unless_stuck, generator)

    # -- errors --------------------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Note on an exception where it came from; the next element starts the stages again."""
        with CtrlCWaits():
            self.failed = True
            if isinstance(error, ForkedIteration):
                self._refused = error.args
            self.was_interrupted = not consumes_element(error)
            self.interrupted(error)
        if isinstance(error, Exception):  # and not Ctrl-C, which comes from no stage
            raised = (cell.stage for cell in self.cells.values() if isinstance(cell, Replayed) and cell.raised)
            add_note(error, self._end, self, next(raised, None))
        self._stop()

    def passes_over(self, error: BaseException | None) -> bool:
        """Return whether to go on behind an error in silence: behind a call that is left out.

        A user's class that meets the call again, because it runs again or goes back, raises the error.
        """
        return isinstance(error, LeftOut) and not any(cell.raises_again for cell in self.cells.values())

    def interrupted(self, error: BaseException) -> None:
        """Put back what the loops had taken, and not handed on, when an interruption came.

        It may be told twice of one that came in a thread: there, and where the thread's consumer raises it.
        """
        first = traceback = None if consumes_element(error) else error.__traceback__
        while traceback is not None and id(traceback) != self._looked_at:
            found = interrupted_at(traceback)
            if found is not None and id(stage := found[0]) in self._index:
                self.give_back(stage, found[1])
            traceback = traceback.tb_next
        self._looked_at = id(first)

    def give_back(self, stage: structure.Pipe, element: Any) -> None:
        """Have a stage take an element again, before those that follow in its source."""
        cell = self._put_back(stage) or self._new_put_back(stage)
        cell.add(element)
        self.cells[_put_back_key(stage)] = cell
        self._note_cells()

    def take_back(self, element: Any) -> None:
        """Give an element again as the next one, for a stage that reads this session and was interrupted."""
        self.give_back(None, element)
        self.failed = True

    def progress(self, stage: structure.Pipe) -> tuple[structure.Pipe, int] | None:
        """The nearest stage, at or above the given one, that knows how many elements it has given, and that number."""
        start = stage = self._readers.get(structure.place_of(stage), stage)
        while True:
            cell = self.cells.get(stage.__dict__.get("_place", structure.NO_CELL))
            number = cell.done() if cell is not None else None
            if number is not None:
                return stage, number
            if cell is not None and stage is not start and not cell.in_step():
                return None
            sources = self._sources(stage)
            if not sources:
                return None
            stage = vars(sources[0]).get("opened_pipe", sources[0])

    def held(self) -> list[tuple[object, int]]:
        """Return the stages that keep elements in memory, and how many."""
        return [(cell.stage, number) for cell in self.cells.values() if (number := cell.holds())]

    def origin(self, stage: structure.Pipe) -> tuple[object, Any] | None:
        """Return the source that is read by key for the element at hand in a stage, and the key.

        None: there is no such source, or the stages in between do not make one element of each.
        """
        stage = self._readers.get(structure.place_of(stage), stage)
        while True:
            cell = self.cells.get(stage.__dict__.get("_place", structure.NO_CELL))
            if cell is not None and cell.origin is not None and (number := cell.done()):
                return cell.origin(number - 1)
            passes = structure.is_native(stage) and stage._hands_on and not stage._shuffles
            sources = self._sources(stage)
            if len(sources) != 1 or not (cell is None or (passes and cell.in_step())):
                return None
            stage = vars(sources[0]).get("opened_pipe", sources[0])


def _put_back_key(stage: structure.Pipe) -> int:
    """Return the key, in a table, of the elements that a stage has put back. None is the loop.

    Stages without a place of their own, which are added to a graph, go by that of their source.
    """
    if stage is None:
        return PutBack.key(-1)
    added = 0
    while structure.place_of(stage) == structure.NO_CELL and (sources := structure.parents(stage)):
        stage, added = sources[0], added + 1
    return PutBack.key(structure.place_of(stage) + added * structure.MOST_POSITIONS)


def in_run(end: structure.Pipe, opened: Sequence[structure.Pipe], run: Run) -> structure.Pipe:
    """Rewrite an unfolded graph for a run: of the stages that a session opens, some become others.

    >>> from datapipes.iter import IterableWrapper
    >>> graph = structure.unfold(IterableWrapper("ab").map(str.upper).sharding_filter().batch(2))
    >>> in_run(graph, structure.walk(graph), Run(seed=0, shard=(2, 0)))
    IterableWrapper('ab').sharding_filter().map(str.upper).batch(2)
    """
    replaced = {structure.place_of(stage) for stage in opened if structure.is_replaced(stage)}

    def rule(stage: structure.Pipe) -> structure.Pipe:
        return stage._in_run(run) if structure.place_of(stage) in replaced else stage

    return structure.rewrite(end, rule) if replaced else end


def _read_by_position(opened: Sequence[structure.Pipe]) -> dict[int, structure.Pipe]:
    """Readers of the stages that are read by position and that a session does not open, by place."""
    return {
        structure.place_of(stage): reader
        for reader in opened
        if structure.is_native(reader) and (read := reader._read_by_position()) is not None
        for stage in structure.walk(read)
        if structure.place_of(stage) != structure.NO_CELL
    }


def _with_one_count(saved: Table, opened: Sequence[structure.Pipe]) -> Table:
    """Return a saved table with one count for each stream that is read by position.

    0.1.0 kept a count for each input of a ``zip`` or an ``enumerate``, and one of the numbers of the latter.
    """
    saved = dict(saved)
    for reader in opened:
        if structure.is_native(reader) and (read := reader._read_by_position()) is not None:
            places = [structure.place_of(stage) for stage in structure.walk(read)]
            keys = [key for place in places for key in (place, structure.NO_CELL - 1 - place) if key in saved]
            if found := [saved.pop(key) for key in keys]:
                counts = [each for each in found if type(each) is int]
                saved[structure.place_of(read)] = max(counts, default=found[0])
    return saved


def segment(session: Session, passes_over: bool = False) -> Iterator[Any]:
    """The elements up to the end of the stream or to an exception, whichever comes first.

    With ``passes_over`` they end without an exception where a call is left out.
    """
    session.asked = True
    with ShortInterrupts():
        elements = session.iterator()
    try:
        try:
            if session.tells:
                for element in elements:
                    try:
                        session.tell()
                    except BaseException:
                        session.give_back(None, element)
                        raise
                    yield element
                    break
            for element in elements:
                yield element
        except GeneratorExit:
            raise
        except BaseException as error:
            session.fail(error)
            if passes_over and session.passes_over(error):
                return
            if isinstance(error, KeyboardInterrupt):
                cut(error)
            raise
    except BaseException as error:
        if not session.failed and not isinstance(error, GeneratorExit):  # a second Ctrl-C came before `fail` had begun
            session.fail(error.__context__ or error)
        raise
    session.ended = True


def segments(session: Session) -> Iterator[Iterator[Any]]:
    """The parts of a stream that goes on behind its exceptions, each a segment."""
    return unbroken(lambda _: None if session.ended else segment(session, passes_over=True), ExitStack())


def unbroken(part_of: Callable[[ExitStack], Iterator[Any] | None], closing: ExitStack) -> Iterator[Iterator[Any]]:
    """Call a function for one part of a stream after the other, up to None, and never raise.

    ``itertools.chain`` lets go of a source that raises, and would end there. An exception in the function, which Ctrl-C
    may be, becomes a part that raises it; then the function is called again.

    Args:
        part_of: The function. It is given ``closing``, and may add to it.
        closing: What is left at the end, or when the parts are dropped.
    """
    parts = _unbroken(part_of, closing)
    next(parts)  # from here on a signal finds it within its `try`
    return parts


def _unbroken(part_of: Callable[[ExitStack], Iterator[Any] | None], closing: ExitStack) -> Iterator[Iterator[Any]]:
    part: Iterator[Any] | None = iter(())
    with closing:
        while True:
            try:
                while part is not None:
                    yield part
                    part = part_of(closing)
                return
            except GeneratorExit:
                raise
            except BaseException as error:
                part = _raising(error)


def _raising(error: BaseException) -> Iterator[Any]:
    try:
        raise error
    finally:
        del error  # its traceback holds this frame
    yield
