"""Reading ahead over files: the next files are begun before their turn, so that the latency of a server is hidden.

Each file has a thread that opens it and reads up to its share of ``ahead_bytes``. The rest of a body is read at its
turn; if the server has closed the connection meanwhile, it is resumed. An error is raised at the turn of its file. The
position has the URLs of the files that are ahead, and nothing of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from threading import Event
from typing import Any, TypeVar

from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe
from datapipes.io.remote.body import remote_file
from datapipes.io.remote.transfer import waits_end_with
from datapipes.messages.daemon_threads import DaemonThreads
from datapipes.operator_support.checks import needs_count
from datapipes.operator_support.task_queue import Task, TaskQueueCell
from datapipes.position.on_error import OnError
from datapipes.position.opening import Opening
from datapipes.position.position_history import saved_waiting
from datapipes.position.steps import Step

T_co = TypeVar("T_co", covariant=True)

MOST_BYTES_AHEAD = 64 * 2**20


class ReadsAhead(IterDataPipe[T_co]):
    """Base of the stages with ``ahead`` and ``ahead_bytes``. A subclass implements ``_opener``."""

    source_datapipe: Any
    on_error: OnError
    ahead: int
    ahead_bytes: int

    def check_ahead(self) -> None:
        """Raise an error for numbers that are not whole, or below zero."""
        needs_count(self, "ahead", 0, "'ahead' is required to be a number of files, 0 or more")
        needs_count(self, "ahead_bytes", 0, "'ahead_bytes' is required to be a number of bytes, 0 or more")

    def _opener(self) -> Callable[[Any], Any]:
        raise NotImplementedError(f"{type(self).__name__} has no _opener")

    @property
    def scheduled_tasks(self) -> int:
        """Number of files that are begun before their turn."""
        return self.ahead

    def pool(self) -> DaemonThreads:
        """Return new threads for this stage."""
        return DaemonThreads(self.ahead + 1, "ahead")

    def call(self) -> Callable[[Any], Any]:
        """Return the function that opens a file."""
        return self._opener()

    def loader(self) -> Callable[[Any], Any] | None:
        """Return a function of an opened element that returns it with the whole file in memory. None: files stay open.

        It is called at the turn of the file.
        """
        return None

    @property
    def _commutes(self) -> bool:  # type: ignore[override]  # it depends on a parameter
        return self.ahead > 0

    @property
    def _prefetches(self) -> bool:  # type: ignore[override]  # it depends on a parameter
        return self.ahead > 0

    def _step(self) -> Step | None:
        return None if self.ahead else Step("map", self._opener())

    def _open(self, at: Opening) -> Iterator[T_co]:
        return self._elements(at.cell(partial(AheadCell, self)).elements(at.source(self.source_datapipe), at))

    def _elements(self, elements: Iterator[T_co]) -> Iterator[T_co]:
        yield from elements  # errors find their stage by the `self` of this frame

    def _indexed(self) -> Indexed | None:
        source = indexed(self.source_datapipe) if self.ahead else None
        return None if source is None else source.giving(partial(self._made_of, self._opener(), source.at))


class AheadCell(TaskQueueCell):
    """Files that are begun before their turn."""

    def __init__(self, pipe: ReadsAhead[Any]) -> None:
        super().__init__(pipe)
        self._load = pipe.loader()
        self._part = pipe.ahead_bytes // pipe.ahead
        self._turns: dict[int, Event] = {}  # by the number of the task
        self._ended = Event()  # set when the session ends

    def _function(self, task: Task) -> Callable[[Any], Any]:
        turn = self._turns[task.number] = Event()
        if not task.number:  # repeated at its turn
            turn.set()
        return partial(self._opened, turn)

    def _opened(self, turn: Event, element: Any) -> Any:
        with waits_end_with(self._ended):
            opened = self._fn(element)
            file = remote_file(opened[1])
            is_whole = file is None or file.read_ahead(self._part)
            if self._load is None:
                return opened
            if not is_whole:
                turn.wait()
            return self._load(opened)

    def first(self) -> tuple[Any, int]:
        if (turn := self._turns.pop(self.tasks[0].number, None)) is not None:
            turn.set()
        return super().first()

    def _ahead_as_data(self) -> bytes | None:
        self._origin.must_be_here("the elements ahead")
        waiting = (task.element_as_data() if task.own else task.wait()[0] for task in self.tasks)
        return saved_waiting(self, waiting)

    def close(self) -> None:
        self._ended.set()
        for turn in self._turns.values():
            turn.set()
        super().close()
