"""DataLoader2: a graph, the service that runs it, and the epoch.

The loader works on a copy of the graph whose stages are numbered. Seeds and positions are bound to these numbers, so
adapters and services may rewrite the copy. The user's graph is never changed. The loader owns the session of the epoch,
which ends with the epoch, with the next ``iter``, with ``shutdown`` or with the loader.

=======  ==============================  =======  =======  =====  =========  ==========  ===============  ========
phase    meaning                         iter     next     seed   set_epoch  state_dict  load_state_dict  shutdown
=======  ==============================  =======  =======  =====  =========  ==========  ===============  ========
NEW      no epoch is open                opens    refused  later  later      between     loads            CLOSED
READY    open, no element was asked for  stays    gives    later  moves      position    loads            CUT
RUNNING  an element was asked for        opens    gives    later  later      position    refused          CUT
ENDED    the stream has ended            opens    ends     later  later      between     refused          CLOSED
CLOSED   shut down outside an epoch      refused  ends     later  later      between     refused          CLOSED
CUT      shut down in mid-epoch          refused  refused  later  later      refused     refused          CUT
=======  ==============================  =======  =======  =====  =========  ==========  ===============  ========

``opens``: opens the next epoch: READY. ``stays``: stays in this epoch. If ``seed`` was called in it and no state was
loaded, it opens the next epoch instead. ``gives``: gives an element: RUNNING, or meets the end: ENDED. ``later``: takes
effect in the next epoch. ``moves``: opens the given epoch. If a state was loaded, only a later epoch is opened.
``between``: returns a state without positions. ``loads``: READY for a state with positions, otherwise NEW.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Sized
from contextlib import ExitStack, nullcontext
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Never, Self, TypeVar

from torch.utils.data import Dataset, IterableDataset

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe, MapDataPipe
from datapipes.description.printing import chain as printed
from datapipes.errors import BadArgument, BadArgumentType, LengthUnknown
from datapipes.iter import MapToIterConverter
from datapipes.map import SequenceWrapper
from datapipes.messages.interrupts import ShortInterrupts
from datapipes.operator_support.checks import explained, length_of
from datapipes.position import own_generators
from datapipes.position.cells import CountCell, Table
from datapipes.position.session import Session
from datapipes.sharding.group import ranks
from loader2.adapters import AdapterFn, adapted, listed
from loader2.epochs import Epochs
from loader2.iteration import SHUT_DOWN, DataLoader2Iterator, Position, replaced
from loader2.random import checked_seed
from loader2.rank_states import gather, is_gathered, scatter
from loader2.service_run import ServiceRun
from loader2.state import LoaderState, stages_of
from loader2.torch_arguments import refused
from reading_services import ReadingServiceInterface

if TYPE_CHECKING:
    from loader2.progress import Progress

T_co = TypeVar("T_co", covariant=True)

LoaderPhase = Enum("LoaderPhase", "NEW READY RUNNING ENDED CLOSED CUT")


class DataLoader2(Generic[T_co]):
    """Loader of a graph of pipes, epoch by epoch. Its position can be saved after each element.

    Args:
        datapipe: The graph, given by its last stage. Of a map-style pipe or a map-style ``Dataset`` of torch, the
            elements at 0, 1, 2 ... are loaded. The loader works on a copy of the graph, and never changes yours.
        datapipe_adapter_fn: A function that takes the loader's graph and returns the one to use, such as those in
            ``loader2.adapters``; or several functions, called in this order. ``None``: the graph stays as it is.
        reading_service: The service that runs the graph; the loader makes its own copy. A text names a service of this
            library or of an installed plugin: ``"multi_process(num_workers=2)"``. ``None``: the graph runs in this
            process, as the loop asks for elements.
        progress: Whether to show the progress of each epoch on stderr: a bar in a terminal or a notebook, a line now
            and then in a log. Of several ranks, only the first one shows it.

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
    """Whether a state that is saved after ``len(dl)`` elements is a state between two epochs.

    Set it for a loop that takes exactly ``len(dl)`` elements, and does not call ``set_epoch``. By default, such a state
    is one in mid-epoch: the first epoch of the resumed loader is the rest of the saved one, which has no elements.
    """

    state_of_all_ranks: bool = False
    """Whether ``state_dict()`` gathers the states of all ranks, as ``gather`` does. Then all ranks have to call it.

    Set it for trainers that keep one rank's state for all: Lightning, Accelerate, ``torch.distributed.checkpoint``.
    """

    batch_sampler: ClassVar[None] = None
    """None, as in torch's loaders of batched data. Trainers look here before they use ``sampler``."""

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
        stages = structure.walk(adapted(_numbered(datapipe), self.datapipe_adapter_fns or ()))
        self._service = ServiceRun(stages, reading_service)
        self._stages = stages_of(stages)
        self._epochs = Epochs(origins=own_generators.origins_of(stages))
        self._next_epoch: int | None = None  # the number that set_epoch() has set for the next epoch
        self._session: Session | None = None  # the position in the epoch under way, or in the last one
        self._loaded: Table | None = None  # the positions at which the session was opened, if a state was loaded
        self._given = CountCell()  # the number of elements of the epoch that were handed on
        self._newest: weakref.ref[DataLoader2Iterator[T_co]] | None = None
        self._closed_in: LoaderPhase | None = None  # the phase that shutdown() found

    @property
    def phase(self) -> LoaderPhase:
        """Phase of the loader. The table at the head of ``loader2/loader.py`` says what each call does in it."""
        session, phase = self._session, self._closed_in
        if phase is not None:
            return LoaderPhase.CUT if phase in (LoaderPhase.READY, LoaderPhase.RUNNING) else LoaderPhase.CLOSED
        if session is None:
            return LoaderPhase.NEW
        return LoaderPhase.ENDED if session.ended else LoaderPhase.RUNNING if session.asked else LoaderPhase.READY

    @property
    def datapipe(self) -> Any:
        """The loader's own copy of the graph, as the adapters and the reading service have changed it."""
        return self._service.graph

    @property
    def reading_service(self) -> ReadingServiceInterface | None:
        """The loader's own copy of the reading service."""
        return self._service.service

    # -- iterating -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> DataLoader2Iterator[T_co]:
        iterator = DataLoader2Iterator.begin(self)
        with ShortInterrupts():
            self._go_on_with(iterator)
        return iterator

    def _go_on_with(self, iterator: DataLoader2Iterator[T_co]) -> None:
        """Make an iterator the newest one, in the open epoch or in the next one."""
        if self._closed_in is not None:
            raise RuntimeError("this DataLoader2 has already been shut down; make a new one to go on")
        self._invalidate()
        if self.phase is not LoaderPhase.READY or (self._epochs.pending is not None and self._loaded is None):
            self._follow()
        elif self._loaded is not None:
            self._epochs = self._epochs.resumed()
        self._newest = weakref.ref(iterator)
        self.valid_iterator_id = 0 if self.valid_iterator_id is None else self.valid_iterator_id + 1

    def _position(self) -> Position:
        """Return the position for the newest iterator, at its first element. Before that, the epoch may change."""
        assert self._session is not None  # its iterator was made with one
        return self._session, self._given, self._shown(self._session) or nullcontext()

    def _follow(self) -> None:
        """Leave the epoch under way, and open the next one."""
        self._abandon()
        epochs = self._between().following()
        self._session = session = self._service.open(epochs, None, self.progress)
        self._epochs, self._given, self._next_epoch = epochs.agreed(session.run), CountCell(), None

    def _between(self) -> Epochs:
        """Return the epochs from which the next epoch follows."""
        return self._epochs if self._next_epoch is None else self._epochs.before(self._next_epoch)

    def _shown(self, session: Session) -> Progress | None:
        """Return the display of the epoch's progress. Return None if this loader shows none."""
        if not self.progress or ranks().rank:
            return None
        from loader2.progress import Progress, length_if_known

        return Progress(f"epoch {self.epoch}", self._given, session, length_if_known(self))

    def _current(self) -> DataLoader2Iterator[T_co] | None:
        """Return the newest iterator. Return None if it was dropped."""
        return None if self._newest is None else self._newest()

    def _invalidate(self) -> None:
        if (iterator := self._current()) is not None:
            iterator.refuse(partial(replaced, self._service))

    def _abandon(self) -> None:
        session, self._session, self._loaded, self._service.foreign = self._session, None, None, None
        if session is not None:
            session.close()

    def seed(self, seed: int) -> None:
        """Set the seed of the next epoch. The epochs after it follow from this seed, too, each with another order.

        Without a seed, each epoch draws one from torch's default generator when it begins.

        Args:
            seed: A number from 0 to ``2**64 - 1``.
        """
        self._epochs = self._epochs.then(checked_seed(seed))

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, as trainers do that count epochs themselves.

        The order of that epoch follows from the seed and the number, and not from the epochs before. Without a seed,
        each epoch draws one as usual, and the number only sets ``dl.epoch``. An iterator that has given no element yet
        moves to that epoch. An epoch that has given elements goes on. An epoch that a state has loaded goes on, too,
        unless the number is larger than its own.

        Args:
            epoch: The number of the epoch, from 0.

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
        epochs, is_ready = self._epochs, self.phase is LoaderPhase.READY
        if is_ready:
            if epoch <= epochs.begun if self._loaded is not None else (epochs.number, epochs.begun) == (epoch, epoch):
                return
            self._abandon()
        self._next_epoch = epoch
        if is_ready and self._current() is not None:
            with ShortInterrupts():
                self._follow()

    @property
    def sampler(self) -> Self:
        """The loader itself, because trainers call ``set_epoch`` of the sampler."""
        return self

    @property
    def dataset(self) -> Never:
        """No attribute: an AttributeError for functions that take torch's loaders apart."""
        raise AttributeError(
            "a DataLoader2 has a graph (dl.datapipe) and no dataset, so functions that take torch's DataLoader apart, "
            "such as Accelerate's skip_first_batches, cannot use it. To go on in mid-epoch, call "
            "dl.load_state_dict(state); with transformers, also set TrainingArguments(ignore_data_skip=True). "
            "itertools.islice skips elements"
        )

    @property
    def epoch(self) -> int:
        """Number of the epoch under way, or of the last one, from 0. The epochs before a saved state count, too.

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
        """Number of elements of this epoch that were handed on, including those before a saved position."""
        return self._given.given()

    def __len__(self) -> int:
        try:
            return length_of(self._service.planned())
        except TypeError as error:
            message = f"the length of this DataLoader2 is not known beforehand: {error}"
            raise LengthUnknown(message, getattr(error, "stage", "")) from None

    # -- pausing -------------------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        """End the loop under way at its next element."""
        if (iterator := self._paused_by("_pause()")) is not None:
            iterator.pause()

    def _resume(self) -> None:
        """Continue after ``_pause``."""
        if (iterator := self._paused_by("_resume()")) is not None:
            iterator.resume()

    def _limit(self, num_batches: int | None) -> None:
        """Pause after ``num_batches`` more elements."""
        if (iterator := self._paused_by(f"_limit({num_batches})")) is not None:
            iterator.limit(num_batches)

    def _paused_by(self, call: str) -> DataLoader2Iterator[T_co] | None:
        iterator = self._current()
        if iterator is None:
            warnings.warn(f"{call} has no effect: this DataLoader2 has no iterator; call iter() first", stacklevel=3)
        return iterator

    @property
    def errors(self) -> dict[str, int]:
        """Number of errors that stages with an ``on_error`` tolerated in this epoch, by the stage as it prints."""
        return {} if self._session is None else self._session.errors()

    # -- saving --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last element that was handed on, as plain data."""
        if self.phase is LoaderPhase.CUT:
            raise RuntimeError(
                "this DataLoader2 has already been shut down, in the middle of an epoch, and its position is gone: "
                "call state_dict() before shutdown(), or inside the `with` block"
            )
        session = self._session
        if session is None or session.ended or (self.ends_at_length and self.step and self.step == len(self)):
            cells = None
        else:
            cells = session.table() if session.asked or self._loaded is None else self._loaded
        for_service = self._service.state()
        if session is not None:
            self._service.announce_saving()
        sources = {} if cells is None else self._service.sources.now()
        epochs = self._epochs if cells is not None else self._between()
        state = LoaderState(epochs, self._stages, cells, for_service, self.step, sources).to_dict()
        return gather(state) if self.state_of_all_ranks else state

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Load the state of another loader of the same graph, before the first element is taken. Loading runs no code.

        An iterator that was made before is out of date afterwards: call ``iter`` again.

        Args:
            state_dict: The result of the other loader's ``state_dict()``, or of ``gather`` for the states of all ranks.
            strict: Whether to refuse a state in mid-epoch if the elements that the graph is given have changed, such as
                those of a list. The error says what differs. False: go on with the elements that are here.
        """
        if self.phase not in (LoaderPhase.NEW, LoaderPhase.READY):
            raise RuntimeError(
                "load_state_dict() comes before the first element, and this loader's iterator has already been asked "
                "for one, or it was shut down; make a new DataLoader2"
            )
        state = LoaderState.from_dict(scatter(state_dict) if is_gathered(state_dict) else state_dict)
        state.must_fit(self._stages, self.reading_service)
        if strict:
            self._service.sources.must_be(state.sources)
        self._invalidate()
        self._abandon()
        self._service.load(state.service)
        epochs = state.epochs.beginning_with(self._epochs.origins)
        if state.cells is not None:
            with ShortInterrupts():
                self._session = self._service.open(epochs, state.cells, self.progress)
                self._loaded = state.cells
        self._epochs, self._next_epoch, self._given = epochs, None, CountCell()
        self._given.load(state.step)

    def _restore_checkpoint_beginning_of_epoch(self) -> None:
        """Go back from a loaded state to the start of its epoch. The next ``iter`` gives the whole epoch."""
        if self.valid_iterator_id is not None or self._epochs.seed is None:
            raise RuntimeError("load the state of an epoch first, with load_state_dict(), and iterate afterwards")
        self._abandon()
        self._given = CountCell()
        self._session = self._service.open(self._epochs, None, self.progress)
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
        """Make a loader that continues from a saved state.

        A state is data and contains no graph, so the graph is an argument.

        Args:
            state: The result of the other loader's ``state_dict()``.
            reading_service: The service that runs the graph, as for any loader. A state in mid-epoch needs as many
                ranks and workers as it was saved with.
            datapipe: The graph, with the same stages as the other loader's.
            datapipe_adapter_fn: One or several functions that change the loader's copy, as for any loader.
            strict: As for ``load_state_dict``.
            progress: Whether to show the progress of each epoch, as for any loader, from the saved position on.
        """
        loader = cls(datapipe, datapipe_adapter_fn, reading_service, progress=progress)
        loader.load_state_dict(state, strict)
        return loader

    # -- closing -------------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """End everything that runs for this loader. A second call does nothing."""
        if self._closed_in is not None:
            return
        self._closed_in = self.phase
        if self.phase is LoaderPhase.CUT and (iterator := self._current()) is not None:
            iterator.refuse(partial(RuntimeError, SHUT_DOWN))
        with ShortInterrupts(), ExitStack() as closing:
            closing.callback(self._service.finalize)
            if self._session is not None:
                closing.callback(self._session.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.shutdown()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # If the constructor raised, there is nothing to shut down. At the end of the interpreter, the workers have
        # ended already, and modules may be gone.
        if "_closed_in" in self.__dict__ and not is_finalizing():
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
    """Return a private copy of a graph, with numbered stages."""
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
    """Return whether an object is a map-style data set of torch and no pipe."""
    is_of_torch = isinstance(value, Dataset) and not isinstance(value, IterableDataset)
    return is_of_torch and isinstance(value, Sized) and not structure.is_pipe(value)
