"""The worker loop: it makes the elements of a graph for a consumer, as far ahead as its window allows.

The loop waits only when it has nothing to do: for a frame that opens a run, or for credit. Elements travel in chunks,
and each frame carries one chunk. A chunk has the elements that are made in two milliseconds, or in four if these are
fewer than ``_FEW``, but no more than the window allows. So slow elements are sent at once, and fast elements share the
cost of a frame. If an element takes long, the elements before it are sent within 0.1 s and without a table
(``ChunkWatch``).

A snapshot travels with a chunk as long as the snapshot budget allows it. A position between two snapshots is a snapshot
and the number of elements since. A table with large buffers, such as a buffer of pictures, would take a multiple of its
memory on its way to the main process. It is sent only if the consumer saves positions.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, takewhile
from time import perf_counter
from typing import Any, TypeAlias

from datapipes.description import passes, structure
from datapipes.description.structure import Pipe
from datapipes.errors import ProtocolError, UnsavableElement, consumes_element
from datapipes.iter import Lanes
from datapipes.messages.switches import current_switches
from datapipes.position.cells import SnapshotTooLarge, Table, at_most
from datapipes.position.completion import StreamCompletion
from datapipes.position.plan import Plan
from datapipes.position.position_history import SnapshotBudget
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from datapipes.position.user_classes import is_sharding, shard
from datapipes.sharding.sharding import SHARDING_PRIORITIES
from reading_services.interface.service import WorkerInfo, graph_from
from reading_services.workers.call_record import CallRecord, Watched, WatchOrder
from reading_services.workers.chunk_watch import ChunkWatch
from reading_services.workers.generators import Generators, opened
from reading_services.workers.transport import ProducerLink
from reading_services.workers.transport.packing import LazyPickle, unpacked
from reading_services.workers.transport.protocol import Credit, OpenStream, Producer, ToProducer, Window
from reading_services.workers.worker_checks import note_unsendable

_LARGEST = 4096  # elements in a chunk
_FEW = 64  # elements; a smaller chunk may take twice as long. Larger chunks would overflow the processor's cache
_SMALL = 1 << 12  # bytes of a table that costs next to nothing to send
_LARGE = 1 << 20  # bytes of a buffer that is sent only if the consumer saves positions


@dataclass(frozen=True, slots=True)
class EpochStart:
    """The start of an epoch. A worker gets it before it opens its graph."""

    number: int
    """Number of this epoch with this service. An epoch that is opened again after an error keeps its number."""
    seeds: Any
    """Generator of seeds that ``worker_reset_fn`` gets, spawned for each worker. None without such a function."""
    reset: Any = None
    """Change that the services before this one make to the graph: a function, or its pickle."""


@dataclass(frozen=True, slots=True)
class Order:
    """Order to open a run: at its start, or at a table and a number of elements after it."""

    run: Run
    above: Any = None
    behind: int = 0
    start: EpochStart | None = None
    seed: int = 0
    """Seed of the global random number generators. It differs between all workers of all ranks."""
    key: int = 0
    """Number of the opening, the same for all workers."""
    participants: tuple[int, ...] = ()
    """Numbers of the workers that take part in the opening."""
    watch: WatchOrder | None = None
    """Order to make elements one by one and to record the calls, after a worker has died here. None: do neither."""
    dealing: WatchOrder | None = None
    """The same for the dispatcher, by the number of elements dealt since the start of the epoch."""
    saves: bool = False
    """Whether the consumer saves positions, so that large tables are wanted, too."""


def worker_graph(graph: Pipe, info: WorkerInfo, init_fn: Callable[[Any, WorkerInfo], Any] | None) -> Pipe:
    """Return a worker's own copy of a graph, sharded and then changed by ``init_fn``.

    Stages that read dispatched elements are not sharded: the dispatcher has sharded these elements. Lanes shard the
    stages above by themselves, and ``init_fn`` is called with the graph of each lane that runs in the worker.
    """
    graph = structure.unfold(graph)
    if isinstance(graph, Lanes):
        graph.tells_ends = True
        shard(graph, info.num_workers, info.worker_id, SHARDING_PRIORITIES.MULTIPROCESSING)
        return graph if init_fn is None else graph.changed(partial(_lane_changed, init_fn, graph.n))
    stages = structure.walk(graph)
    dealt = {id(stage) for stage in stages if getattr(type(stage), "is_dealt", False)}
    for stage in stages:
        if any(id(parent) in dealt for parent in structure.parents(stage)):
            dealt.add(id(stage))
        elif is_sharding(stage):
            shard(stage, info.num_workers, info.worker_id, SHARDING_PRIORITIES.MULTIPROCESSING)
    return graph if init_fn is None else graph_from(init_fn, init_fn(graph, info))


def _lane_changed(change: Callable[[Pipe, WorkerInfo], Any], n: int, graph: Pipe, lane: int) -> Pipe:
    return graph_from(change, change(graph, WorkerInfo(n, lane)))


class WorkerEpochs:
    """A worker's graph over its epochs. Functions of the user may replace it at the start of each epoch.

    The function of the services before this one comes first, then ``worker_reset_fn``. Their results are kept.
    """

    def __init__(self, graph: Pipe, reset_fn: Callable[[Any, WorkerInfo, Any], Any] | None, info: WorkerInfo) -> None:
        self._graph = graph
        self._reset_fn = reset_fn
        self._info = info
        self._number = 0
        passes.settle(graph, 0)

    def graph_of(self, order: Order) -> Pipe:
        """Return the graph for an order, after the changes that a new epoch makes to it."""
        start = order.start
        if start is not None and start.number != self._number:
            graph = self._graph
            if start.reset is not None or self._reset_fn is not None:
                reset = pickle.loads(start.reset) if type(start.reset) is bytes else start.reset
                change = partial(self._changed, reset, start.seeds)
                if isinstance(graph, Lanes):
                    graph = graph.changed(partial(_lane_changed, change, graph.n))
                else:
                    graph = change(graph, self._info)
            passes.settle(graph, order.run.number)
            self._graph, self._number = graph, start.number
        return self._graph

    def _changed(self, reset: Any, seeds: Any, graph: Pipe, info: WorkerInfo) -> Pipe:
        if reset is not None:
            graph = graph_from(reset, reset(graph))
        if self._reset_fn is not None:
            graph = graph_from(self._reset_fn, self._reset_fn(graph, info, seeds.spawn(info.worker_id)))
        return graph


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """The graph that the workers of a pool run, and its settings."""

    graph: Pipe
    workers: int
    window: Window
    init_fn: Any = None
    reset_fn: Any = None
    timeout: float | None = None
    dispatched: Pipe | None = None
    """The part of the graph that the dispatcher runs for all workers."""
    environment: Mapping[str, str] = field(default_factory=current_switches)
    """Environment variables of the library. A fork server, or another machine, started before some of them were set."""

    @property
    def worker_job(self) -> tuple[Any, ...]:
        """The arguments of a worker process: settings, graph, init_fn, reset_fn."""
        return self.environment, self.graph, self.init_fn, self.reset_fn

    @property
    def dispatcher_job(self) -> tuple[Any, ...] | None:
        """The arguments of a dispatcher process: settings, graph, reset_fn. None without a dispatcher."""
        return None if self.dispatched is None else (self.environment, self.dispatched, self.reset_fn)


def numbered(orders: Sequence[Order | None], key: int) -> list[Order | None]:
    """Return the orders of one opening with its number and the numbers of the workers that take part."""
    numbers = tuple(number for number, order in enumerate(orders) if order is not None)
    return [None if order is None else replace(order, key=key, participants=numbers) for order in orders]


Packing: TypeAlias = Callable[[list[Any]], tuple[Any, int]]
"""A function that packs a chunk of elements for a link and returns it with its size in bytes."""


def pull(session: Session, most: int, chunk: list[Any]) -> BaseException | None:
    """Append up to ``most`` elements to a list. Return the exception that ended this early, or None.

    This is a function, not a method: an exception refers to its frames, and these must not refer to the loop.
    """
    try:
        chunk.extend(islice(session.iterator(), most))  # a generator of ours would keep the last element alive
    except BaseException as error:
        session.fail(error)
        return error
    return None


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """Functions and settings by which a loop makes elements and packs them for its links."""

    open_graph: Callable[[Order], Pipe]
    """Returns the graph for an order."""
    window: Window
    pack: Packing
    failure: Callable[[BaseException], Any]
    """Converts an error to the form in which it is sent."""
    generators: Generators | None = None
    """The generators that are saved with positions, in a process of its own. None: none are saved."""
    pack_position: Callable[[Table], Any] = lambda table: table
    """Converts a table to the form in which it is sent."""
    record: CallRecord = field(default_factory=CallRecord)
    """Record of the elements and calls under way, which the main process reads if this process dies."""


class ProducerLoop:
    """Base of the loops that make elements: a session, the size of its chunks, and its snapshots."""

    def __init__(self, making: LoopConfig) -> None:
        self._making = making
        self._watched: Watched | None = None
        self._session: Session | None = None
        self._at_once = 1  # elements in a chunk, adapted so that making them takes about ``Window.seconds``
        self._average = 64  # bytes of an element, by the last chunk
        self._plan: Plan | None = None  # of the last session
        self._looking = SnapshotBudget()
        self._watch = ChunkWatch(self._send_early)

    def run(self) -> None:
        """Make elements until all consumers have closed their links or have ended."""
        try:
            self._serve()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass  # the consumers have ended
        finally:
            self._watch.end()
            self._leave_session()

    def _serve(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no _serve")

    @property
    def gone(self) -> bool:
        """Whether all consumers have closed their links."""
        raise NotImplementedError(f"{type(self).__name__} has no gone")

    def _open(self, graph: Pipe, run: Run, above: Table | None) -> Session:
        """Open a graph at its start, or at the table ``above``."""
        self._session = opened(graph, run, above, self._making.generators, self._plan)
        self._plan = self._session.plan
        self._at_once = 1
        self._looking = SnapshotBudget()
        return self._session

    def _watching(self, graph: Pipe, watch: WatchOrder | None) -> Pipe:
        """Return a graph, or a copy that records its calls if the order says so."""
        self._watched = None if watch is None else Watched(self._making.record, watch)
        return graph if self._watched is None else self._watched.over(graph)

    def _at_most(self, wanted: int, made: int) -> int:
        """Return how many elements to make at once. It is one while the calls are recorded."""
        return wanted if self._watched is None else self._watched.at_most(wanted, made)

    def _send_early(self, chunk: list[Any]) -> int | None:
        """Send the elements of an unfinished chunk, as ``ChunkWatch`` requires of its function."""
        raise NotImplementedError(f"{type(self).__name__} has no _send_early")

    def _pulled(self, session: Session, most: int, chunk: list[Any], full: int) -> tuple[BaseException | None, int]:
        """Pull elements and adapt the size of the next chunk. Return the exception and the number that were sent early.

        ``full`` is the size of a whole chunk.
        """
        started = perf_counter()
        sent = 0
        if most > 1:
            self._watch.open(chunk)
            error = pull(session, most, chunk)
            sent = self._watch.close()
        else:
            error = pull(session, most, chunk)
        took = perf_counter() - started
        self._looking.making += took
        seconds = self._making.window.seconds * (2 if self._at_once < _FEW else 1)
        if took < seconds / 2 and len(chunk) == full:
            self._at_once = min(2 * self._at_once, _LARGEST)
        elif took > seconds * 2:
            self._at_once = max(self._at_once // 2, 1)
        return error, sent

    def _position(self) -> Any:
        """Return the session's packed table, or text that says why it cannot be saved. The caller checks the budget."""
        if (session := self._session) is None or _reads_dealt_elements_twice(session.plan):
            return None
        try:
            table = session.table() if self._making.generators is None else self._making.generators.beside(session)
            return None if table is None else self._making.pack_position(table)
        except SnapshotTooLarge:
            raise
        except UnsavableElement as error:
            return str(error)
        except Exception as error:  # of a user's state_dict(): it is raised when the program saves, and ends no stream
            return f"a position could not be saved: {error!r}"

    def _errors(self) -> dict[str, int] | None:
        return None if self._session is None else self._session.errors() or None

    def _leave_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _reads_dealt_elements_twice(plan: Plan) -> bool:
    """Return whether a detached hub reads dispatched elements. A resume in mid-epoch would read them a second time."""
    hubs = plan.detached_hubs()
    return any(getattr(type(stage), "is_dealt", False) for hub in hubs for stage in structure.walk(hub))


class WorkerLoop(ProducerLoop):
    """The loop of one worker. It calls ``left`` when an opening has ended."""

    def __init__(self, link: ProducerLink, making: LoopConfig, left: Callable[[], None]) -> None:
        super().__init__(making)
        self._link = link
        self._left = left
        self._producer = Producer(making.window)
        self._share: StreamCompletion | None = None
        self._saves = False  # whether large tables are wanted
        self._start: Any = None  # the table before the first element, until the first frame takes it along
        self._is_first = True  # whether no frame of this opening was sent yet
        self._made = 0  # elements of this opening, including those that the main process had before it

    @property
    def gone(self) -> bool:
        return self._producer.gone

    def _serve(self) -> None:
        producer = self._producer
        self._link.send(producer.started())
        while not producer.gone:
            room = producer.room(self._average)
            frame = self._link.receive(wait=not room)
            if frame is None:
                self._make(room)
            else:
                self._receive(frame)

    def _receive(self, frame: ToProducer) -> None:
        self._producer.receive(frame)
        if isinstance(frame, Credit):
            self._saves |= frame.saves
        elif isinstance(frame, OpenStream):
            try:
                self._leave_session()
                self._begin(frame.order)
            except BaseException as error:
                self._fail(error)
        elif self._producer.opening is None:
            self._leave_session()

    def _begin(self, order: Order) -> None:
        graph = self._making.open_graph(order)
        run = replace(order.run, passes=passes.numbers(graph))
        self._made, self._saves = 0, order.saves
        session = self._open(self._watching(graph, order.watch), run, unpacked(order.above))
        self._share = StreamCompletion(session) if order.run.shown else None
        self._is_first = True
        self._start = self._position() if order.above is None else None
        self._making.record.making(0, order.behind)
        while self._made < order.behind:
            if self._watched is not None:
                self._making.record.making(self._made, self._at_most(order.behind - self._made, self._made))
            try:
                next(session.iterator(), None)
            except Exception as error:
                if not consumes_element(error):
                    raise
                session.fail(error)
                error.__traceback__ = None  # the main process has raised it before
                if session.passes_over(error):
                    continue  # the main process has not counted it as an element
            self._made += 1

    def _make(self, room: int) -> None:
        """Make a chunk of up to ``room`` elements and send it, and then the error or the end that comes after it."""
        if (session := self._session) is None:
            raise ProtocolError("elements are asked for, and nothing is open")
        chunk: list[Any] = []
        wanted = self._at_most(min(self._at_once, room), self._made)
        self._making.record.making(self._made, wanted)
        error, sent = self._pulled(session, wanted, chunk, self._at_once)
        self._made += (made := len(chunk))
        self._making.record.making(self._made, 0)
        if session.passes_over(error):  # the stages have counted it
            error = None
            if made:
                self._send(session, chunk, look=True)
            return
        if made and not self._send(session, chunk, look=error is None):
            error = None
        elif error is not None:
            self._fail(error)
            error = None  # it refers to its frames, and through them to this one
        elif sent + made < wanted:
            errors = self._errors()
            self._leave_session()
            self._link.send(self._producer.end(errors))

    def _send_early(self, chunk: list[Any]) -> int | None:
        there = chunk[:]
        if not there:
            return 0
        packed = self._packed(there)
        if isinstance(packed, Exception):  # an element cannot be sent, which the loop will raise: send those before it
            there = list(takewhile(lambda element: not isinstance(self._packed([element]), Exception), there))
            if not there:
                return None
            packed = self._making.pack(there)
        body, size = packed
        del chunk[: (count := len(there))]
        there.clear()
        # The counts of errors include those of the elements under way. The next frame brings them.
        further = None, None, self._start, None
        self._start = None
        self._average = max(size // count, 1)
        self._link.send(self._producer.items(count, size, body, *further))
        self._made += count
        self._making.record.made(count)
        return count

    def _packed(self, elements: list[Any]) -> tuple[Any, int] | Exception:
        """Return elements as the body of a frame with its size, or the exception if they cannot be sent."""
        try:
            return self._making.pack(elements)
        except Exception as error:
            return error

    def _send(self, session: Session, chunk: list[Any], look: bool) -> bool:
        """Send elements and drop them. Return False if one could not be sent, which ends the opening."""
        count = len(chunk)
        try:
            body, size = self._making.pack(chunk)
        except Exception as error:
            if count == 1:
                note_unsendable(error, chunk[0], session.plan.graph)
                self._fail(error)
                return False
            return all(self._send(session, [element], look=False) for element in chunk)  # up to the failing one
        chunk.clear()
        self._average = max(size // count, 1)
        position, started, looked = None, 0.0, 0.0
        if look and self._looking.is_cheap():
            started = perf_counter()
            position = self._cheap_position()
            looked = perf_counter()
        elif self._is_first:
            position = session.problem()  # tell at once that nothing can be saved: this costs less than a snapshot
        part = None if position is None or self._share is None else self._share.part()
        further = position, self._errors(), self._start, part
        self._is_first, self._start = False, None
        self._link.send(self._producer.items(count, size, body, *further))
        if looked:
            is_large = isinstance(position, LazyPickle) and len(position.data) > _SMALL
            self._looking.took((perf_counter() if is_large else looked) - started)
        return True

    def _cheap_position(self) -> Any:
        """Return the packed table. Return None if it is large and the consumer does not save positions."""
        with nullcontext() if self._saves else at_most(_LARGE):
            try:
                return self._position()
            except SnapshotTooLarge:
                return None

    def _fail(self, error: BaseException) -> None:
        above = None
        if self._session is not None and self._session.failed:
            try:
                above = self._position()
            except Exception as another:
                error.add_note(f"  and its position could not be saved: {another!r}")
        failed = self._producer.failed(self._making.failure(error), above, self._errors())
        self._link.send(failed)
        self._leave_session()  # the dispatcher must not wait for this worker any more

    def _leave_session(self) -> None:
        super()._leave_session()
        self._left()
