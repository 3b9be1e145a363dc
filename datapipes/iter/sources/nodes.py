"""NodeWrapper: the elements of a node of ``torchdata.nodes``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements import decode, encode
from datapipes.errors import BadArgumentType, StateError
from datapipes.messages.extras import needed
from datapipes.messages.where import where
from datapipes.operator_support.checks import no_length
from datapipes.position.cells import Cell, count, fields
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@operator
class NodeWrapper(IterDataPipe[T_co]):
    """The elements of a node of ``torchdata.nodes``, which is made for each iteration.

    The position is that of the node itself, so a resume is as exact and as fast as the node's. The stage is not
    sharded: in workers, put ``sharding_filter()`` below it.

    Args:
        make: A function of the number of the epoch that returns a new node. A node is an iterator, which two iterations
            cannot share, and a new one does not know how many epochs there were before.

    >>> from torchdata.nodes import Batcher, IterableWrapper as Rows
    >>> list(NodeWrapper(lambda epoch: Batcher(Rows(range(5)), 2, drop_last=False)).map(sum))
    [1, 5, 4]
    """

    make: Callable[[int], Any]

    def __post_init__(self) -> None:
        nodes = needed("torchdata.nodes", "nodes", "NodeWrapper")
        if isinstance(self.make, nodes.BaseNode) or not callable(self.make):
            raise BadArgumentType(
                "NodeWrapper needs a function of the number of the epoch that returns a node, as in "
                f"NodeWrapper(lambda epoch: node); got {type(self.make).__name__}: {self.make!r:.60}"
            )

    def _open(self, at: Opening) -> Iterator[T_co]:
        return at.cell(_NodeCell).start(self, at.run.number)

    def __len__(self) -> int:
        raise no_length(self)


class _NodeCell(Cell):
    """Position of a node, as the node saves it, and the number of elements that it gave."""

    saves_without_user_code = False

    def __init__(self) -> None:
        self._node: Any = None
        self._saved: dict[str, Any] | None = None
        self._given = 0

    def start(self, pipe: NodeWrapper[Any], epoch: int) -> Iterator[Any]:
        if self._node is None:
            self._node = self._begun(pipe, epoch)
        return self._elements(self._node)

    def _elements(self, node: Any) -> Iterator[Any]:
        for element in node:  # in a generator, which drops the node when it is closed
            self._given += 1
            yield element

    def _begun(self, pipe: NodeWrapper[Any], epoch: int) -> Any:
        node = pipe.make(epoch)
        if not isinstance(node, needed("torchdata.nodes", "nodes", "NodeWrapper").BaseNode):
            raise BadArgumentType(
                f"{where(pipe.make)} returned {type(node).__name__}: {node!r:.60}; it must return a node"
            )
        try:
            node.reset(self._saved)
        except Exception as error:
            if self._saved is None:
                raise
            raise StateError(
                f"{self.label}: its node refuses the saved position: {type(error).__name__}: {error}"
            ) from error
        return node

    def save(self) -> dict[str, Any]:
        own = self._saved if self._node is None else self._node.state_dict()
        return {"given": self.done(), "own": encode(own, what=f"the state of the node of {self.label}")}

    def load(self, saved: Any) -> None:
        given, own = fields(saved, "given", "own")
        state = decode(own, what=f"the state of the node of {self.label}")
        if type(state) is not dict:
            raise StateError(f"own: expected the state of a node, found {type(state).__name__}")
        self._given, self._saved = count(given, "given"), state

    def done(self) -> int:
        return self._given

    def close(self) -> None:
        self._node = None  # its threads end with it
