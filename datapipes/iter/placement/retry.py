"""retry: a source that failed is opened again at its position and asked for the failed element again.

The source is opened in a session of this stage's own. Snapshots of its position are taken within the snapshot budget.
The source is opened again at the last snapshot, and skips what was handed on since. So a retry costs the elements since
the last snapshot. After the last attempt the error is raised, and as everywhere the source continues after the failed
element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from threading import Event
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.description.renamed import renamed
from datapipes.errors import BadArgumentType
from datapipes.operator_support.checks import needs, needs_count, same_length
from datapipes.position.cells import fields
from datapipes.position.inner_session import InnerSessionCell
from datapipes.position.laps import ALONE
from datapipes.position.on_error import ToleratedErrors
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@renamed(times="retries", wait="backoff")
@operator
class Retrier(IterDataPipe[T_co]):
    """The same elements; where a stage above raises, it is opened again at that place, up to ``retries`` times.

    No element is lost or repeated. Attempts are counted for each element that is handed on: after it, there are
    ``retries`` again. All stages above start again, with their connections and open files: elements since the last
    snapshot are made once more and dropped. Each error is counted (``iterator.errors``), and the first one is a
    warning. To call only a function again, ``map(fn, on_error="retry(n)")`` is enough. Put it below a
    ``sharding_filter``: above one, each shard makes all elements.

    Args:
        retries: Number of retries for one element, at least 1.
        on: The exceptions to retry; all others are raised.
        backoff: Seconds before the first retry, doubled before each further one, up to a minute; or a function of the
            number of the retry, which counts from 1.

    >>> from datapipes.iter import IterableWrapper
    >>> failures = [OSError("busy"), OSError("still busy")]
    >>> def fetched(x):
    ...     if x == 2 and failures:
    ...         raise failures.pop()
    ...     return x
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     list(IterableWrapper(range(4)).map(fetched).retry(3, backoff=0))
    [0, 1, 2, 3]
    """

    _fluent: ClassVar[str | None] = "retry"
    _passes_through: ClassVar[bool] = True
    _exclusive_because = ALONE.format("retry()")

    source_datapipe: IterDataPipe[T_co]
    retries: int = 3
    on: type[Exception] | tuple[type[Exception], ...] = OSError
    backoff: float | Callable[[int], float] = 1.0

    def __post_init__(self) -> None:
        needs_count(self, "retries", 1, "retries must be at least 1")
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise BadArgumentType(
                f"on must be an exception class, or a tuple of them, got {self.on!r:.80}, in {stage(self)}"
            )
        needs(
            callable(self.backoff) or 0 <= self.backoff < inf,
            self,
            f"backoff must be in seconds, got {self.backoff!r:.60}",
        )

    def _reads(self) -> tuple[()]:
        return ()

    def _open(self, at: Opening) -> Iterator[T_co]:
        cell = at.cell(lambda: _RetryCell(self))
        cell.begin(at, self.source_datapipe)
        return self._elements(at, cell)

    def _elements(self, at: Opening, cell: _RetryCell) -> Iterator[T_co]:
        attempt = 0
        while True:
            try:
                for element in cell.elements(at, self.source_datapipe):
                    attempt = 0
                    yield element
                return
            except Exception as error:  # an interruption costs no element, and the session handles it
                attempt += 1
                if not isinstance(error, self.on) or attempt > self.retries or not cell.leave():
                    cell.skip_failed_element()
                    raise
                cell.faults.met(error)
            Event().wait(self._pause(attempt))  # a source does not announce when it is ready again

    def _pause(self, attempt: int) -> float:
        first = self.backoff
        return first(attempt) if callable(first) else min(first * 2 ** (attempt - 1), max(first, 60))

    __len__ = same_length


class _RetryCell(InnerSessionCell):
    """Session of the source, and the errors after which it was opened again."""

    faults: ToleratedErrors

    def __init__(self, pipe: IterDataPipe[Any]) -> None:
        super().__init__()
        self.faults = ToleratedErrors(pipe)

    def save(self) -> dict[str, Any]:
        return super().save() | {"errors": self.faults.save()}

    def load(self, saved: Any) -> None:
        inside, since, errors = fields(saved, "inside", "since", "errors")
        super().load({"inside": inside, "since": since})
        self.faults.load(errors)
