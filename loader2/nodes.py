"""PipeNode: a graph of pipes as a node of ``torchdata.nodes``, with state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from datapipes.messages.extras import needed
from datapipes.position.cells import fields
from datapipes.position.plain_data import check
from loader2.iteration import DataLoader2Iterator
from loader2.loader import DataLoader2
from reading_services.interface.service import ReadingServiceInterface

if TYPE_CHECKING:
    from torchdata.nodes import BaseNode
else:
    BaseNode = needed("torchdata.nodes", "nodes").BaseNode

__all__ = ["PipeNode"]

T = TypeVar("T")


class PipeNode(BaseNode[T]):  # type: ignore[misc]  # torchdata comes without types
    """The elements of a graph of pipes as a node, for ``torchdata.nodes.Loader`` or as the source of other nodes.

    Each ``reset()`` begins another epoch, as ``iter`` of a ``DataLoader2`` does; ``reset(state)`` goes on from a state,
    exactly. What runs for it ends with ``shutdown()``, or with the node.

    Args:
        datapipe: The graph, by its last stage. The node has a copy of its own.
        reading_service: Where the graph runs, as for any loader.
        seed: The seed of the first epoch; later ones go on from there. ``None``: each epoch draws its own.

    >>> from torchdata.nodes import Batcher, Loader
    >>> from datapipes.iter import IterableWrapper
    >>> def load():
    ...     return Loader(Batcher(PipeNode(IterableWrapper(range(6)).shuffle(), seed=1), batch_size=2))
    >>> loader, again = load(), load()
    >>> iterator = iter(loader)
    >>> first = next(iterator)
    >>> again.load_state_dict(loader.state_dict())
    >>> list(again) == list(iterator)
    True
    """

    def __init__(
        self, datapipe: Any, reading_service: ReadingServiceInterface | None = None, seed: int | None = None
    ) -> None:
        super().__init__()
        self._service = reading_service
        self._loader: DataLoader2[T] = DataLoader2(datapipe, reading_service=reading_service)
        self._datapipe = self._loader.datapipe  # as a loader's own copy, which is never changed before it begins
        self._elements: DataLoader2Iterator[T] | None = None  # none at the end of an epoch
        if seed is not None:
            self._loader.seed(seed)

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """Begin another epoch, or go on from a state.

        Args:
            initial_state: What ``state_dict()`` of such a node gave. ``None``: another epoch.
        """
        super().reset(initial_state)
        is_over = False
        if initial_state is not None:
            state, is_over = fields(initial_state, "loader", "is_over")
            ended = type(state) is dict and state.get("status") == "finished"
            check(type(is_over) is bool and is_over == ended, "is_over", f"{ended}, as the loader says", is_over)
            self._loader.shutdown()
            self._loader = DataLoader2(self._datapipe, reading_service=self._service)
            self._loader.load_state_dict(state)
        self._elements = None if is_over else iter(self._loader)

    def next(self) -> T:
        """The next element."""
        if self._elements is not None:
            for element in self._elements:
                return element
            self._elements = None
        raise StopIteration

    def get_state(self) -> dict[str, Any]:
        """The position, as plain data: after the last element, and whether the end of the epoch was told."""
        return {"loader": self._loader.state_dict(), "is_over": self._elements is None}

    def shutdown(self) -> None:
        """End what runs for this node."""
        self._loader.shutdown()
