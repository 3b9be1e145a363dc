"""on_disk_cache: start of a file cache, with its paths, hashes and limits; ``end_caching`` does the work."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar, NoReturn, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage as printed
from datapipes.errors import GraphError
from datapipes.iter.files.hashed import HASH_TYPES
from datapipes.operators.checks import needs, needs_callable, no_length
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@operator
class OnDiskCacheHolder(IterDataPipe[T_co]):
    """The elements whose files are not there yet; ``end_caching`` gives the files.

    With ``max_bytes``, what has just been handed on stays, so open files before elements wait in a shuffle or prefetch;
    see ``budget``.

    Args:
        filepath_fn: A function that gives the one path of an element. ``None``: the elements are the paths (torchdata
            failed there).
        hash_dict: The hashes that files must have, by path, in hexadecimal. A file that has another one does not count
            as there, and one that is made and has another one, or none here, is a ``HashMismatch``.
        hash_type: The kind of these hashes: ``"sha256"`` or ``"md5"``.
        extra_check_fn: A function of the path of a file that is there: it counts as there only if the result is true.
            It is called for folders as well, which otherwise never count, and not for elements of several files.
        max_bytes: How many bytes the files may have that such caches have made in one folder: beyond, those that were
            not used for the longest time are removed. ``None``: no limit.
        cache_dir: The folder to which ``max_bytes``, which must be given, applies, with all folders in it. ``None``: to
            each folder by itself.

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
            if fn is not None:
                needs_callable("on_disk_cache", fn)
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
            "cache_dir is where max_bytes counts: give that as well",
        )

    def _reads(self) -> Iterable[Any]:
        return ()

    def _open(self, at: Opening) -> Iterator[T_co]:
        element = vars(self).get("_element")
        if element is None:
            raise _not_ended(self)
        return iter(element)

    def _given(self, element: list[Any]) -> OnDiskCacheHolder[T_co]:
        """This stage with the element to make, in a list, in place of its source."""
        new = object.__new__(type(self))
        new.__dict__.update(vars(self), source_datapipe=None, _element=element)
        return new

    def __add__(self, other: Any) -> NoReturn:
        raise _not_ended(self)

    def __len__(self) -> int:
        raise no_length(self)


def _not_ended(holder: OnDiskCacheHolder[Any]) -> GraphError:
    return GraphError(f"Please call `end_caching()` after {printed(holder)}: what is between the two fills the cache")
