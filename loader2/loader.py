"""DataLoader2: a graph, where it runs, and when.

The loader works on a copy of the graph it is given, in which every stage has been numbered: seeds and positions hang on
those numbers, so adapters and services may rewrite the copy. The user's graph is never changed.

The position of the epoch under way is a session, which the loader owns: it ends with the epoch, with the next ``iter``
or with ``shutdown``, at the latest when nobody has the loader any more.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Sized
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Never, Self, TypeVar

from torch.utils.data import Dataset, IterableDataset

from datapipes.description import passes, structure
from datapipes.description.pipe import IterDataPipe, MapDataPipe
from datapipes.description.printing import chain as printed
from datapipes.errors import BadArgument, BadArgumentType, LengthUnknown
from datapipes.iter import IterableWrapper, MapToIterConverter
from datapipes.map import SequenceWrapper
from datapipes.messages.interrupts import ShortInterrupts
from datapipes.operators.checks import explained, length_of
from datapipes.parts.group import ranks
from datapipes.position import own_generators
from datapipes.position.cells import Given, Table
from datapipes.position.plan import Plan
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from datapipes.position.source_identity import Sources
from loader2.adapters import AdapterFn, adapted, listed
from loader2.epochs import Epochs
from loader2.iteration import SHUT_DOWN, DataLoader2Iterator, Position, replaced
from loader2.random import SeedGenerator, checked_seed
from loader2.rank_states import gather, is_gathered, scatter
from loader2.state import LoaderState, stages_of
from loader2.torch_arguments import refused
from reading_services import CheckpointableReadingServiceInterface, ReadingServiceInterface
from reading_services.interface.service import own_copy, warn_without_ranks
from reading_services.workers.gather import refuse_other_workers, tell_that_somebody_saves

if TYPE_CHECKING:
    from loader2.progress import Progress

T_co = TypeVar("T_co", covariant=True)


class DataLoader2(Generic[T_co]):
    """Iterates a graph of pipes, epoch by epoch, and can say exactly where it is.

    Args:
        datapipe: The graph, given by its last stage; of a map-style pipe, or of a map-style ``Dataset`` of torch, the
            elements at 0, 1, 2 ... are loaded. The loader works on a copy of the graph, and never changes it.
        datapipe_adapter_fn: A function that takes the loader's graph and returns the one to use, such as those in
            ``loader2.adapters``; or several, called in this order. ``None``: the graph as it is.
        reading_service: Where the graph runs; the loader makes a copy of it for itself. ``None``: in this process, as
            the loop asks for elements. A text names one, of this library or of an installed plugin:
            ``"multi_process(num_workers=2)"``.
        progress: Whether each epoch shows how far it has come, on stderr: a bar in a terminal or a notebook, a line now
            and then in a log. Of several ranks, the first one does.

    >>> from datapipes.iter import IterableWrapper
    >>> with DataLoader2(IterableWrapper(range(6)).shuffle().batch(2)) as dl:
    ...     dl.seed(0)
    ...     it = iter(dl)
    ...     first, state = next(it), dl.state_dict()
    ...     rest = list(it)
    >>> again = DataLoader2(IterableWrapper(range(6)).shuffle().batch(2))
    >>> again.load_state_dict(state)
    >>> list(again) == rest
    True
    """

    ends_at_length: bool = False
    """Whether a state that is taken after ``len(dl)`` elements is one between two epochs.

    Set it for a loop that never asks whether an epoch has ended, nor tells by ``set_epoch`` which one comes next. By
    default what is left of the epoch is resumed: nothing, before the next one.
    """

    state_of_all_ranks: bool = False
    """Whether ``state_dict()`` gathers the states of all ranks, each of which has to call it, as ``gather`` does.

    Set it for what keeps one rank's state for all, as Lightning, Accelerate and ``torch.distributed.checkpoint`` do.
    """

    batch_sampler: ClassVar[None] = None
    """None, as in torch's loaders of what is in batches already: trainers look here before they take ``sampler``."""

    @explained(refused)
    def __init__(
        self,
        datapipe: IterDataPipe[T_co] | MapDataPipe[T_co] | Dataset[T_co],
        datapipe_adapter_fn: AdapterFn | Iterable[AdapterFn] | None = None,
        reading_service: ReadingServiceInterface | str | None = None,
        *,
        progress: bool = False,
    ) -> None:
        self.progress = progress
        self.valid_iterator_id: int | None = None
        self.datapipe_adapter_fns = listed(datapipe_adapter_fn)
        self.datapipe: Any = adapted(_numbered(datapipe), self.datapipe_adapter_fns or ())
        self.reading_service = own_copy(reading_service)
        if isinstance(self.reading_service, ReadingServiceInterface):
            self.reading_service.check(self.datapipe)
        stages = structure.walk(self.datapipe)
        # What can never be opened is said now. The sessions use this plan, or the one before, as long as it is right.
        self._plan = Plan(self.datapipe, Run(seed=0), {}) if structure.has_hubs(stages) else None
        self._stages = stages_of(stages)
        self._sources = Sources(self.datapipe)
        self._epochs = Epochs(origins=own_generators.origins_of(self.datapipe))
        self._session: Session | None = None  # the position in the epoch under way, or in the last one
        self._given = Given()  # how many elements of it were handed on
        self._foreign: Any = None  # the iterator of what the service returned in place of a graph
        self._newest: weakref.ref[DataLoader2Iterator[T_co]] | None = None
        self._to_come: int | None = None  # the epoch that set_epoch() told, while another one is under way
        self._loaded: Table | None = None  # the positions at which the session was opened, if a state was loaded
        self._service_state: bytes | None = None  # loaded, and not yet given to the service
        self._unbegun: tuple[Any, Any] | None = None  # the graph and the service as they were before initialize()
        self._begun = self._initialized = False  # whether initialize() was called, and whether it returned
        self._unfinished = False  # whether the shutdown came in the middle of an epoch
        self._shut_down = False
        self._told = False  # whether a session has looked if its position can be saved

    # -- iterating -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> DataLoader2Iterator[T_co]:
        iterator = DataLoader2Iterator.begin(self, self._position)
        self._go_on_with(iterator)
        return iterator

    def _go_on_with(self, iterator: DataLoader2Iterator[T_co]) -> None:
        """Make an iterator the newest one, for an epoch that goes on or for the next one."""
        if self._shut_down:
            raise RuntimeError("this DataLoader2 has already been shut down; make a new one to go on")
        session = self._session
        self._invalidate()
        if session is None or session.asked or (self._epochs.pending is not None and self._loaded is None):
            with ShortInterrupts():
                session = self._follow()
        elif self._loaded is not None:  # nobody has taken an element of the epoch: the new iterator goes on with it
            self._epochs = self._epochs.resumed()
        iterator.foreign = self._foreign
        self._newest = weakref.ref(iterator)
        self.valid_iterator_id = 0 if self.valid_iterator_id is None else self.valid_iterator_id + 1

    def _position(self) -> Position:
        """What the newest iterator goes along: known when it begins, because until then the epoch may be another."""
        assert self._session is not None  # its iterator was made with one
        return self._session, self._given, self._shown(self._session) or nullcontext()

    def _follow(self) -> Session:
        """Leave the epoch under way, and begin the one that follows it."""
        self._abandon()
        self._session = self._begin(epochs := self._between().following())
        self._epochs, self._given, self._to_come = epochs.agreed(self._session.run), Given(), None
        return self._session

    def _between(self) -> Epochs:
        """The epochs as they are once the one under way has ended."""
        return self._epochs if self._to_come is None else self._epochs.before(self._to_come)

    def _shown(self, session: Session) -> Progress | None:
        """What shows how far the epoch has come, if that is asked for."""
        if not self.progress or ranks().rank:
            return None
        from loader2.progress import Progress, length_if_known

        return Progress(f"epoch {self.epoch}", self._given, session, length_if_known(self))

    def _current(self) -> DataLoader2Iterator[T_co] | None:
        """The newest iterator, if somebody still has it."""
        return None if self._newest is None else self._newest()

    def _invalidate(self) -> None:
        if (iterator := self._current()) is not None:
            iterator.refuse(partial(replaced, self))

    def _abandon(self) -> None:
        session, self._session, self._foreign, self._loaded = self._session, None, None, None
        if session is not None:
            session.close()

    def _begin(self, epochs: Epochs, cells: Table | None = None) -> Session:
        """Open the graph for an epoch, at its start or at saved positions."""
        if not self._initialized:
            self._initialize()
        run, service = epochs.run(), self.reading_service
        if service is not None:
            run = service.agree(run, cells is not None) if isinstance(service, ReadingServiceInterface) else run
            prepare = service.initialize_iteration(SeedGenerator(run.stage_seed(-1)))
            if prepare is not None:
                self.datapipe = prepare(self.datapipe)
        pipe = self.datapipe
        if not structure.is_pipe(pipe):
            if not isinstance(pipe, Iterable):
                name = type(service).__name__
                raise BadArgumentType(
                    f"{name} must return the graph to iterate, or an iterable; it returned {pipe!r:.80}"
                )
            self._foreign = iter(pipe)
            pipe = IterableWrapper(self._foreign, deepcopy=False)
        self._sources.begin()
        passes.settle(pipe, run.number)
        run = replace(run, shown=self.progress, passes=passes.numbers(pipe))
        session = Session.of(pipe, run, cells, self._plan)
        if cells is not None:
            _restore(session, cells)
        self._plan = session.plan
        session.tells, self._told = not self._told, True
        return session

    def _initialize(self) -> None:
        service, saved, self._service_state = self.reading_service, self._service_state, None
        warn_without_ranks(self.datapipe, service)
        self._begun = True
        if isinstance(service, CheckpointableReadingServiceInterface):
            self._unbegun = structure.unfold(self.datapipe), own_copy(service)
        if saved is not None and isinstance(service, CheckpointableReadingServiceInterface):
            self.datapipe = service.restore(self.datapipe, saved)
        elif service is not None:
            self.datapipe = service.initialize(self.datapipe)
        if structure.is_pipe(self.datapipe):
            passes.settle(self.datapipe, 0)
        self._initialized = True

    def _begin_service_again(self, saved: bytes) -> None:
        """Reset a service that has begun to what it was before, unless it is where a state has it anyway."""
        service = self.reading_service
        if self._unbegun is None or not isinstance(service, CheckpointableReadingServiceInterface):
            return
        if self._initialized and service.checkpoint() == saved:
            self._service_state = None
            return
        service.finalize()
        (self.datapipe, self.reading_service), self._unbegun = self._unbegun, None
        self._begun = self._initialized = False

    def seed(self, seed: int) -> None:
        """Set the seed of the next epoch; the epochs after it go on from there, each different.

        Without one, each epoch draws its seed from torch's default generator when it begins.

        Args:
            seed: A number from 0 to ``2**64 - 1``.
        """
        self._epochs = self._epochs.then(checked_seed(seed))

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next, as trainers do that count epochs themselves.

        Its order is what the seed gives for the epoch of this number, whatever came before; without a seed only
        ``epoch`` counts from there. An iterator that has handed on nothing is moved to it. An epoch that is under way
        goes on, and so does one that was loaded, unless the one to come is later.

        Args:
            epoch: Its number, from 0.

        >>> from datapipes.iter import IterableWrapper
        >>> dl = DataLoader2(IterableWrapper(range(9)).shuffle())
        >>> dl.seed(5)
        >>> epochs = [list(dl) for _ in range(3)]
        >>> dl.set_epoch(1)
        >>> list(dl) == epochs[1]
        True
        """
        if type(epoch) is not int or epoch < 0:
            raise BadArgument(f"set_epoch({epoch!r}): expected the number of an epoch, from 0")
        session, epochs = self._session, self._epochs
        if session is not None and not session.asked and not self._shut_down:
            if epoch <= epochs.begun if self._loaded is not None else (epochs.number, epochs.begun) == (epoch, epoch):
                return
            self._abandon()
        self._to_come = epoch
        if self._session is not session and (iterator := self._current()) is not None:
            with ShortInterrupts():
                self._follow()
            iterator.foreign = self._foreign

    @property
    def sampler(self) -> Self:
        """The loader itself: what trainers call ``set_epoch`` of."""
        return self

    @property
    def dataset(self) -> Never:
        """There is none: this says so to what takes torch's loaders apart, such as Accelerate's skip_first_batches."""
        raise AttributeError(
            "a DataLoader2 has a graph (dl.datapipe) and no dataset, so what takes torch's DataLoader apart is not for "
            "it. To go on in mid-epoch, call dl.load_state_dict(state), with transformers beside "
            "TrainingArguments(ignore_data_skip=True); itertools.islice passes over elements"
        )

    @property
    def epoch(self) -> int:
        """The number of the epoch under way, or of the last one: how many there were before, saved ones included.

        >>> from datapipes.iter import IterableWrapper
        >>> dl = DataLoader2(IterableWrapper("abc"))
        >>> for epoch in range(2):
        ...     for element in dl:
        ...         print(dl.epoch, dl.step, element)
        0 1 a
        0 2 b
        0 3 c
        1 1 a
        1 2 b
        1 3 c
        """
        return self._epochs.begun

    @property
    def step(self) -> int:
        """Number of elements of this epoch that were handed on, those before a saved position included."""
        return self._given.save()

    def __len__(self) -> int:
        try:
            service = None if self._initialized else self.reading_service
            graph = service.planned(self.datapipe) if isinstance(service, ReadingServiceInterface) else self.datapipe
            return length_of(graph)
        except TypeError as error:
            message = f"the length of this DataLoader2 is not known beforehand: {error}"
            raise LengthUnknown(message, getattr(error, "stage", "")) from None

    # -- pausing -------------------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        """End the loop under way at its next element."""
        if (iterator := self._paused_by("_pause()")) is not None:
            iterator.pause()

    def _resume(self) -> None:
        """Go on after ``_pause``."""
        if (iterator := self._paused_by("_resume()")) is not None:
            iterator.resume()

    def _limit(self, num_batches: int | None) -> None:
        """Pause after ``num_batches`` more elements."""
        if (iterator := self._paused_by(f"_limit({num_batches})")) is not None:
            iterator.limit(num_batches)

    def _paused_by(self, call: str) -> DataLoader2Iterator[T_co] | None:
        iterator = self._current()
        if iterator is None:
            warnings.warn(f"{call} has no effect: nobody iterates this DataLoader2; call iter() first", stacklevel=3)
        return iterator

    @property
    def errors(self) -> dict[str, int]:
        """Number of errors that stages with an ``on_error`` have let pass in this epoch, by the stage as it prints."""
        return {} if self._session is None else self._session.errors()

    # -- saving --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The loader's position as plain data: after the last element handed on, in this epoch and no other."""
        if self._unfinished:
            raise RuntimeError(
                "this DataLoader2 has already been shut down, in the middle of an epoch, and its position is gone: "
                "call state_dict() before shutdown(), or inside the `with` block"
            )
        session, service, for_service = self._session, self.reading_service, self._service_state
        if session is None or session.ended or (self.ends_at_length and self.step and self.step == len(self)):
            cells = None
        else:
            cells = session.table() if session.asked or self._loaded is None else self._loaded
        if isinstance(service, CheckpointableReadingServiceInterface) and for_service is None:
            for_service = service.checkpoint() or None  # a chain of services of which none has anything gives b""
        if session is not None and structure.is_pipe(self.datapipe):
            tell_that_somebody_saves(self.datapipe)
        sources = {} if cells is None else self._sources.now()
        epochs = self._epochs if cells is not None else self._between()
        state = LoaderState(epochs, self._stages, cells, for_service, self.step, sources).to_dict()
        return gather(state) if self.state_of_all_ranks else state

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Load the state of another loader of the same graph, before the first element is taken. Loading runs no code.

        An iterator that was made before, and has handed on nothing, is out of date: call ``iter`` again.

        Args:
            state_dict: What the other loader's ``state_dict()`` gave, or what ``gather`` made of those of all ranks.
            strict: Whether, in the middle of an epoch, what the graph was given has to be what it was given then: a
                list that has changed is refused with what differs. False goes on with the one that is here.
        """
        if self._shut_down or (self._session is not None and self._session.asked):
            raise RuntimeError(
                "load_state_dict() comes before the first element, and this loader's iterator has already been asked "
                "for one, or it was shut down; make a new DataLoader2"
            )
        state = LoaderState.from_dict(scatter(state_dict) if is_gathered(state_dict) else state_dict)
        state.must_fit(self._stages, self.reading_service)
        if strict:
            self._sources.must_be(state.sources)
        self._invalidate()
        self._abandon()
        self._service_state = state.service
        if state.service is not None and self._begun:
            self._begin_service_again(state.service)
        epochs = state.epochs.beginning_with(self._epochs.origins)
        if state.cells is not None:
            with ShortInterrupts():
                self._session, self._loaded = self._begin(epochs, state.cells), state.cells
        self._epochs, self._to_come = epochs, None
        self._given = Given()
        self._given.load(state.step)

    def _restore_checkpoint_beginning_of_epoch(self) -> None:
        """Go from where a state was loaded back to the start of its epoch: the next ``iter`` gives all of it again."""
        if self.valid_iterator_id is not None or self._epochs.seed is None:
            raise RuntimeError("load the state of an epoch first, with load_state_dict(), and iterate afterwards")
        self._abandon()
        self._given = Given()
        self._session = self._begin(self._epochs)
        self._loaded = self._session.table()

    @classmethod
    def from_state(
        cls,
        state: dict[str, Any],
        reading_service: ReadingServiceInterface | str | None = None,
        *,
        datapipe: IterDataPipe[T_co] | MapDataPipe[T_co] | Dataset[T_co],
        datapipe_adapter_fn: AdapterFn | Iterable[AdapterFn] | None = None,
        strict: bool = True,
        progress: bool = False,
    ) -> Self:
        """Make a loader that goes on from a saved state.

        The graph is given beside it, because a state is data: torchdata's held a pickled graph, which is code.

        Args:
            state: What the other loader's ``state_dict()`` gave.
            reading_service: Where the graph runs, as for any loader. A state in mid-epoch needs as many ranks and
                workers as it was saved with.
            datapipe: The graph, of the same stages as that of the other loader.
            datapipe_adapter_fn: What changes the loader's copy of the graph, as for any loader.
            strict: As for ``load_state_dict``.
            progress: Whether to show how far each epoch has come, as for any loader: the first one from here on.
        """
        loader = cls(datapipe, datapipe_adapter_fn, reading_service, progress=progress)
        loader.load_state_dict(state, strict)
        return loader

    # -- closing -------------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """End everything that runs for this loader; calling it again does nothing."""
        if self._shut_down:
            return
        self._shut_down = True
        session, service = self._session, self.reading_service
        self._unfinished = session is not None and not session.ended
        if self._unfinished and (iterator := self._current()) is not None:
            iterator.refuse(partial(RuntimeError, SHUT_DOWN))
        with ShortInterrupts(), ExitStack() as closing:
            if service is not None and self._begun:
                if not self._initialized:  # it may lack what its finalize() asks for
                    closing.enter_context(suppress(AttributeError))
                closing.callback(service.finalize)
                closing.callback(service.finalize_iteration)
            if session is not None:
                closing.callback(session.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.shutdown()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # A constructor that raised leaves a loader with nothing to shut down. Where the interpreter is ending, workers
        # were ended before, and modules may be gone already.
        if "_shut_down" in self.__dict__ and not is_finalizing():
            self.shutdown()

    def __getstate__(self) -> dict[str, Any]:
        if self._session is not None:
            raise TypeError(
                "a DataLoader2 that was iterated cannot be pickled or copied; "
                "do so before the first iter(), and save its position with state_dict()"
            )
        return self.__dict__

    def __repr__(self) -> str:
        service = "" if self.reading_service is None else f", reading_service={self.reading_service!r}"
        graph = printed(self.datapipe) if structure.is_pipe(self.datapipe) else repr(self.datapipe)
        return f"{type(self).__name__}({graph}{service})"


def _numbered(datapipe: Any) -> Any:
    """A private copy of a graph, its stages numbered."""
    if _is_map_style_dataset(datapipe):
        datapipe = SequenceWrapper(datapipe, deepcopy=False)
    if not structure.is_pipe(datapipe):
        remedy = "wrap it in IterableWrapper"
        if datapipe is None:
            remedy = "a state holds no graph, so it is needed here"
        elif isinstance(datapipe, list | tuple) and any(map(structure.is_pipe, datapipe)):
            remedy = "load one of these pipes, or put them together first, as in a, b = graph.fork(2); a.zip(b)"
        raise BadArgumentType(
            f"DataLoader2 loads an IterDataPipe or a MapDataPipe, got {type(datapipe).__name__}: {datapipe!r:.80}; "
            f"{remedy}"
        )
    stream = datapipe if structure.is_stream(datapipe) else MapToIterConverter(datapipe)
    return structure.unfold(stream)


def _is_map_style_dataset(value: object) -> bool:
    """Return whether an object is a map-style data set of torch, and no pipe."""
    is_of_torch = isinstance(value, Dataset) and not isinstance(value, IterableDataset)
    return is_of_torch and isinstance(value, Sized) and not structure.is_pipe(value)


def _restore(session: Session, cells: Table) -> None:
    """Open a session at saved positions; raise StateError if they do not fit."""
    try:
        session.iterator()
    except BaseException as error:
        session.close()
        refuse_other_workers(error, session.plan.graph, cells)
        raise
