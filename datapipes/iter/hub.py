"""What the children of one fork, demux or unzip share: the source, and a queue for each reader.

A reader is a child in one place of the graph: a child that is zipped with itself has two, and both get all of it.
Whatever is taken from the source goes to all who are to have it in one step, under a lock, because children may be read
from different threads. An element that could not be made is no exception to that: where every child was to have it, its
error waits in the queues of the other readers, who raise it when they get there, so that those who are read side by
side stay in step; where it was one child's, its error is raised once. In neither case does a child end short.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar

from datapipes.cells import Cell, count, fields
from datapipes.checks import needs
from datapipes.describe import stage
from datapipes.errors import GraphError, StateError
from datapipes.opening import Opening
from datapipes.pipe import IterDataPipe

T_co = TypeVar("T_co", covariant=True)

SPENT: Any = object()
"""What taking an element from a source gives at its end."""


class Hub(IterDataPipe[Any]):
    """The stage that the children of one call share."""

    _hub: ClassVar[bool] = True
    datapipe: IterDataPipe[Any]
    num_instances: int
    buffer_size: int

    def _check(self) -> None:
        needs(self.num_instances >= 1, self, f"Expected `num_instances` larger than 0, got {self.num_instances}")
        if self.buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{self._fluent}`; OOM may occur if one child is read far ahead",
                stacklevel=5,  # whoever called the method
            )

    @property
    def limit(self) -> float:
        """How many elements may wait."""
        return self.buffer_size if self.buffer_size >= 0 else float("inf")

    def _open(self, at: Opening) -> Any:
        return at.cell(Queues).reading(at.source(self.datapipe))


class Child(IterDataPipe[T_co]):
    """One of the streams that come out of a hub."""

    _fluent: ClassVar[str | None] = "fork"

    def __init__(self, main_datapipe: Hub, instance_id: int) -> None:
        self.main_datapipe = main_datapipe
        self.instance_id = instance_id

    def _open(self, at: Opening) -> Iterator[T_co]:
        queues: Queues = at.hub(self.main_datapipe)
        return self._elements(queues, queues.of_reader(at.place, self.instance_id))

    def _elements(self, queues: Queues, mine: deque[Any]) -> Iterator[T_co]:
        """What waits, and then what is taken from the source."""
        raise NotImplementedError(f"{type(self).__name__} has no _elements")


class Lost:
    """Stands in a queue for an element that could not be made."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class Queues(Cell):
    """What waits for each reader, by its place."""

    def __init__(self) -> None:
        self.waiting: dict[int, deque[Any]] = {}
        self.children: dict[int, int] = {}
        self.source: Iterator[Any] = iter(())
        self.lock = threading.Lock()

    def reading(self, source: Iterator[Any]) -> Queues:
        """Take elements from this iterator."""
        self.source = source
        return self

    def of_reader(self, place: int, child: int) -> deque[Any]:
        """What waits for one reader, who reads this child."""
        self.children[place] = child
        return self.waiting.setdefault(place, deque())

    def others(self, mine: deque[Any], child: int | None = None) -> list[deque[Any]]:
        """What waits for the others, or for those who read one child.

        To be asked for together with the first element: by then all readers are there.
        """
        readers = [place for place, read in self.children.items() if child in (None, read)]
        return [self.waiting[place] for place in readers if self.waiting[place] is not mine]

    def overflow(self, hub: Hub) -> BufferError:
        """The error for a child that is read too far ahead of the others."""
        place, queue = max(self.waiting.items(), key=lambda item: len(item[1]))
        return BufferError(
            f"{hub._fluent} buffer overflow: {stage(hub)} keeps up to {hub.buffer_size} elements and {len(queue)} wait "
            f"for child {self.children[place]}; this buffer is insufficient: read the children in step, or give a "
            "larger buffer_size (-1: no limit)"
        )

    def lose(self, error: BaseException, others: list[deque[Any]]) -> None:
        """Leave the error of an element that could not be made for the other children."""
        for queue in others:
            queue.append(Lost(_again(error)))

    def in_step(self) -> bool:
        return not any(self.waiting.values())

    def save(self) -> dict[str, Any] | None:
        if not any(self.waiting.values()):
            return None
        elements = [[place, [x for x in queue if type(x) is not Lost]] for place, queue in self.waiting.items()]
        lost = [
            [place, at, f"{type(x.error).__name__}: {x.error}"]
            for place, queue in self.waiting.items()
            for at, x in enumerate(queue)
            if type(x) is Lost
        ]
        return {"elements": self.pack(elements), "lost": lost}

    def load(self, saved: Any) -> None:
        if saved is None:
            return
        elements, lost = fields(saved, "elements", "lost")
        for entry in self.unpack_list(elements):
            place, queue = _entry(entry, int, list)
            self.waiting[place] = deque(queue)
        for entry in lost if type(lost) is list else [lost]:
            place, at, text = _entry(entry, int, int, str)
            queue = self.waiting.setdefault(place, deque())
            error = GraphError(f"{self.label} could not make an element before its position was saved: {text}")
            queue.insert(count(at, "lost", most=len(queue)), Lost(error))

    def close(self) -> None:
        # Streams among these close by themselves, unless somebody who was given one still reads it.
        for queue in self.waiting.values():
            queue.clear()


def _entry(entry: object, *kinds: type) -> Any:
    if type(entry) is not list or [type(value) for value in entry] != list(kinds):
        raise StateError(f"expected [{', '.join(kind.__name__ for kind in kinds)}], found {entry!r:.80}")
    return entry


def _again(error: BaseException) -> Exception:
    """The same error for another child, made as unpickling makes one, without a call of a user's constructor.

    It is another object, because on its way to the user the first one collects frames that keep the iterator alive.
    """
    if not isinstance(error, Exception):
        return GraphError(f"{type(error).__name__} interrupted the making of this element for another child")
    kind: Any = type(error)
    builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    _, arguments, *state = builtin.__reduce__(error)
    twin: Exception = builtin.__new__(kind, *arguments)
    builtin.__init__(twin, *arguments)
    if state:
        builtin.__setstate__(twin, *state)
    twin.__cause__ = error.__cause__
    return twin.with_traceback(error.__traceback__)
