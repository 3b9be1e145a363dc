"""The formats of archives and compressed files, for the fuzzing kit."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from tests.archive_makers import COMPRESSIONS, SAMPLES, rar, tar, zipped
from tests.fuzzing.format import Format

LONG = {"long/" * 25 + "name.txt": b"in the second header", "short.txt": b"short"}


def loaded(method: str, path: str) -> Pipe:
    """All members of an archive, which ``shown`` reads."""
    return getattr(IterableWrapper([path]).open_files("rb"), method)()


def in_order(path: str) -> Pipe:
    return IterableWrapper([path]).open_files("rb").load_from_tar(mode="r|*")


def samples(path: str) -> Pipe:
    return IterableWrapper([path]).open_files("rb").load_from_tar().webdataset()


def same_sizes(expected: Sequence[str], found: Sequence[str]) -> bool:
    """Whether nothing is missing; plain tar has no checksum for what a member holds, a long name included."""
    return list(map(_outline, expected)) == list(map(_outline, found))


def _outline(element: str) -> str:
    return re.sub(r"b'(\\x..|\\.|[^\\'])*'|b\"(\\x..|\\.|[^\\\"])*\"", lambda shown: str(len(eval(shown[0]))), element)


def same_number(expected: Sequence[str], found: Sequence[str]) -> bool:
    return len(expected) == len(found)


def compressed(name: str, kind: str, make: Callable[[], bytes], read: Callable[[str], Pipe]) -> Format:
    return Format(f"{name}.{kind}", lambda: COMPRESSIONS[kind](make()), read)


def text() -> bytes:
    return b"some text, some text and more of some text\n" * 9


def marker(data: bytes) -> int | None:
    """Offset of the marker of a tar archive's end: the first two blocks of zeros."""
    places = range(0, len(data) - 1023, 512)
    return next((at for at in places if not any(data[at : at + 1024])), None)


def plain(name: str, make: Callable[[], bytes], read: Callable[[str], Pipe], same: Any) -> Format:
    """A tar archive that is not compressed: what has no checksum may change, and a marker may end it anywhere."""
    place = marker(make())
    return Format(name, make, read, same=same, says_otherwise=lambda data: marker(data) not in (None, place))


ARCHIVES: list[Format] = [
    *(compressed("text", kind, text, partial(loaded, "decompress")) for kind in COMPRESSIONS),
    plain("plain.tar", tar, partial(loaded, "load_from_tar"), same_sizes),
    plain("in-order.tar", tar, in_order, same_sizes),
    plain("long-names.tar", lambda: tar(LONG), partial(loaded, "load_from_tar"), same_number),
    plain("pax.tar", lambda: tar(LONG, tarfile.PAX_FORMAT), partial(loaded, "load_from_tar"), same_number),
    *(compressed("members.tar", kind, tar, partial(loaded, "load_from_tar")) for kind in COMPRESSIONS),
    compressed("in-order.tar", "gz", tar, in_order),
    plain("shard.tar", lambda: tar(SAMPLES), samples, same_sizes),
    Format("stored.zip", lambda: zipped(method=zipfile.ZIP_STORED), partial(loaded, "load_from_zip")),
    Format("deflated.zip", zipped, partial(loaded, "load_from_zip")),
    Format("bz2.zip", lambda: zipped(method=zipfile.ZIP_BZIP2), partial(loaded, "load_from_zip")),
    Format("lzma.zip", lambda: zipped(method=zipfile.ZIP_LZMA), partial(loaded, "load_from_zip")),
    Format("stored.rar", rar, partial(loaded, "load_from_rar")),
]
