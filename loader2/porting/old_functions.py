"""Functions of torchdata that were used by its tests, its forks and pipes of other projects, under their old names."""

from __future__ import annotations

from io import IOBase
from typing import Any

from datapipes.description.structure import Pipe, parents, walk
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgumentType
from datapipes.iter import ShardingFilter, Shuffler


def _check_shuffle_before_sharding(datapipe: Pipe) -> bool:
    """Return whether each ``sharding_filter`` has a shuffle above it, on all inputs. True without sharding.

    >>> from datapipes.iter import IterableWrapper
    >>> _check_shuffle_before_sharding(IterableWrapper([1]).shuffle().map(str).sharding_filter())
    True
    >>> _check_shuffle_before_sharding(IterableWrapper([1]).sharding_filter().shuffle())
    False
    """
    return all(_is_shuffled(stage) for stage in walk(datapipe) if isinstance(stage, ShardingFilter))


def _is_shuffled(stage: Pipe) -> bool:
    above = parents(stage)
    return bool(above) and all(isinstance(each, Shuffler) or _is_shuffled(each) for each in above)


def validate_pathname_binary_tuple(data: Any) -> None:
    """Raise BadArgumentType unless ``data`` is a pair of a path and an open file.

    >>> validate_pathname_binary_tuple(("a.txt", StreamWrapper(None)))
    """
    if not (
        isinstance(data, tuple)
        and len(data) == 2
        and isinstance(data[0], str)
        and isinstance(data[1], IOBase | StreamWrapper)
    ):
        raise BadArgumentType(f"expected a pair (path, open file), got {type(data).__name__}: {data!r:.80}")
