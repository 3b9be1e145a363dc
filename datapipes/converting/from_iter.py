"""to_map_datapipe: a stream of pairs, to be looked up by key."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, MapDataPipe, operator
from datapipes.description.printing import chain, stage
from datapipes.description.structure import is_stream
from datapipes.errors import BadArgumentType
from datapipes.operators.checks import length_of, needs_callable


@operator
class IterToMapConverter(MapDataPipe[Any]):
    """The elements of a stream by key. The first look-up reads the whole stream and keeps it.

    Until then the length is the source's, which is too much if keys occur twice; of two values of one key, the last is
    kept, with a warning.

    Args:
        key_value_fn: A function that gives the key and the value of an element. ``None``: the elements are such pairs.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper(["one", "three"]).to_map_datapipe(lambda word: (len(word), word))
    >>> dp[5]
    'three'
    """

    _fluent: ClassVar[str | None] = "to_map_datapipe"

    datapipe: IterDataPipe[Any]
    key_value_fn: Callable[[Any], Any] | None = None
    _map: dict[Any, Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not is_stream(self.datapipe):
            raise BadArgumentType(
                "IterToMapConverter can only apply on IterDataPipe, "
                f"got {type(self.datapipe).__name__}: {self.datapipe!r:.60}"
            )
        if self.key_value_fn is not None:
            needs_callable("to_map_datapipe", self.key_value_fn)

    def _loaded(self) -> dict[Any, Any]:
        if self._map is None:
            loaded: dict[Any, Any] = {}
            for key, value in self._pairs():
                if key in loaded:
                    warnings.warn(
                        f"Found duplicate key {key!r} in {chain(self.datapipe)}; the last one wins", stacklevel=3
                    )
                loaded[key] = value
            self._map = loaded
        return self._map

    def _pairs(self) -> Iterator[Any]:
        # A generator, because Python makes an error of a StopIteration that escapes from a function in one.
        for number, element in enumerate(self.datapipe):
            pair = element if self.key_value_fn is None else self.key_value_fn(element)
            try:
                length = len(pair)
            except TypeError:
                raise TypeError(
                    f"Cannot convert dictionary update element #{number} ({type(pair).__name__}) to a pair of key and "
                    f"value, in {stage(self)}"
                ) from None
            if length != 2:
                raise ValueError(
                    f"dictionary update sequence element #{number}: sequence element has length {length}, not 2, "
                    f"in {stage(self)}"
                )
            yield pair

    def __getitem__(self, key: Any) -> Any:
        loaded = self._loaded()
        try:
            return loaded[key]
        except KeyError:
            raise IndexError(f"Index {key!r} is invalid for IterToMapConverter: there is no such key") from None

    def __len__(self) -> int:
        if self._map is None:
            try:
                return length_of(self.datapipe)
            except TypeError:
                warnings.warn("Data from prior DataPipe are loaded to get length of IterToMapConverter", stacklevel=2)
        return len(self._loaded())
