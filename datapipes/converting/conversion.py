"""to_iter_datapipe, to_map_datapipe: a map-style pipe as a stream, and a stream as a collection with keys."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, ClassVar, TypeVar

from torch.utils.data import MapDataPipe as TorchMapDataPipe

from datapipes.description.indexed import Indexed
from datapipes.description.pipe import IterDataPipe, MapDataPipe, operator
from datapipes.description.printing import chain, stage
from datapipes.description.structure import is_stream
from datapipes.errors import BadArgumentType
from datapipes.operator_support.checks import length_of, needs_callable
from datapipes.position.cells import CountCell
from datapipes.position.opening import Opening
from datapipes.rewriting.gathering import RowStream, at_once
from datapipes.rewriting.pushdown import Positions

T_co = TypeVar("T_co", covariant=True)


@operator
class MapToIterConverter(IterDataPipe[T_co]):
    """Stream of the elements of a map-style pipe.

    Args:
        indices: The keys of the elements, in their order. ``None``: 0, 1, 2 ... up to the length, which the pipe has to
            have then. An empty list gives no elements.

    >>> from datapipes.map import SequenceWrapper
    >>> list(SequenceWrapper("abc").to_iter_datapipe())
    ['a', 'b', 'c']
    """

    _fluent: ClassVar[str | None] = "to_iter_datapipe"
    _identified_by: ClassVar[str | None] = "indices"

    datapipe: MapDataPipe[T_co]
    indices: Sequence[Any]

    def __init__(self, datapipe: MapDataPipe[T_co], indices: Iterable[Any] | None = None) -> None:
        if not isinstance(datapipe, MapDataPipe | TorchMapDataPipe):
            raise BadArgumentType(
                f"MapToIterConverter can only apply on MapDataPipe, got {type(datapipe).__name__}: {datapipe!r:.60}"
            )
        self.datapipe = datapipe
        self.indices = keys_of("to_iter_datapipe", datapipe, indices)

    def _open(self, at: Opening) -> Iterator[T_co]:
        return self._elements(at.cell(CountCell))

    def _origin(self, i: int) -> tuple[object, Any]:
        return self.datapipe, self.indices[i]

    def _elements(self, given: CountCell) -> Iterator[T_co]:
        given.origin = self._origin
        for index in given.following(self.indices):
            try:
                made = self.datapipe[index]
            except BaseException as error:
                given.take_again(error)
                raise
            yield made
            made = None  # type: ignore[assignment]  # freed before the next one is made

    def _indexed(self) -> Indexed:
        return Indexed(len(self.indices), self._at)

    def _at(self, i: int) -> T_co:
        return self.datapipe[self.indices[i]]

    def _positions(self) -> RowStream:
        return RowStream(Positions(self), self, at_once(self.datapipe, self.indices))

    def __len__(self) -> int:
        return len(self.indices)


def keys_of(method: str, datapipe: MapDataPipe[Any], indices: Iterable[Any] | None) -> Sequence[Any]:
    """Return the keys of a stream over a map-style pipe: the given ones, or all positions of a pipe with a length."""
    if indices is not None:
        return indices if isinstance(indices, Sequence) else list(indices)
    try:
        return range(len(datapipe))
    except TypeError:
        raise BadArgumentType(
            f"{method}() needs to know the keys of {chain(datapipe)}, which has no length: give them as `indices`"
        ) from None


@operator
class IterToMapConverter(MapDataPipe[Any]):
    """Elements of a stream by key. The first look-up reads the whole stream and keeps it.

    Until then the length is the source's, which is too large if keys occur twice. Of two values with one key, the last
    one is kept, with a warning.

    Args:
        key_value_fn: A function that returns the key and the value of an element. ``None``: the elements are such
        pairs.

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
        needs_callable("to_map_datapipe", self.key_value_fn, or_none=True)

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
        # A generator, because a generator turns a StopIteration that escapes into an error.
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
