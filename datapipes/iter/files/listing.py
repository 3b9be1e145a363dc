"""list_files, shard_expand: names of files, from folders in a fixed order, or from ranges in braces."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from hashlib import blake2b
from math import prod
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.structure import is_stream
from datapipes.errors import BadArgumentType
from datapipes.iter.sources.wrapper import IterableWrapper
from datapipes.messages.warnings import warn
from datapipes.operator_support.checks import given_length
from datapipes.operator_support.flattening import Flattening, Pieces
from datapipes.position.on_error import OnError, check_policy

_WILD = "*?["
_RANGE = re.compile(r"\{([0-9]+)\.\.([0-9]+)\}")


@operator
class FileLister(Flattening[str]):
    """The paths of the files in one or more folders, in a fixed order.

    In each folder the files are sorted. A root that is a file is given itself, if its name matches. A folder without a
    matching file causes a warning, unless the folder comes from a pipe.

    Args:
        masks: A pattern for the names of files, such as ``"*.csv"``, or several, one of which must match. They are
            compared with the name without its folder. ``None``: all files.
        recursive: Whether to list inner folders after the files of a folder. Links to folders are left out.
        abspath: Whether to make paths absolute. Otherwise they begin like the given root.
        non_deterministic: Whether to keep the order of the file system, which saves sorting. The order may differ from
            run to run, so that a resume may repeat or miss files.

    >>> [os.path.basename(name) for name in FileLister(os.path.dirname(__file__), "list*.py")]
    ['listing.py']
    """

    _fluent: ClassVar[str | None] = "list_files"
    _lists: ClassVar[bool] = True

    datapipe: IterDataPipe[str]

    def __init__(
        self,
        root: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = ".",
        masks: str | Sequence[str] | None = None,
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int | None = None,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> None:
        self.datapipe = stream_of_roots(root, self, (str, os.PathLike), "path")
        self.masks = masks
        self.recursive = recursive
        self.abspath = abspath
        self.non_deterministic = non_deterministic
        self.length = length
        self.on_error = on_error
        self.max_errors = max_errors
        check_policy(self)

    def _inner(self, root: str) -> _Listing:
        return _Listing(self, root)

    def _listed(self, root: str) -> Iterator[str]:
        root = os.path.abspath(root) if self.abspath else os.fspath(root)
        if os.path.isfile(root):
            if matches(os.path.basename(root), self.masks):
                yield root
            return
        if not os.path.isdir(root):
            warn(f"list_files(): {root!r} does not exist")
            folder, name = os.path.split(root)
            is_mask = any(letter in name for letter in _WILD)
            meant = f"; write FileLister({folder or '.'!r}, {name!r}) for the files of that pattern" if is_mask else ""
            raise FileNotFoundError(f"list_files(): no such file or folder: {root!r}{meant}")
        folders, found_any = [root], False
        while folders:
            folder = folders.pop()
            with os.scandir(folder) as found:
                entries = list(found) if self.non_deterministic else sorted(found, key=lambda entry: entry.name)
            for entry in entries:
                if entry.is_file() and matches(entry.name, self.masks):
                    found_any = True
                    yield os.path.join(folder, entry.name)
            if self.recursive:
                folders += [os.path.join(folder, e.name) for e in reversed(entries) if e.is_dir(follow_symlinks=False)]
        if not found_any:
            warn_of_no_match(self, root)

    __len__ = given_length


class _Listing(Pieces[str]):
    """Files of one root, with a digest of the names that were given."""

    def __init__(self, pipe: FileLister, root: str) -> None:
        self._pipe, self._root = pipe, root
        self._names = blake2b(digest_size=8)  # of the names before the last one
        self._last = b""

    def __iter__(self) -> Iterator[str]:
        for path in self._pipe._listed(self._root):
            name = b"%b\0" % os.fsencode(path)
            self._last = name
            yield path
            self._last = b""  # nothing is called in between, so an interruption does not separate the two
            self._names.update(name)

    def mark(self) -> str | None:
        if self._pipe.non_deterministic:
            return None
        names = self._names.copy()
        names.update(self._last)
        return names.hexdigest()

    def changed(self) -> str:
        return (
            f"{self._root!r} now has other files in place of those that were given before the state was saved, so that "
            "some would be missed and others repeated: restore the files, start the epoch again without the "
            "state, or list the files once and give the list to IterableWrapper"
        )


def stream_of_roots(root: Any, pipe: Any, kinds: tuple[type, ...], what: str) -> IterDataPipe[str]:
    """Return a stream of the roots of a lister, from a pipe, one root or several."""
    if is_stream(root):
        given: IterDataPipe[str] = root
        return given
    several = isinstance(root, Iterable) and not isinstance(root, str | bytes)
    roots: list[Any] = list(root) if several else [root]
    if not all(isinstance(one, kinds) for one in roots):
        raise BadArgumentType(
            f"{pipe._fluent}() needs a {what}, several {what}s, or a pipe of {what}s, got {root!r:.80}"
        )
    return IterableWrapper([os.fspath(one) for one in roots])


def matches(name: str, masks: str | Sequence[str] | None) -> bool:
    """Return whether a file's name matches a mask, or one of several; no mask matches everything.

    >>> matches("a.csv", ["*.csv", "*.txt"]), matches("a.csv", "*.txt"), matches("a.csv", None)
    (True, False, True)
    """
    if isinstance(masks, str):
        masks = [masks] if masks else []
    return not masks or any(fnmatch(name, mask) for mask in masks)


def warn_of_no_match(pipe: Any, root: str) -> None:
    """Warn that no file of a folder matches the masks, if the folder was given by name and not by a pipe."""
    if pipe.masks and type(pipe.datapipe) is IterableWrapper:
        listed = [pipe.masks] if isinstance(pipe.masks, str) else list(pipe.masks)
        masks = ", ".join(listed)
        plain = [mask for mask in listed if not any(letter in mask for letter in _WILD)]
        meant = f"; a mask is a pattern of the whole name, such as {'*' + plain[0]!r}" if plain else ""
        warn(f"{pipe._fluent}(): no file in {root!r} matches {masks!r}{meant}")


@operator
class ShardExpander(Flattening[str]):
    """Each name once for every number in its ranges ``{first..last}``; the last range varies fastest.

    Numbers are padded with zeros if the bounds are equally long and the first begins with one. Names are made one by
    one, so that a range may be long.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(["train-{09..11}.tar", "test.tar"]).shard_expand())
    ['train-09.tar', 'train-10.tar', 'train-11.tar', 'test.tar']
    """

    _fluent: ClassVar[str | None] = "shard_expand"

    source_datapipe: IterDataPipe[str]

    def _inner(self, element: str) -> Iterator[str]:
        texts, ranges = [], []
        end = 0
        for found in _RANGE.finditer(element):
            texts.append(element[end : found.start()])
            ranges.append(_checked(found[1], found[2], element))
            end = found.end()
        return _spelled(texts, ranges, element[end:])


def _checked(first: str, last: str, name: str) -> tuple[int, int, int]:
    """Return the first number of a range, its count of numbers, and the digits to which they are padded."""
    bounds = f"{{{first}..{last}}} in {name!r:.200}"
    if len(first) > len(last):
        raise ValueError(f"shard_expand: the low bound must be shorter than the high bound, or as long: {bounds}")
    if len(first) < len(last) and first.startswith("0") and first != "0":
        raise ValueError(f"shard_expand: the low bound must not start with 0 if it is shorter: {bounds}")
    if int(first) >= int(last):
        raise ValueError(f"shard_expand: bad range, the low bound must be below the high bound: {bounds}")
    return int(first), int(last) - int(first) + 1, len(first) if len(first) == len(last) else 0


def _spelled(texts: list[str], ranges: list[tuple[int, int, int]], end: str) -> Iterator[str]:
    """Yield every combination, in order."""
    for combination in range(prod(times for _, times, _ in ranges)):
        name, rest = end, combination
        for text, (first, times, digits) in zip(reversed(texts), reversed(ranges), strict=True):
            rest, number = divmod(rest, times)
            name = f"{text}{str(first + number).zfill(digits)}{name}"
        yield name
