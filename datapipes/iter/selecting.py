"""drop, slice, flatten: other columns of each element, in a container of its kind.

A tuple becomes a plain tuple, a list a plain list, a dict a plain dict; the element itself is not changed. What a stage
cannot do for an element (a column that is not there, no container at all) is a warning, and the element is handed on as
far as it goes. torchdata 0.9 raised for some of these elements after it had warned.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, ClassVar

from datapipes.checks import reread, same_length
from datapipes.describe import stage
from datapipes.on_error import OnError, check_policy
from datapipes.pipe import IterDataPipe
from datapipes.steps import Step


class _Selecting(IterDataPipe[Any]):
    """A stage that says in ``_selected`` what becomes of an element."""

    datapipe: IterDataPipe[Any]

    def _selected(self, element: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _selected")

    def _open(self, at: Any) -> Any:
        raise NotImplementedError("a step is opened as part of a loop")

    def _step(self) -> Step:
        return Step("map", self._selected)

    def _reread(self, indices: Sequence[int]) -> list[Any] | None:
        elements = reread(self.datapipe, indices) if self.on_error == "raise" else None
        return None if elements is None else [self._selected(element) for element in elements]

    def _warn_of_missing(self, named: Collection[Any], element: Any) -> None:
        """Warn of the columns that an element does not have. Negative positions are there if ``element[i]`` is."""
        there = element if isinstance(element, dict) else range(-len(element), len(element))
        if missing := [column for column in named if column not in there]:
            self._warn(f"the columns {missing} are not in this {type(element).__name__}: {element!r:.80}")

    def _warn(self, what: str) -> None:
        warnings.warn(f"{stage(self)}: {what}", UserWarning, stacklevel=2)

    __len__ = same_length


class Dropper(_Selecting):
    """The elements without the columns at ``indices``: one index or key, or a list of them.

    A tuple is one key. Positions count from 0; a negative one names nothing.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a", 1, 2.0), ("b", 3, 4.0)]).drop([0, 2]))
    [(1,), (3,)]
    """

    _fluent: ClassVar[str | None] = "drop"

    def __init__(self, datapipe: IterDataPipe[Any], indices: Any) -> None:
        self.datapipe = datapipe
        self.indices = indices

    def _selected(self, element: Any) -> Any:
        dropped = _listed(self.indices)
        if not isinstance(element, dict | list | tuple):
            self._warn(f"nothing can be dropped from an element of type {type(element).__name__}: {element!r:.80}")
            return element
        self._warn_of_missing(dropped, element)
        if isinstance(element, dict):
            return {key: value for key, value in element.items() if key not in dropped}
        return _alike(element, [value for i, value in enumerate(element) if i not in dropped])


class Slicer(_Selecting):
    """A part of each element: ``element[index:stop:step]``, or the positions or keys in the list ``index``.

    They come in the element's own order. Of a dict, a single ``index`` is a key. Negative positions in a list count
    from the end, as they do elsewhere; torchdata 0.9 found nothing there.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([(1, 2, 3), (4, 5, 6)]).slice(1))
    [(2, 3), (5, 6)]
    >>> list(IterableWrapper([{"x": 1, "y": 2, "z": 3}]).slice(["z", "x"]))
    [{'x': 1, 'z': 3}]
    """

    _fluent: ClassVar[str | None] = "slice"

    def __init__(
        self, datapipe: IterDataPipe[Any], index: Any, stop: int | None = None, step: int | None = None
    ) -> None:
        self.datapipe = datapipe
        self.index = index
        self.stop = stop
        self.step = step
        if isinstance(index, list) and (stop is not None or step is not None):
            warnings.warn(
                f"A list of indices was given together with `stop` or `step`, which are ignored, in {stage(self)}",
                UserWarning,
                stacklevel=2,
            )

    def _selected(self, element: Any) -> Any:
        index = self.index
        if not isinstance(element, dict | list | tuple):
            self._warn(f"no part can be taken of an element of type {type(element).__name__}: {element!r:.80}")
            return element
        if isinstance(index, list):
            self._warn_of_missing(index, element)
            if isinstance(element, dict):
                return {key: value for key, value in element.items() if key in index}
            wanted = {i + len(element) if isinstance(i, int) and i < 0 else i for i in index}
            return _alike(element, [value for i, value in enumerate(element) if i in wanted])
        if not isinstance(element, dict):
            return _alike(element, element[index : self.stop : self.step])
        if index in element:
            return {index: element[index]}
        self._warn_of_missing([index], element)
        return element


class Flattener(_Selecting):
    """Each element with the containers in it taken apart, one level: lists and tuples, and in a dict the dicts.

    ``indices`` says at which positions or keys, one or a list; by default at all. (``flatten(0)`` is about the first
    column only, as it says; in torchdata 0.9 it was about all.) In a dict, a key that the element has already stays
    as it is, with a warning.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([(1, (2, 3)), ("ab", [4])]).flatten())
    [(1, 2, 3), ('ab', 4)]
    >>> list(IterableWrapper([{"x": 1, "more": {"y": 2}}]).flatten("more"))
    [{'x': 1, 'y': 2}]
    """

    _fluent: ClassVar[str | None] = "flatten"

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        indices: Any = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> None:
        self.datapipe = datapipe
        self.indices = indices
        self.on_error = on_error
        self.max_errors = max_errors
        check_policy(self)

    def _selected(self, element: Any) -> Any:
        chosen = None if self.indices is None else _listed(self.indices)
        if isinstance(element, dict):
            flat = self._merged(element, chosen)
        else:
            element = element if isinstance(element, list | tuple) else list(element)
            parts = (
                value if isinstance(value, list | tuple) and (chosen is None or i in chosen) else (value,)
                for i, value in enumerate(element)
            )
            flat = _alike(element, chain.from_iterable(parts))
        self._warn_of_missing(chosen or (), element)
        return flat

    def _merged(self, element: dict[Any, Any], chosen: Collection[Any] | None) -> dict[Any, Any]:
        flat: dict[Any, Any] = {}
        for key, value in element.items():
            if isinstance(value, dict) and (chosen is None or key in chosen):
                if taken := [child for child in value if child in element]:
                    self._warn(f"the keys {taken} of the dict at {key!r} are left out: the element has them itself")
                flat.update((child, inner) for child, inner in value.items() if child not in element)
            else:
                flat[key] = value
        return flat


def _listed(indices: Any) -> list[Any]:
    return indices if isinstance(indices, list) else [indices]


def _alike(element: Any, values: Any) -> Any:
    return tuple(values) if isinstance(element, tuple) else list(values)
