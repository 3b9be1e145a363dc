"""on_disk_cache, end_caching: the stages between the two run only for elements whose files do not exist.

``on_disk_cache`` defines where the files are and when they are valid; ``end_caching`` does the work. It reads the
source of ``on_disk_cache`` and gives the paths of each element's files, in the order of the source. So no element
waits, and the source may be endless. ``production`` finds or makes the files of one element.

The stages in between run anew for each element without files, and see only that element: a ``batch`` there makes
batches of one. Stages that would change their meaning are refused: those that shard or number elements, and those that
read another stream. Their limits (``max_errors``) apply to the whole stream: the cell here keeps their counts of
errors by place, and passes them from one element to the next.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, ClassVar, NoReturn, TypeVar

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage as printed
from datapipes.description.structure import Pipe, place_of
from datapipes.errors import GraphError, StateError
from datapipes.iter.caching.on_disk.production import Production
from datapipes.iter.files.contents import HASH_TYPES
from datapipes.operator_support.checks import needs, needs_callable, no_length
from datapipes.operator_support.flattening import FlattenCell, Flattening
from datapipes.position import user_classes
from datapipes.position.cells import count, fields, table
from datapipes.position.on_error import OnError, Tolerant
from datapipes.position.opening import Opening
from datapipes.position.seeds import ErrorCounts

_MODES = ("wb", "w", "wt", "b", "t")
_NUMBERING = {"add_index", "enumerate", "header"}

T_co = TypeVar("T_co", covariant=True)


@operator
class OnDiskCacheHolder(IterDataPipe[T_co]):
    """The elements whose files do not exist yet; ``end_caching`` gives the paths of all files.

    With ``max_bytes``, only the files of the current element are protected from removal. Open files before a shuffle or
    prefetch.

    Args:
        filepath_fn: A function that returns the one path of an element. ``None``: the elements are the paths.
        hash_dict: Expected hashes of the files, by path, in hexadecimal. An existing file with another hash is made
            again; a new file with another hash, or with no entry here, is a ``HashMismatch``.
        hash_type: Kind of the hashes: ``"sha256"`` or ``"md5"``.
        extra_check_fn: A function of the path of an existing file: the file is valid only if the result is true.
            Folders are valid only with this function. It is not called for elements of several files.
        max_bytes: Most bytes of the files that such caches have made in one folder. Beyond, the least recently used
            files are removed. ``None``: no limit.
        cache_dir: The folder, with all folders in it, to which ``max_bytes`` applies; it needs ``max_bytes``.
            ``None``: ``max_bytes`` applies to each folder separately.

    >>> import os, tempfile
    >>> from datapipes.iter import IterableWrapper
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dp = IterableWrapper(["a", "b"]).on_disk_cache(lambda name: os.path.join(folder, name))
    ...     dp = dp.map(lambda name: (name, f"made of {name}")).end_caching("w", same_filepath_fn=True)
    ...     list(dp.open_files().readlines(return_path=False)), sorted(os.listdir(folder))
    (['made of a', 'made of b'], ['a', 'b'])
    """

    _fluent: ClassVar[str | None] = "on_disk_cache"

    source_datapipe: IterDataPipe[T_co]
    filepath_fn: Callable[[Any], str] | None = None
    hash_dict: Mapping[str, str] | None = None
    hash_type: str = "sha256"
    extra_check_fn: Callable[[str], bool] | None = None
    _: KW_ONLY
    max_bytes: int | None = None
    cache_dir: str | None = None

    def __post_init__(self) -> None:
        for fn in (self.filepath_fn, self.extra_check_fn):
            needs_callable("on_disk_cache", fn, or_none=True)
        needs(
            not inspect.isgeneratorfunction(self.filepath_fn),
            self,
            "filepath_fn must return one path, not yield several",
        )
        known = self.hash_dict is None or self.hash_type in HASH_TYPES
        needs(known, self, f"hash_type should be one of {', '.join(HASH_TYPES)}, got {self.hash_type!r}")
        needs(self.max_bytes is None or self.max_bytes > 0, self, f"max_bytes must be positive, got {self.max_bytes!r}")
        needs(
            self.cache_dir is None or self.max_bytes is not None,
            self,
            "cache_dir is the folder to which max_bytes applies: set max_bytes, too",
        )

    def _reads(self) -> Iterable[Any]:
        return ()

    def _open(self, at: Opening) -> Iterator[T_co]:
        element = vars(self).get("_element")
        if element is None:
            raise _not_ended(self)
        return iter(element)

    def _given(self, element: list[Any]) -> OnDiskCacheHolder[T_co]:
        """Return this stage with the element to make, in a list, instead of its source."""
        new = object.__new__(type(self))
        new.__dict__.update(vars(self), source_datapipe=None, _element=element)
        return new

    def __add__(self, other: Any) -> NoReturn:
        raise _not_ended(self)

    def __len__(self) -> int:
        raise no_length(self)


def _not_ended(holder: OnDiskCacheHolder[Any]) -> GraphError:
    return GraphError(f"Please call `end_caching()` after {printed(holder)}: the stages between the two fill the cache")


class OnDiskCacheCell(FlattenCell):
    """Position of one ``end_caching``."""

    def __init__(self, pipe: IterDataPipe[Any], let_go: Callable[[Any], None]) -> None:
        super().__init__(pipe, let_go)
        self._counts: dict[int, list[int]] = {}
        self._is_news = False  # whether the counts were loaded, and not yet added to the run
        self._production: Production | None = None

    def by(self, production: Production, between: list[Pipe], errors: ErrorCounts) -> None:
        """Set the maker of files. Check the loaded counts of errors against the stages, and add them to the run."""
        self.let_go()
        self._production = production
        stages = {place_of(stage): stage for stage in between}
        if extra := self._counts.keys() - stages.keys():
            raise StateError(f"between: there are counts of errors for {sorted(extra)}, which are no stages in between")
        if self._is_news:
            self._is_news = False
            errors.add({printed(stages[place]): errors for place, (errors, _) in self._counts.items() if errors})

    def paths(self, element: Any) -> list[str]:
        """Return the files of the next element."""
        if self._production is None:
            raise StateError(f"{self.label} was not opened")
        return self._production.paths(element, self._counts)

    def let_go(self) -> None:
        """End the protection of the current element's files from removal."""
        if self._production is not None:
            self._production.let_go()

    def save(self) -> dict[str, Any]:
        return {"at": super().save(), "between": {place: list(counts) for place, counts in self._counts.items()}}

    def load(self, saved: Any) -> None:
        at, between = fields(saved, "at", "between")
        if table(between) is None:
            raise StateError("between: expected counts of errors by place, found None")
        for place, counts in between.items():
            if not (type(counts) is list and len(counts) == 2):
                raise StateError(f"between: expected two counts, found {counts!r:.80}")
            self._counts[place] = [count(one, "between") for one in counts]
        self._is_news = True
        super().load(at)

    def close(self) -> None:
        self.let_go()
        self._production = None  # it refers to the session
        super().close()


@operator
class EndOnDiskCacheHolder(Tolerant, Flattening[str]):
    """The paths of the files that each element of the nearest ``on_disk_cache`` became, in the order of its source.

    The elements of the last stage before it are pairs of a name and the file's data: a stream, text, or an iterable of
    pieces. Several processes and threads may use one cache: one of them makes each file, and the others wait for it.

    Args:
        mode: How files are written: ``"wb"`` or ``"b"`` for bytes; ``"w"``, ``"wt"`` or ``"t"`` for text, as UTF-8.
        filepath_fn: A function that returns the path of a file for its name. ``None``: the name is the path.
        same_filepath_fn: Whether to use the ``filepath_fn`` of ``on_disk_cache``; then none may be given here.
        skip_read: Whether data may also be bytes. Otherwise bytes are refused.
        timeout: Seconds to wait for another process or thread that makes a file, before a ``LockTimeout``.

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
    _cell: ClassVar[type[FlattenCell]] = OnDiskCacheCell

    datapipe: IterDataPipe[Any]

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        mode: str = "wb",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        same_filepath_fn: bool = False,
        skip_read: bool = False,
        timeout: float = 300,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> None:
        self.datapipe = datapipe
        self.mode = mode
        self.filepath_fn = filepath_fn
        self.same_filepath_fn = same_filepath_fn
        self.skip_read = skip_read
        self._timeout = timeout  # `timeout` is a method
        self.on_error, self.max_errors = on_error, max_errors
        needs_callable("end_caching", self.filepath_fn, or_none=True)
        needs(
            self.filepath_fn is None or not self.same_filepath_fn,
            self,
            "`filepath_fn` and `same_filepath_fn` are mutually exclusive",
        )
        needs(self.mode in _MODES, self, f"Invalid mode {self.mode!r}: choose one of {', '.join(_MODES)}")
        needs(timeout >= 0, self, f"timeout is a number of seconds, got {timeout!r}")
        super().__post_init__()
        _check_between(self)

    def set_timeout(self, timeout: float) -> None:
        """Set the seconds to wait for other processes; the adapter ``CacheTimeout`` calls this."""
        self._timeout = timeout

    def holder(self) -> OnDiskCacheHolder[Any]:
        """Return the ``on_disk_cache`` that this stage ends."""
        return holders_of(self)[0]

    def _reads(self) -> Iterable[Any]:
        return (self.holder().source_datapipe,)

    def _open(self, at: Opening) -> Iterator[str]:
        to_make: list[Any] = []
        cut = {id(one): one._given(to_make) for one in holders_of(self)}
        for stage in between(self):
            if id(stage) not in cut:
                cut[id(stage)] = structure.with_parents(stage, lambda parent: cut[id(parent)])
        self._making = at.cell(partial(OnDiskCacheCell, self, self._let_go))
        production = Production(self, at, make=cut[id(self.datapipe)], of=to_make, timeout=self._timeout)
        self._making.by(production, between(self), at.run.errors)
        return super()._open(at)

    def _inner(self, element: Any) -> Iterable[str]:
        return self._making.paths(element)

    def __len__(self) -> int:
        raise no_length(self)


def holders_of(end: EndOnDiskCacheHolder) -> list[OnDiskCacheHolder[Any]]:
    """Return the nearest ``on_disk_cache`` above that no other stage ends. A session may hold several copies of it."""
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
    """Return the stages between the two, sources first, after the ``on_disk_cache``."""
    first = set(map(id, holders_of(end)))
    return structure.walk(end.datapipe, inputs=lambda stage: [] if id(stage) in first else structure.parents(stage))


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
                f"{printed(stage)} would start again with each element here: put it before on_disk_cache() or after "
                "end_caching()"
            )
        if type(getattr(stage, "max_errors", None)) is float:
            raise GraphError(
                f"{printed(stage)} would judge each element by a share of errors: set max_errors of end_caching()"
            )
    for stage in structure.walk(end.datapipe, inputs=lambda stage: _streams_above(stage, holders)):
        if stage is not holders[0] and not _streams_above(stage, holders):
            raise GraphError(
                f"{stage!r} would be read from its start for each element between on_disk_cache() and end_caching(): "
                "combine the streams before or after, or look the elements up in a map-style pipe"
            )


def _streams_above(stage: structure.Pipe, holders: list[OnDiskCacheHolder[Any]]) -> list[structure.Pipe]:
    return [] if stage is holders[0] else list(filter(structure.is_stream, structure.parents(stage)))
