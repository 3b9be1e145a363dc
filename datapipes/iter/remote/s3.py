"""list_files_by_s3, load_files_by_s3: objects of s3, through s3fs.

Credentials, endpoint and the like are those of the environment, as for any program that speaks to s3. Whoever has to
say more uses ``list_files_by_fsspec`` and ``open_files_by_fsspec``.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import CutShort
from datapipes.io.remote.filesystems import filesystem_of
from datapipes.io.remote.transfer import DEFAULT, Clock, Transfer
from datapipes.iter.files.listing import matches
from datapipes.iter.remote.fsspec_files import url_of
from datapipes.messages.extras import needed
from datapipes.messages.short import hide
from datapipes.operators.checks import given_length, needs, same_length
from datapipes.operators.flattening import Flattening
from datapipes.position.on_error import Tolerant
from datapipes.position.steps import Step


@operator
class S3FileLister(Tolerant, Flattening[str]):
    """The URLs of all objects of S3 that begin with each URL, such as ``s3://bucket/prefix``.

    Args:
        request_timeout_ms: Milliseconds for connecting and for each wait for data, in place of the timeout of
            ``transfer``. ``None``: that of ``transfer``.
        region: The region of the bucket. ``None``: that of the environment.
        masks: A pattern for URLs, such as ``"*.tar"``, or several of which one has to match. They are compared with the
            whole URL. ``None``: all.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["s3://bucket/train/"]).list_files_by_s3(masks="*.tar")
    IterableWrapper(['s3://bucket/train/']).list_files_by_s3(masks='*.tar')
    """

    _fluent: ClassVar[str | None] = "list_files_by_s3"

    source_datapipe: IterDataPipe[str]
    length: int | None = None
    request_timeout_ms: int | None = None
    region: str | None = None
    masks: str | Sequence[str] | None = None
    _: KW_ONLY
    transfer: Transfer | None = None

    def __post_init__(self) -> None:
        needed("s3fs", "s3", "list_files_by_s3")
        super().__post_init__()
        _patience(self)

    def _inner(self, prefix: str) -> list[str]:
        bucket, _, key = _s3_path(prefix, "list_files_by_s3").partition("/")
        folder, _, name = key.rpartition("/")
        transfer = _patience(self)

        def listed() -> list[str]:
            filesystem, path = filesystem_of(f"s3://{bucket}/{folder}".rstrip("/"), _options(self.region), transfer)
            found: list[str] = filesystem.find(path, prefix=name) or []
            return found

        urls = [f"s3://{path}" for path in Clock(transfer, hide(prefix)).tried(listed)]
        return [url for url in urls if url.startswith(prefix) and matches(url, self.masks)]

    __len__ = given_length


@operator
class S3FileLoader(Tolerant, IterDataPipe[tuple[str, StreamWrapper]]):
    """``(url, stream)`` for each URL of an object of S3, which is in memory by then.

    Args:
        request_timeout_ms: Milliseconds for connecting and for each wait for data, in place of the timeout of
            ``transfer``. ``None``: that of ``transfer``.
        region: The region of the bucket. ``None``: that of the environment.
        buffer_size: Taken for torchdata's sake, and not used: s3fs reads an object in one request.
        multi_part_download: Taken for torchdata's sake, and not used, for the same reason.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["s3://bucket/a.tar"]).load_files_by_s3(request_timeout_ms=5000)
    IterableWrapper(['s3://bucket/a.tar']).load_files_by_s3(request_timeout_ms=5000)
    """

    _fluent: ClassVar[str | None] = "load_files_by_s3"

    source_datapipe: IterDataPipe[str]
    request_timeout_ms: int | None = None
    region: str | None = None
    buffer_size: int | None = None
    multi_part_download: bool | None = None
    _: KW_ONLY
    transfer: Transfer | None = None

    def __post_init__(self) -> None:
        needed("s3fs", "s3", "load_files_by_s3")
        super().__post_init__()
        _patience(self)

    def _step(self) -> Step:
        region, transfer = self.region, _patience(self)

        def loaded(url: str) -> tuple[str, StreamWrapper]:
            path = _s3_path(url, "load_files_by_s3")

            def whole() -> bytes:
                filesystem, _ = filesystem_of(url, _options(region), transfer)
                data = filesystem.cat_file(path)
                if not isinstance(data, bytes):
                    raise CutShort(f"{url}: no answer")  # the deadline has passed, which the clock will say
                return data

            return url, StreamWrapper(io.BytesIO(Clock(transfer, url).tried(whole)), name=url)

        return Step("map", loaded)

    __len__ = same_length


def _patience(pipe: S3FileLister | S3FileLoader) -> Transfer:
    chosen, milliseconds = pipe.transfer or DEFAULT, pipe.request_timeout_ms
    if milliseconds in (None, -1):  # the latter is torchdata's way to say so
        return chosen
    needs(milliseconds > 0, pipe, "request_timeout_ms must be above 0, or None for the default")
    return replace(chosen, timeout=milliseconds / 1000)


def _options(region: str | None) -> dict[str, Any]:
    return {"client_kwargs": {"region_name": region}} if region else {}


def _s3_path(url: Any, method: str) -> str:
    scheme, separator, path = url_of(url, method).partition("://")
    if scheme != "s3" or not separator or not path.strip("/"):
        raise ValueError(f"{method}() needs URLs such as s3://bucket/key, got {url!r:.100}")
    return path
