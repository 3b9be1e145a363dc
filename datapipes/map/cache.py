"""in_memory_cache: each element of a map-style pipe made once."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import MapDataPipe, operator
from datapipes.operators.checks import length_of

T_co = TypeVar("T_co", covariant=True)


@operator
class InMemoryCacheHolder(MapDataPipe[T_co]):
    """The same elements: the first access to a key makes its element, later ones return the same object.

    >>> from datapipes.map import SequenceWrapper
    >>> dp = SequenceWrapper("ab").map(str.upper).in_memory_cache()
    >>> dp[0] is dp[0], dp.cache
    (True, {0: 'A'})
    """

    _fluent: ClassVar[str | None] = "in_memory_cache"

    source_dp: MapDataPipe[T_co]
    cache: dict[Any, T_co] = field(default_factory=dict, init=False)

    def __getitem__(self, key: Any) -> T_co:
        if key not in self.cache:
            # Of two threads that make an element at once, both get the object of the first.
            return self.cache.setdefault(key, self.source_dp[key])
        return self.cache[key]

    def __len__(self) -> int:
        return length_of(self.source_dp)
