"""The worker loop: makes the elements of a graph for a consumer, as far ahead as its window lets it.

The loop waits only when it has nothing to do: for a message that opens something, or for credit. Elements travel in
chunks, as many as are made in two milliseconds, in four if they are few, or what suits the link, so a slow element is
on its way at once and quick ones share the price of a message. What is there of a chunk is sent within 0.1 s though its
next element takes longer (``ChunkWatch``), without a position. With a chunk goes the position after it, as long as
looking at positions takes a small share of the time; whoever saves in between counts the elements since. A position
that holds much, such as a buffer of pictures, would take a multiple of its memory until it is at home, and is told only
where somebody saves.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from time import perf_counter
from typing import Any, Protocol

from datapipes.description import passes, structure
from datapipes.description.structure import Pipe
from datapipes.errors import ProtocolError, UnsavableElement, consumes_element
from datapipes.messages.long_work import current_switches
from datapipes.parts.sharding import SHARDING_PRIORITIES
from datapipes.position.cells import Table, TooLarge, at_most
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from datapipes.position.share import Share
from datapipes.position.trail import Looking
from datapipes.position.user_classes import is_sharding, shard
from reading_services.interface.service import WorkerInfo, graph_from
from reading_services.workers.at_work import Record, Watch, Watched
from reading_services.workers.chunk_watch import ChunkWatch
from reading_services.workers.generators import Generators, opened
from reading_services.workers.portable import note_unsendable
from reading_services.workers.transport import ProducerLink
from reading_services.workers.transport.packing import Packed, unpacked
from reading_services.workers.transport.protocol import Credit, Open, Producer, ToProducer, Window

_LARGEST = 4096  # elements in a chunk
_FEW = 64  # elements in a chunk; fewer may take twice as long, since many at once fall out of a processor's cache
_SMALL = 1 << 12  # bytes of a position that costs next to nothing to send
_LARGE = 1 << 20  # bytes of a buffer that is sent only where somebody saves


@dataclass(frozen=True, slots=True)
class EpochStart:
    """An epoch as a worker is told of it, before it opens its graph for it."""

    number: int
    """Of this epoch with this service. One that is opened again, after an error, is not begun again."""
    seeds: Any
    """The generator of seeds from which that of each worker's own function is spawned; None without such a function."""
    reset: Any = None
    """Change that the services in front have to make to the graph: a function, or the pickle of one."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order to open a run, from its start or from a position, and the number of elements behind that."""

    run: Run
    above: Any = None
    behind: int = 0
    start: EpochStart | None = None
    seed: int = 0
    """For the generators that belong to nobody: no other worker of any rank has the same."""
    key: int = 0
    """The number of the opening, the same for all workers,"""
    crowd: tuple[int, ...] = ()
    """and which of them take part in it."""
    watch: Watch | None = None
    """Whether to go one by one, and write down what is done: a worker has died here."""
    dealing: Watch | None = None
    """The same for the dispatcher, by the number of elements that it has dealt since the start of the epoch."""
    saves: bool = False
    """Whether somebody saves positions, so that large ones are wanted as well."""


def part_of(graph: Pipe, info: WorkerInfo, init_fn: Callable[[Any, WorkerInfo], Any] | None) -> Pipe:
    """A worker's own copy of a graph: sharded, and changed by its user's function if there is one.

    What is dealt out to the workers is not sharded once more.
    """
    graph = structure.unfold(graph)
    stages = structure.walk(graph)
    dealt = {id(stage) for stage in stages if getattr(type(stage), "is_dealt", False)}
    for stage in stages:
        if any(id(parent) in dealt for parent in structure.parents(stage)):
            dealt.add(id(stage))
        elif is_sharding(stage):
            shard(stage, info.num_workers, info.worker_id, SHARDING_PRIORITIES.MULTIPROCESSING)
    return graph if init_fn is None else graph_from(init_fn, init_fn(graph, info))


class WorkerEpochs:
    """A worker's graph, which functions of its users' may replace at the start of each epoch, and what it keeps.

    First comes what the services in front have to do to it, then the worker's own function. What they return is kept.
    """

    def __init__(self, graph: Pipe, reset_fn: Callable[[Any, WorkerInfo, Any], Any] | None, info: WorkerInfo) -> None:
        self._graph = graph
        self._reset_fn = reset_fn
        self._info = info
        self._number = 0
        passes.settle(graph, 0)

    def graph_of(self, order: Order) -> Pipe:
        """The graph for an epoch."""
        start = order.start
        if start is not None and start.number != self._number:
            graph, reset = self._graph, start.reset
            if reset is not None:
                reset = pickle.loads(reset) if type(reset) is bytes else reset
                graph = graph_from(reset, reset(graph))
            if self._reset_fn is not None:
                seeds = start.seeds.spawn(self._info.worker_id)
                graph = graph_from(self._reset_fn, self._reset_fn(graph, self._info, seeds))
            passes.settle(graph, order.run.number)
            self._graph, self._number = graph, start.number
        return self._graph


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """The graph that a pool of workers runs, and its settings."""

    graph: Pipe
    workers: int
    window: Window
    init_fn: Any = None
    reset_fn: Any = None
    timeout: float | None = None
    dispatched: Pipe | None = None
    """The part that one process or thread runs for all workers."""
    environment: Mapping[str, str] = field(default_factory=current_switches)
    """The program's switches: a fork server, or another machine, has none of those that were set since it began."""

    @property
    def worker_job(self) -> tuple[Any, ...]:
        """What a worker process is given: switches, graph, init_fn, reset_fn."""
        return self.environment, self.graph, self.init_fn, self.reset_fn

    @property
    def dispatcher_job(self) -> tuple[Any, ...] | None:
        """What a dispatcher process is given: switches, graph, reset_fn. None without a dispatcher."""
        return None if self.dispatched is None else (self.environment, self.dispatched, self.reset_fn)


def numbered(orders: Sequence[Order | None], key: int) -> list[Order | None]:
    """The orders of one opening, each with its number and with those who take part."""
    crowd = tuple(number for number, order in enumerate(orders) if order is not None)
    return [None if order is None else replace(order, key=key, crowd=crowd) for order in orders]


class Packing(Protocol):
    """Packs a chunk of elements for the link; returns it with its size in bytes."""

    def __call__(self, elements: list[Any]) -> tuple[Any, int]: ...


def pull(session: Session, most: int, chunk: list[Any]) -> BaseException | None:
    """Take elements into a list, up to the end or to an exception, which is returned.

    A function without a ``self``: an exception keeps the frames that it went through, and these must not keep it.
    """
    try:
        chunk.extend(islice(session.iterator(), most))  # by no generator of ours: it would hold the last one
    except BaseException as error:
        session.fail(error)
        return error
    return None


@dataclass(frozen=True, slots=True)
class Making:
    """How a loop makes elements, and what it makes of them for its links."""

    open_graph: Callable[[Order], Pipe]
    """The graph of an epoch, by the order for it."""
    window: Window
    pack: Packing
    failure: Callable[[BaseException], Any]
    """An error, ready to be sent."""
    generators: Generators | None = None
    """What is saved with positions, in a process of its own."""
    pack_position: Callable[[Table], Any] = lambda table: table
    """What is sent of a position: whoever gets it opens it when it is wanted."""
    record: Record | None = None
    """Where to write down what is being made, for whoever finds this process dead."""


class Loop:
    """Base of the loops that make elements: a session, how fast it goes, and its positions as far as that is cheap."""

    def __init__(self, making: Making) -> None:
        self._open_graph = making.open_graph
        self._pack = making.pack
        self._failure = making.failure
        self._generators = making.generators
        self._record = making.record
        self._watched: Watched | None = None
        self._watched_from = self._watched_until = 0
        self._session: Session | None = None
        self._seconds = making.window.seconds
        self._at_once = 1  # elements in a chunk, so that making them takes about as long as it should
        self._average = 64  # bytes of an element, as far as is known
        self._pack_position = making.pack_position
        self._is_replayed = False  # whether the graph can be resumed from its start alone, and so tells no position
        self._looking = Looking()
        self._watch = ChunkWatch(self._send_early)

    def run(self) -> None:
        """Serve until everybody has said that it is enough, or is gone."""
        try:
            self._serve()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass  # nobody is interested any more
        finally:
            self._watch.end()
            self._leave_session()

    def _serve(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no _serve")

    @property
    def gone(self) -> bool:
        """Whether everybody has said that it is enough."""
        raise NotImplementedError(f"{type(self).__name__} has no gone")

    def _open(self, graph: Pipe, run: Run, above: Table | None) -> Session:
        """Open a graph at a position."""
        self._session = opened(graph, run, above, self._generators)
        self._is_replayed = _reads_dealt_elements_twice(self._session)
        self._at_once = 1
        self._looking = Looking()
        return self._session

    def _watching(self, graph: Pipe, watch: Watch | None) -> Pipe:
        """Return a graph, or a copy that writes down what it calls if it has to be watched."""
        self._watched = None
        if watch is None or self._record is None:
            return graph
        self._watched = Watched(self._record, watch)
        self._watched_from, self._watched_until = watch.first, watch.elements
        return self._watched.over(graph)

    def _at_most(self, wanted: int, made: int) -> int:
        """Return how many elements to make at once: one while the worker is watched, and none of those before."""
        watched = self._watched
        if watched is None:
            return wanted
        if made < self._watched_from:
            return min(wanted, self._watched_from - made)
        watched.goes_on = made < self._watched_until
        if watched.goes_on:
            return 1
        self._watched = None
        return wanted

    def _send_early(self, chunk: list[Any]) -> int | None:
        """Send what is there of a chunk of several, as ``ChunkWatch`` asks for."""
        raise NotImplementedError(f"{type(self).__name__} has no _send_early")

    def _pulled(self, session: Session, most: int, chunk: list[Any], full: int) -> tuple[BaseException | None, int]:
        """``pull``, and learn from it how many elements to make at once; ``full``: those of a whole chunk.

        Returns how many elements were sent early, too.
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
        seconds = self._seconds * (2 if self._at_once < _FEW else 1)
        if took < seconds / 2 and len(chunk) == full:
            self._at_once = min(2 * self._at_once, _LARGEST)
        elif took > seconds * 2:
            self._at_once = max(self._at_once // 2, 1)
        return error, sent

    def _position(self) -> Any:
        """The session's position, packed; or why nobody can save that. It is for the caller to ask if that is cheap."""
        if (session := self._session) is None or self._is_replayed:
            return None
        try:
            table = session.table() if self._generators is None else self._generators.beside(session)
            return None if table is None else self._pack_position(table)
        except TooLarge:
            raise
        except UnsavableElement as error:
            return str(error)
        except (
            Exception
        ) as error:  # of a user's state_dict(): it ends no stream, and is raised where nobody saves for us
            return f"a position could not be saved: {error!r}"

    def _errors(self) -> dict[str, int] | None:
        return None if self._session is None else self._session.errors() or None

    def _leave_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _reads_dealt_elements_twice(session: Session) -> bool:
    """Return whether a resume in mid-epoch reads elements of the dispatcher twice: for a detached hub, and a replay."""
    hubs = session.detached_hubs()
    return any(getattr(type(stage), "is_dealt", False) for hub in hubs for stage in structure.walk(hub))


class Server(Loop):
    """One worker's loop; ``left`` is called when an opening is over."""

    def __init__(self, link: ProducerLink, making: Making, left: Callable[[], None]) -> None:
        super().__init__(making)
        self._link = link
        self._left = left
        self._producer = Producer(making.window)
        self._share: Share | None = None
        self._saves = False  # whether large positions are wanted
        self._start: Any = None  # the position before the first element, to be told with it
        self._is_first = True  # whether nothing of this opening was sent yet
        self._made = 0  # how many elements of this opening, with those that home has had

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
        elif isinstance(frame, Open):
            try:
                self._leave_session()
                self._begin(frame.order)
            except BaseException as error:
                self._fail(error)
        elif self._producer.opening is None:
            self._leave_session()

    def _begin(self, order: Order) -> None:
        graph = self._open_graph(order)
        run = replace(order.run, passes=passes.numbers(graph))
        self._made, self._saves = 0, order.saves
        session = self._open(self._watching(graph, order.watch), run, unpacked(order.above))
        self._share = Share(session) if order.run.shown else None
        self._is_first = True
        self._start = self._position() if order.above is None else None
        if self._record is not None:
            self._record.making(0, order.behind)
        while self._made < order.behind:
            if self._record is not None and self._watched is not None:
                self._record.making(self._made, self._at_most(order.behind - self._made, self._made))
            try:
                next(session.iterator(), None)
            except Exception as error:
                if not consumes_element(error):
                    raise
                session.fail(error)
                error.__traceback__ = None  # it was told when it was met
                if session.passes_over(error):
                    continue  # home has not had it
            self._made += 1

    def _make(self, room: int) -> None:
        """Make a chunk of so many elements at most, and send it with what ended it, if something did."""
        if (session := self._session) is None:
            raise ProtocolError("elements are asked for, and nothing is open")
        chunk: list[Any] = []
        wanted = self._at_most(min(self._at_once, room), self._made)
        if self._record is not None:
            self._record.making(self._made, wanted)
        error, sent = self._pulled(session, wanted, chunk, self._at_once)
        self._made += (made := len(chunk))
        if self._record is not None:
            self._record.making(self._made, 0)
        if session.passes_over(error):  # home has counted it
            error = None
            if made:
                self._send(session, chunk, look=True)
            return
        if made and not self._send(session, chunk, look=error is None):
            error = None
        elif error is not None:
            self._fail(error)
            error = None  # it keeps the frames that it went through, and with them this one
        elif sent + made < wanted:
            errors = self._errors()
            self._leave_session()
            self._link.send(self._producer.end(errors))

    def _send_early(self, chunk: list[Any]) -> int | None:
        there = chunk[:]
        if not there:
            return 0
        packed = self._packed(there)
        if isinstance(packed, Exception):  # one element cannot be sent, which the loop will say: those before it can
            there = list(takewhile(lambda element: not isinstance(self._packed([element]), Exception), there))
            if not there:
                return None
            packed = self._pack(there)
        body, size = packed
        del chunk[: (count := len(there))]
        there.clear()
        # The counts of errors are those of the elements that are being made, too: they come with the next message.
        told = None, None, self._start, None
        self._start = None
        self._average = max(size // count, 1)
        self._link.send(self._producer.items(count, size, body, *told))
        self._made += count
        if self._record is not None:
            self._record.made(count)
        return count

    def _packed(self, elements: list[Any]) -> tuple[Any, int] | Exception:
        """Return elements as the body of a message and its size, or why they cannot be sent."""
        try:
            return self._pack(elements)
        except Exception as error:
            return error

    def _send(self, session: Session, chunk: list[Any], look: bool) -> bool:
        """Send elements, and let go of them; False if one could not be sent, which ends the opening."""
        count = len(chunk)
        try:
            body, size = self._pack(chunk)
        except Exception as error:
            if count == 1:
                note_unsendable(error, chunk[0], session.description)
                self._fail(error)
                return False
            return all(self._send(session, [element], look=False) for element in chunk)  # up to the one that it is
        chunk.clear()
        self._average = max(size // count, 1)
        position, started, looked = None, 0.0, 0.0
        if look and self._looking.is_cheap():
            started = perf_counter()
            position = self._cheap_position()
            looked = perf_counter()
        elif self._is_first:
            position = session.problem()  # is said soon; to look costs more than it takes to see this
        part = None if position is None or self._share is None else self._share.part()
        told = position, self._errors(), self._start, part
        self._is_first, self._start = False, None
        self._link.send(self._producer.items(count, size, body, *told))
        if looked:
            is_large = isinstance(position, Packed) and len(position.data) > _SMALL
            self._looking.took((perf_counter() if is_large else looked) - started)
        return True

    def _cheap_position(self) -> Any:
        """The position, unless it holds much and nobody saves: packing and keeping that is for those who do."""
        with nullcontext() if self._saves else at_most(_LARGE):
            try:
                return self._position()
            except TooLarge:
                return None

    def _fail(self, error: BaseException) -> None:
        above = None
        if self._session is not None and self._session.failed:
            try:
                above = self._position()
            except Exception as another:
                error.add_note(f"  and its position could not be saved: {another!r}")
        failed = self._producer.failed(self._failure(error), above, self._errors())
        self._link.send(failed)
        self._leave_session()  # whoever deals out elements must not wait for this worker any more

    def _leave_session(self) -> None:
        super()._leave_session()
        self._left()
