"""end_caching: the stages from ``on_disk_cache`` to here run only for elements whose files are not there.

``end_caching`` is one stage that goes through the source of ``on_disk_cache`` element by element and gives the paths of
the files that each became, in the order of the source, whether they were there or had to be made. So it keeps nothing
waiting, and an endless source is as good as any. How one element's files are found or made: see ``production``.

The stages in between are run anew for each element that has no files, on that one element: they see no other. A
``batch`` there makes batches of one. Stages that would mean something else then are refused: those that shard or number
elements, and those that read another stream besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, ClassVar

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage as printed
from datapipes.errors import GraphError
from datapipes.iter.caching.on_disk.holder import OnDiskCacheHolder
from datapipes.iter.caching.on_disk.position import Making
from datapipes.iter.caching.on_disk.production import Production
from datapipes.iter.files.saving import writing_mode
from datapipes.operators.checks import needs, needs_callable, no_length
from datapipes.operators.flattening import Flattening
from datapipes.operators.flattening_position import Inner
from datapipes.position import user_classes
from datapipes.position.on_error import Tolerant
from datapipes.position.opening import Opening

_MODES = ("wb", "w", "wt", "b", "t")
_NUMBERING = {"add_index", "enumerate", "header"}


@operator
class EndOnDiskCacheHolder(Tolerant, Flattening[str]):
    """The paths of the files that each element of the nearest ``on_disk_cache`` became, in the order of its source.

    What arrives here are pairs of a name and the data of its file, a stream or an iterable of pieces, or bytes or text
    as they are with ``skip_read=True``. They are saved at ``filepath_fn(name)``, at what the ``filepath_fn`` of
    ``on_disk_cache`` makes of the name (``same_filepath_fn``), or at the name. Several processes and threads may use
    one cache: each file is made by one of them, while the others wait up to ``timeout`` seconds. (torchdata gave what
    was there after what was not, kept at most 1000 elements, and stood still after an error.)

    >>> import os, tempfile
    >>> from datapipes.iter import IterableWrapper
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     names = IterableWrapper(["a"])
    ...     dp = names.on_disk_cache(lambda name: os.path.join(folder, name))
    ...     dp = dp.map(lambda name: (name, print("making", name) or b"1"))
    ...     dp = dp.end_caching(same_filepath_fn=True, skip_read=True).map(os.path.basename)
    ...     list(dp), list(dp)
    making a
    (['a'], ['a'])
    """

    _fluent: ClassVar[str | None] = "end_caching"
    _cell: ClassVar[type[Inner]] = Making

    datapipe: IterDataPipe[Any]
    mode: str = "wb"
    filepath_fn: Callable[[Any], str] | None = None
    _: KW_ONLY
    same_filepath_fn: bool = False
    skip_read: bool = False
    timeout: float = 300

    def __post_init__(self) -> None:
        if self.filepath_fn is not None:
            needs_callable("end_caching", self.filepath_fn)
        needs(
            self.filepath_fn is None or not self.same_filepath_fn,
            self,
            "`filepath_fn` and `same_filepath_fn` are mutually exclusive",
        )
        needs(self.mode in _MODES, self, f"Invalid mode {self.mode!r}: choose one of {', '.join(_MODES)}")
        needs(self.timeout >= 0, self, f"timeout is a number of seconds, got {self.timeout!r}")
        super().__post_init__()
        _check_between(self)

    def set_timeout(self, timeout: float) -> None:
        """Wait for other processes up to so many seconds; called by the adapter ``CacheTimeout``."""
        self.timeout = timeout

    def holder(self) -> OnDiskCacheHolder[Any]:
        """The ``on_disk_cache`` that this ends."""
        return holders_of(self)[0]

    def _reads(self) -> Iterable[Any]:
        return (self.holder().source_datapipe,)

    def _open(self, at: Opening) -> Iterator[str]:
        holder, to_make = self.holder(), list[Any]()
        cut = {id(one): one._given(to_make) for one in holders_of(self)}
        for stage in between(self):
            if id(stage) not in cut:
                cut[id(stage)] = structure.with_parents(stage, lambda parent: cut[id(parent)])
        self._making = at.cell(partial(Making, self, self._let_go))
        self._making.by(
            Production(
                holder,
                at,
                make=cut[id(self.datapipe)],
                of=to_make,
                mode=writing_mode(self.mode),
                filepath_fn=holder.filepath_fn if self.same_filepath_fn else self.filepath_fn,
                skip_read=self.skip_read,
                timeout=self.timeout,
            ),
            between(self),
            at.run.errors,
        )
        return super()._open(at)

    def _inner(self, element: Any) -> Iterable[str]:
        return self._making.paths(element)

    def __len__(self) -> int:
        raise no_length(self)


def holders_of(end: EndOnDiskCacheHolder) -> list[OnDiskCacheHolder[Any]]:
    """The nearest ``on_disk_cache`` above that no other stage ends; in a session it may be there in several copies."""
    holders: dict[int, OnDiskCacheHolder[Any]] = {}
    seen: set[int] = set()
    stack: list[structure.Pipe] = [end.datapipe]
    while stack:
        stage = stack.pop()
        if id(stage) not in seen:
            seen.add(id(stage))
            if isinstance(stage, OnDiskCacheHolder):
                holders[id(stage)] = stage
            elif isinstance(stage, EndOnDiskCacheHolder):
                stack += [holder.source_datapipe for holder in holders_of(stage)]
            else:
                stack += structure.parents(stage)
    return list(holders.values())


def between(end: EndOnDiskCacheHolder) -> list[structure.Pipe]:
    """The stages between the two, sources first, and the ``on_disk_cache`` before them."""
    first = set(map(id, holders_of(end)))
    return structure.walk_by(lambda stage: [] if id(stage) in first else structure.parents(stage), end.datapipe)


def _check_between(end: EndOnDiskCacheHolder) -> None:
    holders = holders_of(end)
    if len(holders) != 1:
        ended = any(isinstance(stage, EndOnDiskCacheHolder) for stage in structure.walk(end.datapipe))
        raise GraphError(
            f"one end_caching() cannot end {len(holders)} on_disk_cache(): end each before they are combined"
            if holders
            else "`end_caching` can only be invoked once per `on_disk_cache`; every one above is ended already"
            if ended
            else "Expected `OnDiskCacheHolder` existing above `end_caching`: call on_disk_cache(...) first"
        )
    for stage in between(end):
        if stage is holders[0]:
            continue
        if user_classes.is_sharding(stage):
            raise GraphError(f"{printed(stage)} would see one element at a time here: put it before on_disk_cache()")
        if vars(type(stage)).get("_fluent") in _NUMBERING:
            raise GraphError(
                f"{printed(stage)} would begin anew with each element here: put it before on_disk_cache() or after "
                "end_caching()"
            )
        if type(getattr(stage, "max_errors", None)) is float:
            raise GraphError(
                f"{printed(stage)} would judge a share of one element's errors here: give end_caching() the max_errors"
            )
    for stage in structure.walk_by(lambda stage: _streams_above(stage, holders), end.datapipe):
        if stage is not holders[0] and not _streams_above(stage, holders):
            raise GraphError(
                f"{stage!r} would be read from its start for each element between on_disk_cache() and end_caching(): "
                "combine the streams before or after, or look the elements up in a map-style pipe"
            )


def _streams_above(stage: structure.Pipe, holders: list[OnDiskCacheHolder[Any]]) -> list[structure.Pipe]:
    return [] if stage is holders[0] else list(filter(structure.is_stream, structure.parents(stage)))
