"""The stage in the main process that gathers the elements of the workers, in one fixed order.

The order is one element of each worker in turn, whatever their speeds. A worker that has no more elements is passed
over. The elements that have come from all of them are laid out as one *block*, which is a C iterator.

The position of the stage consists of the positions of the workers. That of a worker is the last table that it has sent,
and the number of its elements that were handed on since. A resumed worker makes these elements again and drops them. So
saving sends no frame and is quick.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, takewhile
from operator import length_hint
from typing import Any, TypeVar
from weakref import WeakSet

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe, RemoteGraph, operator
from datapipes.description.structure import Pipe
from datapipes.errors import StateError, consumes_element
from datapipes.iter.placement.lanes import LaneEnd, Lanes, lanes_position
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.messages.warnings import warn
from datapipes.position.cells import Cell, Completion, Table, count, error_counts, fields, table, together
from datapipes.position.opening import Opening
from datapipes.position.seeds import ErrorCounts, Run, derive
from datapipes.sharding.group import ranks
from reading_services.workers.dispatched import DEALT, DispatcherGone
from reading_services.workers.pool import Pool
from reading_services.workers.restarts import Deaths, RestartPolicy
from reading_services.workers.transport.packing import unpacked
from reading_services.workers.transport.protocol import Failed, Items, WorkerEnd
from reading_services.workers.worker import EpochStart, Order

T_co = TypeVar("T_co", covariant=True)

_warned: WeakSet[Any] = WeakSet()  # pools for which a warning has said that positions cannot be saved


@operator
class Gathered(RemoteGraph[T_co]):
    """The elements of a graph that runs in workers, gathered in the main process."""

    def __init__(
        self,
        graph: IterDataPipe[T_co],
        pool: Pool,
        in_order: bool = True,
        length: Callable[[Any], int] | None = None,
        allowed: RestartPolicy | None = None,
    ) -> None:
        self.graph = graph
        self._allowed = allowed or RestartPolicy()
        self._length_fn = length
        self.pool = pool
        self.in_order = in_order
        self.start: EpochStart | None = None
        if isinstance(graph, Lanes):  # a position is the same in the main process
            self.__dict__["_place"] = vars(graph).get("_place")

    def _open(self, at: Opening) -> Iterator[T_co]:
        return self._elements(at.cell(lambda: self._turns(at.run.errors, at.place)), at.run)

    def _turns(self, errors: ErrorCounts, place: int) -> RoundRobinCell:
        suspicions = {} if self._allowed.restarts else self.pool.suspicions
        deaths = Deaths(self._allowed, ErrorCounts(errors), suspicions)
        if isinstance(self.graph, Lanes):
            return LaneRoundsCell(self.pool, errors, deaths, self.graph.lanes_here(), place)
        return RoundRobinCell(self.pool, errors, deaths)

    def _elements(self, turns: RoundRobinCell, run: Run) -> Iterator[T_co]:
        pool = self.pool
        with CtrlCWaits():
            turns.leave_block()
        self._begin(turns, run, set(range(pool.count)))
        while turns.waiting:
            with CtrlCWaits(pool.hurry):  # or a frame, or the credit for one, would be lost
                for number, used_up in turns.commit():
                    pool.used_up(number, used_up)
                wanted = turns.lacking(self.in_order)
                came = pool.next_frame(wanted) if wanted else None
            if isinstance(came, WorkerEnd):
                self._begin(turns, run, turns.survive(came))
                continue
            if came is not None:
                number, frame = came
                turns.count_errors(number, frame.errors)
                if isinstance(frame, Failed):
                    error = frame.error.error()
                    if isinstance(error, DispatcherGone):
                        del error, frame, came
                        self._begin(turns, run, turns.survive(pool.dispatcher_end()))
                        continue
                    turns.failed(number, frame, consumes_element(error))
                    try:
                        raise error
                    finally:
                        del error, frame, came  # its traceback holds this frame, and with it the workers
                if isinstance(frame, Items):
                    turns.take(number, frame)
                    turns.take_ready()
                else:
                    turns.ended(number)
                    continue
            yield from turns.block(self.in_order)

    def _begin(self, turns: RoundRobinCell, run: Run, numbers: set[int]) -> None:
        """Open the graph in some workers, at the positions of their next elements."""
        orders = [turns.order(i, run, self.start) if i in numbers else None for i in range(self.pool.count)]
        self.pool.open(orders)

    def __len__(self) -> int:
        if self.start is not None and self.start.reset is not None:
            raise TypeError("a service before that of the workers changes their graph, which may change its length")
        return len(self.graph) if self._length_fn is None else self._length_fn(self.graph)

    def become(self, other: Gathered[T_co]) -> None:
        """Take over the workers of another stage, from the next opening on."""
        self.pool, self._length_fn = other.pool, other._length_fn

    def of(self, graph: Any) -> Gathered[Any]:
        """Return this stage for another graph, to compute its length."""
        return Gathered(graph, self.pool, self.in_order, self._length_fn, self._allowed)


class _WorkerProgress:
    """The gatherer's record of one worker."""

    __slots__ = ("above", "before", "began", "errors", "frame", "left", "part", "since")

    def __init__(self) -> None:
        self.above: Any = None  # the worker's last table, still packed. None: the start
        self.since = 0  # elements that were handed on after that table
        self.before = 0  # elements that were handed on before it, in this iteration
        self.began = 0  # ``before`` at the start of its opening
        self.errors: dict[str, int] = {}  # tolerated errors, by stage
        self.part: Completion | None = None  # its last completion, if it is known
        self.frame: Items | None = None
        self.left: Iterator[Any] = iter(())  # elements of that frame that are in no block yet

    def pass_on(self, count: int, above: Any) -> None:
        """Note that ``count`` elements were handed on, and the table after them unless it is None."""
        self.since += count
        if above is not None:
            self.above, self.before, self.since = above, self.before + self.since, 0


class RoundRobinCell(Cell):
    """Cell of the round robin over workers: the next worker, and each worker's count and last table."""

    def __init__(self, pool: Pool, errors: ErrorCounts, deaths: Deaths) -> None:
        self._pool = pool
        self._errors = errors
        self._deaths = deaths
        self.waiting = deque(range(pool.count))  # workers that have more elements, the next one first
        self._shares = [_WorkerProgress() for _ in range(pool.count)]
        self._members: list[int] = []  # workers whose elements are in the block, in order
        self._length = 0
        self._block: Iterator[Any] = iter(())

    def order(self, number: int, run: Run, start: EpochStart | None) -> Order | None:
        """Return the order for a worker to open the graph, or None if it has no more elements. Drop its frame."""
        share = self._shares[number]
        share.frame, share.left, share.began = None, iter(()), share.before
        seed = derive("worker", *run.key, ranks().rank, number)
        watch = self._deaths.watch(number, share.before)
        dealing = None if self._pool.alone else self._deaths.watch(None, 0)
        saves = self._pool.saves or self._deaths.allowed.restarts > 0
        order = Order(run.alone(), share.above, share.since, start, seed, watch=watch, dealing=dealing, saves=saves)
        return order if number in self._workers() else None

    def _workers(self) -> Sequence[int]:
        """Return the workers that have more elements, the next one first."""
        return self.waiting

    def survive(self, end: WorkerEnd) -> set[int]:
        """Note the end of a worker. Return the workers to open again. Raise its error if no more deaths are allowed."""
        self._deaths.survive(end, [share.began for share in self._shares])
        return set(range(len(self._shares))) if end.number is None or not self._pool.alone else {end.number}

    def lacking(self, in_order: bool) -> list[int]:
        """Return the workers from which a frame is needed before an element can be handed on."""
        workers = self._workers()
        lacking = [n for n in islice(workers, 1 if in_order else None) if self._shares[n].frame is None]
        return lacking if in_order or len(lacking) == len(workers) else []

    def take(self, number: int, frame: Items) -> None:
        """Take a frame of elements."""
        share = self._shares[number]
        if type(frame.above) is str:
            self._tell(frame.above)
            frame = replace(frame, above=None)
        if share.above is None:
            share.above = frame.start
        share.frame, share.left, share.part = frame, iter(frame.body.unpack()), frame.part or share.part

    def take_ready(self) -> None:
        """Take the frames of elements that have come from the next workers, so that the block is longer.

        A frame after which more errors are tolerated waits for its turn, because the limit may be reached.
        """
        for number in self._workers():
            share = self._shares[number]
            if share.frame is None:
                frame = self._pool.ready_items(number, share.errors)
                if frame is None:
                    return
                self.take(number, frame)

    def _tell(self, refusal: str) -> None:
        """Warn that a worker's position cannot be saved."""
        if self._pool not in _warned:
            _warned.add(self._pool)
            warn(f"{refusal}; until then a resume makes the elements after this worker's last saved position again")

    def count_errors(self, number: int, errors: dict[str, int] | None) -> None:
        """Count the errors that a worker's stages have tolerated so far."""
        if errors is not None and errors != self._shares[number].errors:
            before = self._tolerated()
            self._shares[number].errors = errors
            now = self._tolerated()
            self._errors.add({stage: now[stage] - before[stage] for stage in now | before})

    def _tolerated(self) -> Counter[str]:
        """Return the tolerated errors of all workers. The dispatcher's are the largest count that a worker knows."""
        total: Counter[str] = Counter()
        dealt: Counter[str] = Counter()
        for share in self._shares:
            for stage, number in share.errors.items():
                if stage.startswith(DEALT):
                    dealt[stage.removeprefix(DEALT)] = max(dealt[stage.removeprefix(DEALT)], number)
                else:
                    total[stage] += number
        return total + dealt

    def ended(self, number: int) -> None:
        """Mark a worker as having no more elements."""
        self.waiting.remove(number)
        if not self.waiting:
            self._deaths.forget()

    def failed(self, number: int, frame: Failed, consumed: bool) -> None:
        """Note an error in place of a worker's next element. A consumed element ends the worker's turn."""
        share = self._shares[number]
        share.pass_on(int(consumed), None if type(frame.above) is str else frame.above)
        while self.waiting[0] != number:
            self.waiting.rotate(-1)
        self.waiting.rotate(-int(consumed))

    def block(self, in_order: bool) -> Iterator[Any]:
        """Lay out the elements that have come, in order, and return them."""
        there = [number for number in self.waiting if self._shares[number].frame is not None]
        if in_order:
            members = list(takewhile(there.__contains__, self.waiting))
            rounds = min(length_hint(self._shares[number].left) for number in members)
            rounds = rounds if len(members) == len(self.waiting) else 1
        else:
            members, rounds = there[:1], length_hint(self._shares[there[0]].left)
            while self.waiting[0] != members[0]:
                self.waiting.rotate(-1)
        parts = [islice(self._shares[number].left, rounds) for number in members]
        elements = list(chain.from_iterable(zip(*parts, strict=True)))
        self._members, self._length, self._block = members, len(elements), iter(elements)
        return self._block

    def commit(self) -> list[tuple[int, Items]]:
        """Note that the block was handed on. Return the frames that are used up with it."""
        members, rounds = self._members, self._length // max(1, len(self._members))
        self.waiting.rotate(-self._length)
        self._members, self._length = [], 0
        done = []
        for number in members:
            share = self._shares[number]
            frame = share.frame
            used_up = frame is not None and not length_hint(share.left)
            share.pass_on(rounds, frame.above if frame is not None and used_up else None)
            if frame is not None and used_up:
                share.frame = None
                done.append((number, frame))
        return done

    def leave_block(self) -> None:
        """Note the elements of the block that were handed on, and drop the rest, which the workers make again."""
        handed_on, members = self._length - length_hint(self._block), self._members
        for i, number in enumerate(members):
            rounds, more = divmod(handed_on, len(members))
            self._shares[number].pass_on(rounds + (i < more), None)
        self.waiting.rotate(-handed_on)
        self._members, self._length, self._block = [], 0, iter(())

    def part(self) -> Completion | None:
        return together([share.part for share in self._shares])

    def save(self) -> dict[str, Any]:
        handed_on = self._length - length_hint(self._block)
        turn = deque(self.waiting)
        turn.rotate(-handed_on)
        for share in self._shares:
            share.above = unpacked(share.above)
        workers: list[list[Any]] = [[share.above, share.since, dict(share.errors)] for share in self._shares]
        for i, number in enumerate(self._members):
            rounds, more = divmod(handed_on, len(self._members))
            workers[number][1] += rounds + (i < more)
        deaths = self._deaths.save([share.before for share in self._shares])
        return {"turn": list(turn), "workers": workers} | ({"deaths": deaths} if deaths else {})

    def load(self, saved: Any) -> None:
        if isinstance(saved, dict) and "deaths" in saved:  # there are none in most states
            self._deaths.load(saved["deaths"], len(self._shares))
            saved = {name: saved[name] for name in saved if name != "deaths"}
        turn, workers = fields(saved, "turn", "workers")
        if type(workers) is not list or len(workers) != len(self._shares):
            raise StateError(f"workers: expected {len(self._shares)} positions, found {workers!r:.80}")
        numbers = range(len(workers))
        known = type(turn) is list and all(type(number) is int and number in numbers for number in turn)
        if not known or len(set(turn)) != len(turn):
            raise StateError(f"turn: expected the numbers of workers, found {turn!r:.80}")
        self.waiting, self._pool.saves = deque(turn), True
        self._deaths.suspicions = {}  # elements of this iteration are counted from here
        for share, entry in zip(self._shares, workers, strict=True):
            if type(entry) is not list or len(entry) not in (3, 4):
                raise StateError(f"workers: expected [position, count, errors, what is kept], found {entry!r:.80}")
            share.above, share.since, share.errors = table(entry[0]), count(entry[1], "workers"), error_counts(entry[2])
        self._errors.add(self._tolerated())

    def close(self) -> None:
        for share in self._shares:
            share.frame, share.left = None, iter(())
        self._block = iter(())
        self._pool.stop()


class LaneRoundsCell(RoundRobinCell):
    """Cell of the round robin over lanes: the next lane, and the position of each. It is that of ``lanes`` itself.

    Each worker gives its lanes' elements in turn, with a ``LaneEnd`` where a lane has ended. So the next element of a
    worker is that of the first of its lanes in the turn.
    """

    def __init__(self, pool: Pool, errors: ErrorCounts, deaths: Deaths, lanes: range, place: int) -> None:
        super().__init__(pool, errors, deaths)
        self.waiting = deque(lanes)  # lanes that have more elements, the next one first
        self._worker = {lane: i % pool.count for i, lane in enumerate(lanes)}
        self._place = place
        self._since = dict.fromkeys(lanes, 0)  # elements of each lane that were handed on after its worker's table
        self._further: list[deque[Any]] = [deque() for _ in range(pool.count)]  # an end, elements, an end, elements ...

    def _workers(self) -> Sequence[int]:
        return list(dict.fromkeys(map(self._worker.__getitem__, self.waiting)))

    def order(self, number: int, run: Run, start: EpochStart | None) -> Order | None:
        order = super().order(number, run, start)
        self._further[number].clear()
        return order

    def take(self, number: int, frame: Items) -> None:
        super().take(number, frame)
        share = self._shares[number]
        items = list(share.left)
        parts: deque[Any] = deque([items])
        if LaneEnd in set(map(type, items)):
            parts = deque([[]])
            for item in items:
                if type(item) is LaneEnd:
                    parts.extend((item, []))
                else:
                    parts[-1].append(item)
        share.left, self._further[number] = iter(parts.popleft()), parts

    def ended(self, number: int) -> None:
        if number in self._workers():
            raise StateError(f"worker {number} has ended, and has not reported the end of its lanes")

    def failed(self, number: int, frame: Failed, consumed: bool) -> None:
        while self._worker[self.waiting[0]] != number:
            self.waiting.rotate(-1)
        self._pass_on({self.waiting[0]: int(consumed)})
        self._know(number, None if type(frame.above) is str else frame.above)
        self.waiting.rotate(-int(consumed))

    def _pass_on(self, given: dict[int, int]) -> None:
        """Note the number of elements of each lane that were handed on."""
        for lane, number in given.items():
            self._since[lane] += number
            self._shares[self._worker[lane]].pass_on(number, None)

    def _know(self, number: int, above: Any) -> None:
        """Note a worker's table after the elements that were handed on, unless it is None."""
        if above is not None:
            self._shares[number].pass_on(0, above)
            self._since.update({lane: 0 for lane, worker in self._worker.items() if worker == number})

    def block(self, in_order: bool) -> Iterator[Any]:
        there = [length_hint(share.left) for share in self._shares]
        first = next(filter(there.__getitem__, self._workers()), None)
        if first is not None and not in_order:  # the lanes of one worker
            self.waiting = deque(sorted(self.waiting, key=lambda lane: self._worker[lane] != first))
        members = [lane for lane in self.waiting if in_order or self._worker[lane] == first]
        of = Counter(map(self._worker.__getitem__, members))
        rounds = min((there[number] // lanes for number, lanes in of.items()), default=0)
        if rounds:
            taken = {number: islice(self._shares[number].left, rounds * lanes) for number, lanes in of.items()}
            lanes_of = {number: iter(_dealt(taken[number], lanes)) for number, lanes in of.items()}
            parts = [next(lanes_of[number]) for number in map(self._worker.__getitem__, members)]
            elements = list(chain.from_iterable(zip(*parts, strict=True)))
        else:
            members = list(takewhile(partial(_takes_one, there, self._worker), members))
            elements = [next(self._shares[self._worker[lane]].left) for lane in members]
        self._members, self._length, self._block = members, len(elements), iter(elements)
        return self._block

    def _after(self, handed_on: int) -> tuple[deque[int], dict[int, int]]:
        """Return the turn after some elements of the block, and how many of these are each lane's."""
        turn, members = deque(self.waiting), self._members
        if not handed_on:
            return turn, {}
        rounds, more = divmod(handed_on, len(members))
        turn.rotate(-(more or len(members)))
        return turn, {lane: rounds + (i < more) for i, lane in enumerate(members)}

    def commit(self) -> list[tuple[int, Items]]:
        self._leave(self._length)
        done = []
        for number, (share, further) in enumerate(zip(self._shares, self._further, strict=True)):
            while further and not length_hint(share.left):
                self.waiting.remove(further.popleft().lane)
                share.pass_on(1, None)  # a worker that goes on makes the end again
                share.left = iter(further.popleft())
            if share.frame is not None and not length_hint(share.left):
                self._know(number, share.frame.above)
                done.append((number, share.frame))
                share.frame = None
        if not self.waiting:
            self._deaths.forget()
        return done

    def leave_block(self) -> None:
        self._leave(self._length - length_hint(self._block))

    def _leave(self, handed_on: int) -> None:
        self.waiting, given = self._after(handed_on)
        self._pass_on(given)
        self._members, self._length, self._block = [], 0, iter(())

    def save(self) -> dict[str, Any]:
        turn, given = self._after(self._length - length_hint(self._block))
        cells = []
        for share in self._shares:
            share.above = unpacked(share.above)
            cells.append({"lanes": {}} if share.above is None else share.above[self._place])
        lanes = {}
        for lane in turn:
            known, since = cells[self._worker[lane]]["lanes"].get(lane, [None, 0])
            lanes[lane] = [known, since + self._since[lane] + given.get(lane, 0)]
        errors: Counter[str] = Counter()
        for number, share in enumerate(self._shares):  # those that the positions of the lanes do not have
            errors.update(cells[number].get("errors", {}) if number in self._workers() else share.errors)
        return {"turn": list(turn), "lanes": lanes} | ({"errors": dict(errors)} if errors else {})

    def load(self, saved: Any) -> None:
        turn, positions, errors = lanes_position(saved)
        if not set(turn) <= set(self.waiting):
            raise StateError(f"turn: expected some of the lanes {list(self.waiting)}, found {turn!r:.80}")
        self.waiting, self._pool.saves = deque(turn), True
        self._deaths.suspicions = {}  # elements of this iteration are counted from here
        for number, share in enumerate(self._shares):
            own = [lane for lane in turn if self._worker[lane] == number]
            cell: dict[str, Any] = {"turn": own, "lanes": {lane: list(positions[lane]) for lane in own}}
            if errors and number == next(iter(self._workers()), 0):
                cell["errors"] = share.errors = dict(errors)
            share.above = {self._place: cell}
        self._errors.add(self._tolerated())

    def close(self) -> None:
        super().close()
        for further in self._further:
            further.clear()


def _dealt(elements: Iterator[Any], lanes: int) -> list[Any]:
    """Return the elements of each lane of a worker, in the order of the turn."""
    if lanes == 1:
        return [elements]
    taken = list(elements)
    return [taken[i::lanes] for i in range(lanes)]


def _takes_one(there: list[int], worker: dict[int, int], lane: int) -> bool:
    """Return whether an element of a lane's worker is there. It counts as taken then."""
    there[worker[lane]] -= 1
    return there[worker[lane]] >= 0


def refuse_other_workers(error: BaseException, graph: Pipe, saved: Table) -> None:
    """Raise StateError if a state does not fit because it was saved with another number of workers."""
    by = next((len(cell["workers"]) for cell in saved.values() if _is_of_workers(cell)), 0)
    gathered = next((stage for stage in structure.walk(graph) if isinstance(stage, Gathered)), None)
    if gathered is not None and isinstance(gathered.graph, Lanes):
        return
    here = 0 if gathered is None else gathered.pool.count
    if by != here and isinstance(error, StateError):
        raise StateError(
            f"workers: the state was saved {_with(by)}, and this loader runs {_with(here)}. Run it {_with(by)}, or "
            "begin the saved epoch again: dl.load_state_dict(scatter(gather(state), begin_epoch_again=True)), with "
            "`from loader2 import gather, scatter`. With .lanes(n) at the end of the part that runs in workers, states "
            "are for any number of workers"
        ) from None


def announce_saving(graph: Pipe) -> None:
    """Have the workers of a graph send large tables as well, from now on."""
    for stage in structure.walk(graph):
        if isinstance(stage, Gathered):
            stage.pool.saves = True


def _is_of_workers(cell: object) -> bool:
    return type(cell) is dict and set(cell) - {"deaths"} == {"turn", "workers"} and type(cell["workers"]) is list


def _with(workers: int) -> str:
    return f"with {workers} worker{'s'[: workers != 1]}" if workers else "without workers"
