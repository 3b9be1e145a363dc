"""lanes: a stream in a fixed number of shards, which take turns. The order does not depend on what runs them.

A lane is a session of the stages above, sharded ``(n, i)``. The stage hands on one element of each lane in turn, and
passes over a lane that has ended. The stage is a sharding stage itself: ``apply_sharding`` and ``Run.shard`` only
choose the lanes that run here. The position of a lane is a table and the number of elements handed on since.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, replace
from itertools import cycle, islice
from types import FrameType
from typing import Any, ClassVar, TypeVar

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage as printed
from datapipes.errors import GraphError, StateError, consumes_element
from datapipes.graph.settings import apply_sharding
from datapipes.iter.placement.shard import ShardingRoundRobinDispatcher
from datapipes.iter.placement.shared_source import SharedSources
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.operator_support.checks import length_of, needs_count
from datapipes.position.cells import Cell, Counted, Table, count, fields, table, without_errors
from datapipes.position.opening import Opening
from datapipes.position.seeds import ErrorCounts, Run
from datapipes.position.session import Session
from datapipes.position.user_classes import is_replicable, is_sharding, shard
from datapipes.sharding.sharding import SHARDING_PRIORITIES, ShardGroups, with_group

T_co = TypeVar("T_co", covariant=True)


@operator
class Lanes(IterDataPipe[T_co]):
    """The stream above in ``n`` lanes, one element of each in turn: the same stream, whatever runs the lanes.

    Each lane has the shard and the seeds of one of ``n`` workers. Stages above belong to a lane: a ``batch`` has
    elements of one lane, and ``drop_last`` applies to each lane. Stages below see the whole stream.

    Args:
        n: The number of lanes. It has to be divisible by the number of ranks.
        buffer_size: The largest number of elements above the ``sharding_filter`` that wait for a lane that is behind
            the others. Beyond it, the lane reads the stages above for itself.
        buffer_bytes: The largest number of bytes of these elements, by an estimate. ``None``: bytes are not counted.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(7)).sharding_filter().batch(2).lanes(2))
    [[0, 2], [1, 3], [4, 6], [5]]
    """

    _fluent: ClassVar[str | None] = "lanes"
    _shards_above: ClassVar[bool] = True
    _exclusive_because = (
        "reads one child of a fork, demux or unzip in each lane while another part of the graph reads its sibling, "
        "which is in no lane: put lanes() below both, or above the fork"
    )

    source_datapipe: IterDataPipe[T_co]
    n: int
    _: KW_ONLY
    buffer_size: int = 1000
    buffer_bytes: int | None = None

    def __post_init__(self) -> None:
        self.groups: ShardGroups = {}
        self.tells_ends = False  # whether a LaneEnd follows the last element of a lane, for the main process
        self.graphs: dict[int, structure.Pipe] = {}  # by lane, if functions of the user have changed them
        self._opened_in: Run | None = None  # its lanes have the length; set only in a copy
        needs_count(self, "n", 1, f"expected at least one lane, got {self.n}")
        needs_count(self, "buffer_size", 0, f"expected no negative number of elements, got {self.buffer_size}")
        too_small = f"`buffer_bytes` must be positive, or None for no limit, got {self.buffer_bytes}"
        needs_count(self, "buffer_bytes", 1, too_small, or_none=True)

    def check(self) -> None:
        """Raise GraphError if the stages above cannot run in lanes. Called when a loader is made."""
        above = structure.walk(self.source_datapipe)
        for stage in above:
            if isinstance(stage, Lanes):
                raise GraphError(f"{printed(self)} has {printed(stage)} above it: keep one of them")
            if isinstance(stage, ShardingRoundRobinDispatcher):
                raise GraphError(
                    f"{printed(self)}: lanes read what is above once per process; use sharding_filter() in place of "
                    f"{printed(stage)}"
                )
            if not is_replicable(stage):
                raise GraphError(
                    f"{printed(self)} is below {printed(stage)}, which cannot run in workers: put it above that stage"
                )
        if not any(map(is_sharding, above)):
            raise GraphError(
                f"{printed(self)} has no sharding_filter() above it, so each lane would give all elements: put "
                ".sharding_filter() below the shuffle, before the expensive stages"
            )
        apply_sharding(structure.unfold(self.source_datapipe), self.n, 0, SHARDING_PRIORITIES.MULTIPROCESSING)

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        """Run only the lanes ``instance_id``, ``instance_id + num_of_instances`` and so on of those that run here."""
        if sharding_group is SHARDING_PRIORITIES.DISTRIBUTED and self.n % num_of_instances:
            *divisors, last = [str(i) for i in range(1, self.n + 1) if self.n % i == 0]
            would_do = f"{', '.join(divisors)} or {last}" if divisors else last
            raise GraphError(f"lanes({self.n}): {num_of_instances} ranks do not divide it; {would_do} do")
        self.groups = with_group(self.groups, num_of_instances, instance_id, sharding_group)

    def lanes_here(self, run: Run | None = None) -> range:
        """Return the lanes that run here: each R-th one of a rank, and of those each W-th one of a worker."""
        lanes, groups = range(self.n), self.groups
        if run is not None and run.shard is not None and not groups:
            return lanes[run.shard[1] :: run.shard[0]]
        if run is not None and run.worker is not None and set(groups) == {SHARDING_PRIORITIES.DISTRIBUTED}:
            groups = with_group(groups, *run.worker, SHARDING_PRIORITIES.MULTIPROCESSING)
        for group in sorted(groups):
            of, index = groups[group]
            lanes = lanes[index::of]
        return lanes

    def lane(self, number: int) -> structure.Pipe:
        """Return the graph of a lane: a copy of the graph above with the lane's shard, unless it was changed since."""
        if number in self.graphs:
            return self.graphs[number]
        graph = structure.unfold(self.source_datapipe)
        for stage in filter(is_sharding, structure.walk(graph)):
            shard(stage, self.n, number, SHARDING_PRIORITIES.MULTIPROCESSING)
        return graph

    def changed(self, change: Callable[[structure.Pipe, int], structure.Pipe]) -> Lanes[T_co]:
        """Return a copy of this stage with the results of ``change(graph, lane)`` for the lanes that run here."""
        new: Lanes[T_co] = structure.with_parents(self, lambda parent: parent)
        new.graphs = {number: change(self.lane(number), number) for number in self.lanes_here()}
        return new

    def _reads(self) -> tuple[()]:
        return ()

    def _open(self, at: Opening) -> Iterator[T_co]:
        cell = at.cell(LanesCell)
        cell.begin(at, self)
        return cell.elements(self.tells_ends)

    def __len__(self) -> int:
        return sum(length_of(self.lane(number)) for number in self.lanes_here(self._opened_in))


@dataclass(frozen=True, slots=True)
class LaneEnd:
    """An item in the stream of a worker, in the place where a lane has no more elements."""

    lane: int


def lanes_position(saved: Any) -> tuple[list[int], dict[int, tuple[Table | None, int]], Counter[str]]:
    """Return the turn, the positions and the errors of a saved cell. Raise StateError if it is none."""
    saved, errors = without_errors(saved)
    turn, lanes = fields(saved, "turn", "lanes")
    if type(turn) is not list or type(lanes) is not dict or sorted(map(str, lanes)) != sorted(map(str, turn)):
        raise StateError(f"turn: expected the numbers of lanes with a position, found {turn!r:.80}")
    for entry in lanes.values():
        if type(entry) is not list or len(entry) != 2:
            raise StateError(f"lanes: expected [position, count], found {entry!r:.80}")
    positions = {count(lane, "turn"): (table(known), count(since, "lanes")) for lane, (known, since) in lanes.items()}
    return turn, positions, errors


class LanesCell(Cell):
    """The lanes that have more elements, the next one first, and the position of each."""

    is_used: ClassVar[bool] = False  # whether there were lanes in this process. Otherwise no frame has to be looked at

    def __init__(self) -> None:
        self.n = 0
        self._turn: deque[int] | None = None
        self._sessions: dict[int, Session] = {}
        self._known: dict[int, Table | None] = {}  # the table at which each resumed lane begins
        self._since: dict[int, int] = {}  # elements of each that were handed on after its table
        self._left: dict[int, int] = {}  # how many of these are to be made again; no entry: none
        self._shared: SharedSources | None = None
        self._errors: Counter[str] = Counter()  # tolerated in lanes that have ended
        self._counted: Counted[Any] = Counted()

    def begin(self, at: Opening, pipe: Lanes[Any]) -> None:
        """Open a session for each lane that has more elements, if there is none."""
        here = pipe.lanes_here(at.run)
        LanesCell.is_used = True
        if self._turn is None or not self.n:
            pipe.check()
            self.n = pipe.n
            at.run.errors.add(self._errors)
        if self._turn is None:
            self._turn = deque(here)
        if self._shared is None:
            self._shared = SharedSources(at.run.errors, pipe.buffer_size, pipe.buffer_bytes)
        if not set(self._turn) <= set(here):
            raise StateError(f"turn: expected some of the lanes {list(here)}, found {list(self._turn)}")
        for lane in self._turn:
            if lane not in self._sessions:
                run = replace(at.run, hubs={}, shard=None, plain=False, errors=ErrorCounts(at.run.errors))
                known = self._known.get(lane)
                session = self._sessions[lane] = at.session(pipe.lane(lane), run, known, self._shared)
                if known is not None:
                    session.iterator()  # open it now, so that a state that does not fit raises when it is loaded

    def elements(self, tells_ends: bool) -> Iterator[Any]:
        """Yield the elements that follow, one of each lane in turn."""
        self._settle()
        while turn := self._turn:
            iterators = [self._sessions[lane].iterator() for lane in turn]
            if self._left:  # all lanes have joined the sources that they share
                self._catch_up(next(iter(self._left)))
                continue
            counted = self._counted = Counted(map(next, cycle(iterators)))
            try:
                try:
                    for element in counted.elements:  # noqa: UP028 - `yield from` would catch what is thrown in
                        yield element
                except GeneratorExit:
                    raise
                except BaseException:
                    if self._failed():
                        continue
                    raise
            except GeneratorExit:
                raise
            except BaseException:
                if self._counted is counted:  # a second Ctrl-C came before `_failed` had begun
                    self._failed()
                raise
            lane = self._end_lane()
            if tells_ends:
                yield LaneEnd(lane)

    def _settle(self) -> None:
        """Add the elements that were handed on to the turns."""
        taken, fresh = self._counted.taken, Counted[Any]()
        if self._turn:
            self._counted = fresh  # no signal can arrive before the turns have changed
            self._turn.rotate(-taken)

    def _failed(self) -> bool:
        """Note the exception of the next lane that is being handled. Return whether it is not raised."""
        assert self._turn
        with CtrlCWaits():
            self._settle()
            stands_for, passes_over = _fail(self._sessions[self._turn[0]])
            self._turn.rotate(-stands_for)
            return passes_over

    def _end_lane(self) -> int:
        with CtrlCWaits():
            self._settle()
            assert self._turn
            session = self._sessions.pop(lane := self._turn.popleft())
            self._errors.update(session.errors())
            session.close()
        return lane

    def _catch_up(self, lane: int) -> None:
        """Make the elements of a lane again that were handed on after its table, and drop them."""
        session = self._sessions[lane]
        while self._left[lane]:
            passed, stands_for, is_over = Counted(islice(session.iterator(), self._left[lane])), 0, False
            try:
                for _ in passed.elements:
                    pass
                is_over = passed.taken < self._left[lane]
            except BaseException:
                stands_for, passes_over = _fail(session)
                if not stands_for and not passes_over:  # otherwise it was raised before
                    raise
            finally:
                self._left[lane] -= passed.taken + stands_for
            if is_over:
                raise StateError(f"{self.label}: {self._since[lane]} elements were given before in lane {lane}")
        del self._left[lane]

    def _inner_cells(self) -> Iterator[Cell]:
        return (cell for session in self._sessions.values() for cell in session.cells.values())

    @property
    def raises_again(self) -> bool:
        return any(cell.raises_again for cell in self._inner_cells())

    @property
    def is_replayed(self) -> bool:
        return any(cell.is_replayed for cell in self._inner_cells())

    def lane_at_work(self) -> int:
        """Return the lane whose element is being made."""
        turn = self._turn or (0,)
        return next(iter(self._left), turn[self._counted.taken % len(turn)])

    def save(self) -> dict[str, Any]:
        turn = deque(self._turn or ())
        turn.rotate(-self._counted.taken)
        lanes = {}
        for lane in turn:
            if lane in self._left or lane not in self._sessions:
                lanes[lane] = [self._known.get(lane), self._since.get(lane, 0)]
            else:
                lanes[lane] = [self._sessions[lane].table(), 0]
        saved: dict[str, Any] = {"turn": list(turn), "lanes": lanes}
        errors = self._errors + (Counter() if self._shared is None else self._shared.left)
        return {**saved, "errors": dict(errors)} if errors else saved

    def load(self, saved: Any) -> None:
        turn, positions, self._errors = lanes_position(saved)
        self._turn = deque(turn)
        for lane, (known, since) in positions.items():
            self._known[lane], self._since[lane] = known, since
            if since:
                self._left[lane] = since

    def close(self) -> None:
        self._settle()
        with ExitStack() as closing:
            for session in self._sessions.values():
                closing.callback(session.close)


def _fail(session: Session) -> tuple[int, bool]:
    """Note in a session the exception that is being handled.

    Return the number of elements that it stands for, and whether it marks a call that is left out and is not raised.
    The exception is not a parameter: a frame that names its own exception would keep the iterator alive.
    """
    error = sys.exception()
    assert error is not None
    session.fail(error)
    passes_over = session.passes_over(error)
    return int(consumes_element(error) and not passes_over), passes_over


def lane_here() -> tuple[int, int] | None:
    """Return (number of lanes, lane) for code that runs in a lane in this thread, or None for any other code."""
    frame: FrameType | None = sys._getframe(1) if LanesCell.is_used else None
    while frame is not None:
        if frame.f_code in _AT_WORK:
            cell: LanesCell = frame.f_locals["self"]
            return cell.n, cell.lane_at_work()
        frame = frame.f_back
    return None


_AT_WORK = (LanesCell.elements.__code__, LanesCell._catch_up.__code__)
