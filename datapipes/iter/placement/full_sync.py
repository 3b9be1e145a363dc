"""fullsync: every rank of a process group gives as many elements as the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, TypeVar

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe, RemoteGraph, operator
from datapipes.errors import GraphError
from datapipes.graph.settings import apply_sharding
from datapipes.iter.elements.numbering import Header, LengthSetter
from datapipes.iter.placement.pausing import Pausable
from datapipes.iter.placement.shard import as_opened
from datapipes.iter.sources.wrapper import IterableWrapper
from datapipes.operator_support.checks import needs, no_length, same_length
from datapipes.position.cells import Table
from datapipes.position.opening import Opening
from datapipes.position.session import Session
from datapipes.ranks.exchange import Exchange
from datapipes.ranks.synchronized import RankCell
from datapipes.ranks.topics import POLICIES, Uneven
from datapipes.sharding.group import here
from datapipes.sharding.sharding import SHARDING_PRIORITIES

T_co = TypeVar("T_co", covariant=True)

_HONEST = (range, list, tuple, dict, set, frozenset, str, bytes)
"""Types whose ``len`` is exactly the number of their elements."""


@operator
class FullSync(Pausable, IterDataPipe[T_co]):
    """The same elements, as many as on every other rank; by default as many as the rank with the fewest has.

    A rank that dies, fails or leaves is an error on all others. The stage belongs into the process that trains, so it
    is not replicated to workers. Without a process group there is one rank, and the elements pass through.

    Args:
        timeout: Seconds without a message from a rank before a ``PrefetchTimeoutError``.
        uneven: Policy for elements that some ranks have after others have ended: ``"drop"`` leaves them out,
            ``"pad"`` gives ``reading_services.PADDING`` on ranks that have ended, ``"repeat"`` starts such a rank's own
            elements again, ``"error"`` raises ``UnevenRanks``.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(3)).sharding_filter().fullsync())
    [0, 1, 2]
    """

    _fluent: ClassVar[str | None] = "fullsync"

    datapipe: IterDataPipe[T_co]

    def __init__(self, datapipe: IterDataPipe[T_co], timeout: float = 1800, *, uneven: Uneven = "drop") -> None:
        self.datapipe = datapipe
        self._timeout = timeout  # `timeout` is a method
        self.uneven: Uneven = uneven
        self.exchange: Exchange | None = None
        """The exchange of a service; without one, each opening makes its own."""
        needs(timeout > 0, self, f"timeout={timeout}: expected seconds above 0")
        needs(
            self.uneven in POLICIES, self, f"uneven={self.uneven!r}: expected one of {', '.join(map(repr, POLICIES))}"
        )

    def is_replicable(self) -> bool:
        """Return False: ranks are synchronized, not workers."""
        return False

    def _open(self, at: Opening) -> Iterator[T_co]:
        rank, world = here()
        if world == 1:
            return at.source(self.datapipe)
        mark = at.mark()
        length = exact_length(as_opened(self.datapipe, at.run))
        step = at.cell(lambda: RankCell(self.uneven, self._timeout, self.exchange, length, rank))
        laps = self._laps(at) if self.uneven == "repeat" else None
        return step.elements(at.source(self.datapipe), mark, laps, at.is_last())

    def _laps(self, at: Opening) -> Callable[[int, Table | None], Session]:
        if not at.is_private():
            raise GraphError(
                f"{self!r} reads one child of a fork, demux or unzip again while another part of the graph reads "
                "its sibling, which cannot go back: put fullsync() above the fork"
            )

        def lap_of(lap: int, saved: Table | None) -> Session:
            return at.session(at.untouched().datapipe, at.run.next_lap(lap), saved)

        return lap_of

    def __len__(self) -> int:
        world = here()[1]
        if world == 1:
            return same_length(self)
        if self.exchange is None or exact_length(self.datapipe) is None:  # the sharding of the ranks is unknown
            raise no_length(self)
        return len(decisive(self.datapipe, world, self.uneven))


def decisive(graph: structure.Pipe, world: int, uneven: Uneven) -> structure.Pipe:
    """Return the graph of the rank that decides the length of all: the last has the fewest elements, the first most."""
    rank = world - 1 if uneven == "drop" else 0
    graph = apply_sharding(structure.unfold(graph), world, rank, SHARDING_PRIORITIES.DISTRIBUTED)
    for stage in structure.walk(graph):
        if isinstance(stage, RemoteGraph):
            stage.graph = decisive(stage.graph, world, uneven)
    return graph


def _counts(stage: structure.Pipe) -> bool:
    """Return whether a stage of another package declares that its length is exact."""
    return getattr(stage, "counts_exactly", False) is True


def exact_length(graph: structure.Pipe) -> int | None:
    """Return the length of a graph if it is certain, except for elements that raise; otherwise None."""
    for stage in structure.walk(graph):
        if isinstance(stage, RemoteGraph):
            if exact_length(stage.graph) is None:
                return None
        elif isinstance(stage, LengthSetter) or not (type(stage).__module__.startswith("datapipes.") or _counts(stage)):
            return None
        if isinstance(stage, IterableWrapper) and type(stage.iterable) not in _HONEST:
            return None
        if isinstance(stage, Header) and exact_length(stage.source_datapipe) is None:
            return None  # its ``len`` is the limit, but there may be fewer elements
    try:
        return len(graph)
    except TypeError:
        return None
