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
    """The elements of a graph of pipes as a node, for ``torchdata.nodes.Loader`` or as the input of other nodes.

    Each ``reset()`` begins another epoch, as ``iter`` of a ``DataLoader2`` does. ``reset(state)`` resumes exactly. Its
    workers end with ``shutdown()``, or with the node.

    Args:
        datapipe: The graph, by its last stage. The node makes a copy of it.
        reading_service: The service that runs the graph, as for a ``DataLoader2``.
        seed: The seed of the first epoch and, by it, of the later ones. ``None``: each epoch draws its own.

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
        self._datapipe = self._loader.datapipe  # the loader's own copy, which does not change before it begins
        self._elements: DataLoader2Iterator[T] | None = None  # None at the end of an epoch
        if seed is not None:
            self._loader.seed(seed)

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """Begin another epoch, or resume.

        Args:
            initial_state: The ``state_dict()`` of such a node. ``None``: another epoch.
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
        """Return the next element. Raise StopIteration at the end of the epoch."""
        if self._elements is not None:
            for element in self._elements:
                return element
            self._elements = None
        raise StopIteration

    def get_state(self) -> dict[str, Any]:
        """Return the position as plain data: after the last element, and whether the end of the epoch was raised."""
        return {"loader": self._loader.state_dict(), "is_over": self._elements is None}

    def shutdown(self) -> None:
        """End the workers of this node."""
        self._loader.shutdown()
