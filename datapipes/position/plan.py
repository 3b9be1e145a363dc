"""Plan: the stages that a session opens, their order, and the inputs of each. It holds no position.

A plan is a function of the graph, the run's shard, and the stages in which a saved table has elements. It works on a
private copy of the graph, so that users' classes may set attributes while they run. A session uses the plan of the
session before it, unless one of these has changed (``again``). Two open sessions never share a plan: an interruption
finds its session by the stage that the traceback shows.

Within a plan, a stage is identified by the ``id`` of its private copy. Saved data and other plans use its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import is_
from typing import Any

from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.errors import GraphError
from datapipes.position import user_classes
from datapipes.position.cells import PutBackCell
from datapipes.position.reopening import StreamStages
from datapipes.position.seeds import Run, SeedInRun
from datapipes.position.source_fingerprints import SourceFingerprints


class Plan:
    """The stages that a session opens, inputs first, and what each of them reads.

    Args:
        graph: The graph, which stays as it is.
        run: The run of the session. The plan uses its shard, and the stages in which a saved table has elements.
        enclosing: The hubs, by place, that an enclosing session has opened and this session reads as well.
        native_end: Whether the last stage is opened as an operator although its class has an ``__iter__``. It is, if
            that ``__iter__`` calls the one of the operator.
        is_inner: Whether a stage of another session reads the graph, and not a loop.
        is_rewritten: Whether the graph is a part of a plan, already unfolded and rewritten for the run.
    """

    def __init__(
        self,
        graph: Pipe,
        run: Run,
        enclosing: Mapping[int, Any],
        native_end: bool = False,
        is_inner: bool = False,
        is_rewritten: bool = False,
    ) -> None:
        self.graph = graph
        self.enclosing = enclosing
        self.native_end = native_end
        self.is_inner = is_inner
        self.is_rewritten = is_rewritten
        self._settings = _settings(run)
        copies = structure.copied(graph) if is_rewritten else structure.unfolded(graph)
        self._stages = [copy for _, copy in copies]
        for stage in self._stages:
            structure.needs_parents(stage)
        self._draw_by_number = list(filter(structure.draws_by_number, self._stages))
        for stage in self._draw_by_number:
            stage.__dict__["_seed_in_run"] = SeedInRun()  # the copies that rewriting makes share it
        self.end = whole = self._stages[-1]
        self.sources = SourceFingerprints(whole)
        self.reopening = StreamStages(whole)
        self._has_hubs = structure.has_hubs(self._stages)
        self.detached = self._find_detached() if self._has_hubs else frozenset[int]()
        self._inputs: dict[int, list[Pipe]] = {}
        self._before: dict[int, list[Pipe]] = {}
        self._written = self.order = structure.walk(whole, inputs=self._opened_before)
        self.end = whole if is_rewritten else in_run(whole, self.order, run)
        if self.end is not whole:
            self.order = structure.walk(self.end, inputs=self._opened_before)
        self._refuse_shared_inputs()
        self.shards: dict[int, object] = {}
        """The shard that each opened stage works on, by its identity; None if it is above all sharding."""
        originals = list({id(stage): stage for stage, _ in copies}.values())
        self._is_unchanged = _watched(originals) if all(map(structure.is_fixed, originals)) else None

    def again(self, run: Run) -> Plan:
        """Return a plan for the next session: this plan if it is still right, otherwise a new one.

        A graph with a user's class or a map-style pipe always gets a new plan, because these may have set attributes on
        the private copy.
        """
        is_same = self._settings == _settings(run) and not self.enclosing
        if is_same and self._is_unchanged is not None and self._is_unchanged():
            return self
        return Plan(self.graph, run, self.enclosing, self.native_end, self.is_inner, self.is_rewritten)

    # -- what is opened, and in which order ----------------------------------------------------------------------------

    def is_native(self, stage: Pipe) -> bool:
        """Return whether a stage is opened as an operator of this library, and not by an ``__iter__`` of its own."""
        return structure.is_native(stage) or (self.native_end and stage is self.end)

    def inputs(self, stage: Pipe) -> list[Pipe]:
        """Return the inputs that a session opens for a stage."""
        known = self._inputs.get(id(stage))
        return self._inputs_of(stage) if known is None else known

    def _inputs_of(self, stage: Pipe, detached: frozenset[int] = frozenset()) -> list[Pipe]:
        place = structure.place_of(stage)
        if place in self.enclosing or place in detached:
            return []
        if self.is_native(stage):
            read = stage._reads()
        else:
            read = structure.occurrences(stage) if user_classes.saves_itself(stage) else ()
        return [parent for parent in read if structure.is_stream(parent)]

    def _opened_before(self, stage: Pipe) -> list[Pipe]:
        """Return the stages to open before a stage: its inputs, and the detached hubs above it."""
        before = inputs = self._inputs[id(stage)] = self._inputs_of(stage, self.detached)
        if self.detached and len(inputs) < sum(map(structure.is_stream, structure.parents(stage))):
            before = inputs + [hub for hub in structure.walk(stage)[:-1] if structure.place_of(hub) in self.detached]
        self._before[id(stage)] = before
        return before

    def _find_detached(self) -> frozenset[int]:
        """Return the places of the hubs that several sessions read.

        A user's class without a ``state_dict`` iterates its inputs by itself: each iterator over an operator opens a
        session. If the input is another such class, Python runs the code of both in one session. An operator that
        opens its input itself, such as ``cycle``, reads it in another session, too.
        """
        detached: set[int] = set()
        read_in: dict[int, set[object]] = {id(stage): set() for stage in self._stages}
        read_in[id(self.end)].add(None)
        users: set[int] = set()  # users' classes without a state_dict that this session runs
        for stage in reversed(self._stages):  # readers come before what they read
            where = read_in[id(stage)]
            if structure.is_hub(stage) and len(where) > 1 and structure.place_of(stage) not in self.enclosing:
                detached.add(structure.place_of(stage))
                where = {id(stage)}
            inputs = list(map(id, self._inputs_of(stage)))
            if where == {None} and not inputs and not self.is_native(stage):
                users.add(id(stage))
            for parent in structure.parents(stage):
                if id(stage) in users and not structure.is_native(parent):
                    users.add(id(parent))
                is_detached = id(stage) in users or (where == {None} and id(parent) not in inputs)
                read_in[id(parent)] |= {(id(stage), id(parent))} if is_detached else where
        return frozenset(detached)

    def _refuse_shared_inputs(self) -> None:
        """Raise GraphError if a stage must be the only reader of the stages above it, and another stage reads them."""
        for stage in structure.walk(self.end) if self._has_hubs else ():
            why = stage._exclusive_because if structure.is_native(stage) else None
            if why is not None and not self.is_private(stage):
                raise GraphError(f"{stage!r} {why}")

    def find_shard(self, stage: Pipe, run: Run) -> None:
        """Find the shard that a stage works on, after its inputs were opened: a user's class learns its shard then."""
        inputs = self.inputs(stage)
        if not inputs and structure.parents(stage):  # the stages above a user's class are not opened here
            self.shards[id(stage)] = user_classes.shards_above(structure.walk(stage), run)[id(stage)]
        else:
            given = [
                user_classes.shard_key(each, run) if user_classes.is_sharding(each) else self.shards[id(each)]
                for each in inputs
            ]  # a generator that is left would be closed, where Python ignores a Ctrl-C
            self.shards[id(stage)] = next(filter(None, given), None)

    def seed_draws_by_number(self, run: Run) -> None:
        """Set the seeds of the stages that draw by number, opened or read by position."""
        shards = user_classes.shards_above(self._stages, run) if self._draw_by_number else {}
        for stage in self._draw_by_number:
            pinned, place = stage._seed, structure.place_of(stage)
            seed = run.stage_seed(place, shards[id(stage)]) if pinned is None else run.pinned_seed(pinned, place)
            stage._seed_in_run.start(seed)

    @cached_property
    def read_by_key(self) -> list[Pipe]:
        """The streams that map-style pipes read."""
        readers = [stage for stage in self._stages if not structure.is_stream(stage)]
        return [stream for reader in readers for stream in filter(structure.is_stream, structure.parents(reader))]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The opened stages of the graph as the user wrote it, for states."""
        return tuple(f"{structure.place_of(stage)} {type(stage).__name__}" for stage in self._written)

    # -- cells ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _first(self) -> list[int]:
        """For each opened stage, the index in ``order`` of the first stage above it."""
        at = {id(stage): i for i, stage in enumerate(self.order)}
        first: list[int] = []
        for i, stage in enumerate(self.order):
            first.append(min((first[at[id(above)]] for above in self._before[id(stage)]), default=i))
        return first

    @cached_property
    def keys(self) -> list[int]:
        """The possible keys of cells, in the order in which the stages are opened: two for each stage.

        The first is that of the elements that the stage has put back. The second is the stage's place. The last key of
        all is that of the elements that the loop has put back.
        """
        stages = ((put_back_key(stage), structure.place_of(stage)) for stage in self.order)
        return [*chain.from_iterable(stages), put_back_key(None)]

    def keys_above(self, place: int) -> list[int]:
        """Return the keys of the cells above the stage at a place, inputs first."""
        i = self.keys.index(place) // 2
        return self.keys[2 * self._first[i] : 2 * i + 1]

    def read_alone(self, place: int) -> list[Pipe]:
        """Return the opened stages above the one at a place if no other stage reads them, else none."""
        i = self.keys.index(place) // 2
        return self.order[self._first[i] : i] if self.is_private(self.order[i]) else []

    def below(self, key: int) -> set[int]:
        """Return the places of the stage that has put elements back under a key, and of the stages below it."""
        i = self.keys.index(key) // 2
        return {self.keys[2 * j + 1] for j, first in enumerate(self._first) if first <= i <= j}

    # -- questions of stages -------------------------------------------------------------------------------------------

    def children_of(self, hub: Pipe) -> list[Pipe]:
        """Return the children of a hub in all sessions."""
        return [stage for stage in structure.walk(self.end) if structure.hub_of(stage) is hub]

    def detached_hubs(self) -> list[Pipe]:
        """Return the hubs that are read in several sessions."""
        return [stage for stage in self._stages if structure.place_of(stage) in self.detached] if self.detached else []

    def is_last(self, stage: Pipe) -> bool:
        """Return whether a loop gets the elements of a stage unchanged."""
        return stage is self.end and not self.is_inner

    def is_private(self, stage: Pipe) -> bool:
        """Return whether only this stage reads the stages above it. Only a hub can make this False."""
        if not self._has_hubs:
            return True
        above = structure.walk(stage)
        if any(structure.place_of(each) in self.enclosing for each in above):
            return False
        read = structure.read_by_others(structure.walk(self.end), set(map(id, above)))
        return not any(each is not stage and structure.is_stream(each) for each in read)

    @cached_property
    def untouched(self) -> dict[int, Pipe]:
        """New copies of the stages by place, which no session has opened or bound to its inputs."""
        return {structure.place_of(stage): stage for stage in structure.walk(structure.unfold(self.graph))}

    @cached_property
    def readers_by_position(self) -> dict[int, Pipe]:
        """The readers of stages that are read by position, and not opened, by the place of the stage that is read."""
        return {
            structure.place_of(stage): reader
            for reader in self.order
            if structure.is_native(reader) and (read := reader._read_by_position()) is not None
            for stage in structure.walk(read)
            if structure.place_of(stage) != structure.NO_CELL
        }


def _watched(stages: Sequence[Pipe]) -> Callable[[], bool]:
    """Return a function that returns whether stages still have the same attributes, and lists of the same length."""

    def look() -> tuple[list[object], list[object]]:
        attributes: list[dict[str, Any]] = [stage.__dict__ for stage in stages]
        names_and_lengths = [*chain.from_iterable(attributes), *map(len, lists)]
        return names_and_lengths, list(chain.from_iterable(map(dict.values, attributes)))

    def is_unchanged() -> bool:
        names_now, values_now = look()
        return names_now == names and all(map(is_, values_now, values))

    lists = [value for stage in stages for value in vars(stage).values() if isinstance(value, list)]
    names, values = look()
    return is_unchanged


def in_run(end: Pipe, opened: Sequence[Pipe], run: Run) -> Pipe:
    """Return an unfolded graph for a run, in which some of the stages that a session opens have been replaced.

    >>> from datapipes.iter import IterableWrapper
    >>> graph = structure.unfold(IterableWrapper("ab").map(str.upper).sharding_filter().batch(2))
    >>> in_run(graph, structure.walk(graph), Run(seed=0, shard=(2, 0)))
    IterableWrapper('ab').sharding_filter().map(str.upper).batch(2)
    """
    replaced = {structure.place_of(stage) for stage in opened if structure.is_replaced(stage)}

    def rule(stage: Pipe) -> Pipe:
        return stage._rewritten_for_run(run) if structure.place_of(stage) in replaced else stage

    return structure.rewrite(end, rule) if replaced else end


def _settings(run: Run) -> tuple[Any, ...]:
    """Return what a plan needs of a run."""
    return run.shard, run.world, run.buffered, run.held


def put_back_key(stage: Pipe | None) -> int:
    """Return the key of the elements that a stage has put back. None is the loop, which reads the last stage.

    A stage that was added to the graph has no place. Its key follows from the place of its input.
    """
    if stage is None:
        return PutBackCell.key(-1)
    added = 0
    while structure.place_of(stage) == structure.NO_CELL and (inputs := structure.parents(stage)):
        stage, added = inputs[0], added + 1
    return PutBackCell.key(structure.place_of(stage) + added * structure.MOST_POSITIONS)
