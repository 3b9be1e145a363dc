"""drop, slice, flatten: select or unpack columns of each element, in a container of its kind.

A tuple becomes a plain tuple, a list a plain list, a dict a plain dict; the element itself is not changed. If a stage
cannot apply to an element (a missing column, or no container), it warns and hands the element on as far as it can. An
opening gives each warning once: all elements of a stream may need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.messages.warnings import warn
from datapipes.operator_support.checks import same_length
from datapipes.position.on_error import Tolerant
from datapipes.position.steps import Step

_SEQUENCES = (tuple, list)
_PLANNED = 64
"""The positions to take are computed once for each length, for elements up to this length."""

_MOST_WARNINGS = 20
"""Most warnings in one opening."""

Select = Callable[[Any], Any]
ColumnPlan = tuple[list[int], list[Any]]
"""The positions to take, and the missing columns."""


class _ColumnOperator(IterDataPipe[Any]):
    """Base of stages that select columns by a function, which reports to a ``_Warner``."""

    datapipe: IterDataPipe[Any]

    def _selecting(self, warner: _Warner) -> Select:
        """Return the function that selects columns of an element."""
        raise NotImplementedError(f"{type(self).__name__} has no _selecting")

    def _step(self) -> Step:
        return Step("map", self._selecting(_Warner(self)))

    def _by_position(self, plan_for: Callable[[int], ColumnPlan], warner: _Warner) -> Select:
        """Return a function that takes the positions planned for the length of a tuple or list."""
        plans: dict[int, ColumnPlan] = {}

        def select(element: Any) -> Any:
            length = len(element)
            plan = plans.get(length)
            if plan is None:
                plan = plan_for(length)
                if length <= _PLANNED:
                    plans[length] = plan
            positions, missing = plan
            if missing:
                warner.warn_of_missing(missing, element)
            return _alike(element, [element[i] for i in positions])

        return select

    __len__ = same_length


class _Warner:
    """Giver of each warning of a stage once in an opening."""

    def __init__(self, pipe: _ColumnOperator) -> None:
        self._pipe = pipe
        self._said: set[str] = set()

    def warn_of_missing(self, missing: list[Any], element: Any) -> None:
        """Warn of columns that the element does not have, if there are any."""
        if missing:
            self.warn(f"the columns {missing} are not in this {type(element).__name__}", element)

    def warn(self, what: str, element: Any) -> None:
        """Give a warning, unless it was given before."""
        if what not in self._said and len(self._said) < _MOST_WARNINGS:
            self._said.add(what)
            text = f"{stage(self._pipe)}: {what}: {element!r:.80} (only the first such element is reported)"
            warn(text)


@operator
class Dropper(_ColumnOperator):
    """The elements without some of their columns.

    Args:
        indices: The columns to leave out: one position or key, or a list of them; a tuple is one key. Positions count
            from 0; a negative one has no effect.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a", 1, 2.0), ("b", 3, 4.0)]).drop([0, 2]))
    [(1,), (3,)]
    """

    _fluent: ClassVar[str | None] = "drop"

    datapipe: IterDataPipe[Any]
    indices: Any

    def _selecting(self, warner: _Warner) -> Select:
        dropped = _listed(self.indices)
        of_sequence = self._by_position(
            lambda length: ([i for i in range(length) if i not in dropped], _missing(dropped, length)), warner
        )

        def select(element: Any) -> Any:
            if isinstance(element, _SEQUENCES):
                return of_sequence(element)
            if isinstance(element, dict):
                warner.warn_of_missing([key for key in dropped if key not in element], element)
                return {key: value for key, value in element.items() if key not in dropped}
            warner.warn(f"nothing can be dropped from an element of type {type(element).__name__}", element)
            return element

        return select


@operator
class Slicer(_ColumnOperator):
    """A part of each element: ``element[index:stop:step]``, or the columns in a list.

    They keep the element's own order.

    Args:
        index: The position where the part begins; or, as a list, the positions or keys to take. For a dict, a single
            one is a key. Negative positions in a list count from the end.
        stop: The position before which the part ends. ``None``: at the end of the element. For dicts, and beside a list
            with a warning, it is ignored, as is ``step``.
        step: The distance between two positions to take. ``None``: 1.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([(1, 2, 3), (4, 5, 6)]).slice(1))
    [(2, 3), (5, 6)]
    >>> list(IterableWrapper([{"x": 1, "y": 2, "z": 3}]).slice(["z", "x"]))
    [{'x': 1, 'z': 3}]
    """

    _fluent: ClassVar[str | None] = "slice"

    datapipe: IterDataPipe[Any]
    index: Any
    stop: int | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.index, list) and (self.stop is not None or self.step is not None):
            warn(f"A list of indices was given together with `stop` or `step`, which are ignored, in {stage(self)}")

    def _selecting(self, warner: _Warner) -> Select:
        by_list, index = isinstance(self.index, list), self.index
        part = slice(None) if by_list else slice(index, self.stop, self.step)
        of_sequence = self._by_position(self._plan, warner)

        def select(element: Any) -> Any:
            if isinstance(element, _SEQUENCES):
                return of_sequence(element) if by_list else _alike(element, element[part])
            if isinstance(element, dict):
                wanted = _listed(index)
                missing = [key for key in wanted if key not in element]
                warner.warn_of_missing(missing, element)
                nothing_there = missing and not by_list
                return element if nothing_there else {key: value for key, value in element.items() if key in wanted}
            warner.warn(f"no part can be taken of an element of type {type(element).__name__}", element)
            return element

        return select

    def _plan(self, length: int) -> ColumnPlan:
        wanted = {i + length if isinstance(i, int) and i < 0 else i for i in self.index}
        return [i for i in range(length) if i in wanted], _missing(self.index, length)


@operator
class Flattener(Tolerant, _ColumnOperator):
    """Each element with its inner containers unpacked, one level: lists and tuples, and in a dict the dicts.

    In a dict, a key that the element already has keeps its value, with a warning.

    Args:
        indices: The positions, counted from 0, or the keys of the containers, one or a list. ``None``: all of them.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([(1, (2, 3)), ("ab", [4])]).flatten())
    [(1, 2, 3), ('ab', 4)]
    >>> list(IterableWrapper([{"x": 1, "more": {"y": 2}}]).flatten("more"))
    [{'x': 1, 'y': 2}]
    """

    _fluent: ClassVar[str | None] = "flatten"

    datapipe: IterDataPipe[Any]
    indices: Any = None

    def _selecting(self, warner: _Warner) -> Select:
        chosen = None if self.indices is None else _listed(self.indices)

        def select(element: Any) -> Any:
            if isinstance(element, dict):
                return _merged(element, chosen, warner)
            element = element if isinstance(element, _SEQUENCES) else list(element)
            flat: list[Any] = []
            for i, value in enumerate(element):
                if isinstance(value, _SEQUENCES) and (chosen is None or i in chosen):
                    flat.extend(value)
                else:
                    flat.append(value)
            if chosen is not None:
                warner.warn_of_missing(_missing(chosen, len(element)), element)
            return _alike(element, flat)

        return select


def _merged(element: dict[Any, Any], chosen: list[Any] | None, warner: _Warner) -> dict[Any, Any]:
    """Return a dict with its inner dicts, or those at the chosen keys, unpacked."""
    flat: dict[Any, Any] = {}
    for key, value in element.items():
        if isinstance(value, dict) and (chosen is None or key in chosen):
            if taken := [child for child in value if child in element]:
                warner.warn(
                    f"the keys {taken} of the dict at {key!r} are left out: the element already has them", element
                )
            flat.update((child, inner) for child, inner in value.items() if child not in element)
        else:
            flat[key] = value
    warner.warn_of_missing([key for key in chosen or () if key not in element], element)
    return flat


def _missing(named: list[Any], length: int) -> list[Any]:
    """Return the columns that a sequence of this length does not have. Negative positions from the end exist."""
    return [column for column in named if column not in range(-length, length)]


def _listed(indices: Any) -> list[Any]:
    return indices if isinstance(indices, list) else [indices]


def _alike(element: Any, values: Any) -> Any:
    """Return the values as a plain tuple or list, like the element."""
    return tuple(values) if isinstance(element, tuple) else list(values)
