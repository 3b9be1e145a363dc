"""list_files_by_s3, load_files_by_s3, list_files_by_ais, load_files_by_ais: objects of s3, and of an AIStore cluster.

Objects of s3 are read through s3fs, or through obstore with the extra ``fast``; those of AIStore through its SDK. The
environment sets the credentials and the endpoint of s3, as for other programs. For more options, use
``list_files_by_fsspec`` and ``open_files_by_fsspec``.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import CutShort
from datapipes.io.remote.body import opened_body
from datapipes.io.remote.filesystems import filesystem_of
from datapipes.io.remote.object_stores import ObjectStores, way
from datapipes.io.remote.remote_file import opened_url
from datapipes.io.remote.transfer import DEFAULT, Clock, Transfer
from datapipes.iter.files.listing import matches
from datapipes.iter.remote.ahead import MOST_BYTES_AHEAD, ReadsAhead
from datapipes.iter.remote.fsspec_files import url_of
from datapipes.messages.extras import needed
from datapipes.messages.short import hide
from datapipes.operator_support.checks import given_length, needs, same_length
from datapipes.operator_support.flattening import Flattening
from datapipes.position.on_error import Tolerant
from datapipes.position.steps import Step


@operator
class S3FileLister(Tolerant, Flattening[str]):
    """The URLs of all objects of S3 that begin with each URL, such as ``s3://bucket/prefix``.

    With the extra ``fast`` they are listed with obstore.

    Args:
        request_timeout_ms: Milliseconds for connecting and for each wait for data. ``None``: the timeout of
            ``transfer``.
        region: The region of the bucket. ``None``: that of the environment.
        masks: A pattern for URLs, such as ``"*.tar"``, or several, one of which must match. They are compared with the
            whole URL. ``None``: all.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["s3://bucket/train/"]).list_files_by_s3(masks="*.tar")
    IterableWrapper(['s3://bucket/train/']).list_files_by_s3(masks='*.tar')
    """

    _fluent: ClassVar[str | None] = "list_files_by_s3"
    _lists: ClassVar[bool] = True

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

    def __str__(self) -> str:
        return f"{self!r}  # {way({}, {}, 's3')}"

    def _inner(self, prefix: str) -> list[str]:
        bucket, _, key = _s3_path(prefix, "list_files_by_s3").partition("/")
        folder, _, name = key.rpartition("/")
        transfer = _patience(self)

        def listed() -> list[str]:
            filesystem, path = filesystem_of(f"s3://{bucket}/{folder}".rstrip("/"), _options(self.region), transfer)
            found: list[str] = filesystem.find(path, prefix=name) or []
            return found

        clock = Clock(transfer, hide(prefix))
        urls = ObjectStores(_options(self.region), transfer).listed(prefix, clock)
        if urls is None:
            urls = [f"s3://{path}" for path in clock.tried(listed)]
        return [url for url in urls if url.startswith(prefix) and matches(url, self.masks)]

    __len__ = given_length


@operator
class S3FileLoader(Tolerant, ReadsAhead[tuple[str, StreamWrapper]]):
    """``(url, stream)`` for each URL of an object of S3, whose content is in memory.

    With the extra ``fast`` objects are loaded with obstore, otherwise with s3fs; printing the stage says so.

    Args:
        request_timeout_ms: Milliseconds for connecting and for each wait for data. ``None``: the timeout of
            ``transfer``.
        region: The region of the bucket. ``None``: that of the environment.
        buffer_size: Has no effect: an object is read in one request.
        multi_part_download: Has no effect, for the same reason.
        ahead: Number of objects to load before their turn, each in a thread, so that the latency is hidden.
        ahead_bytes: Number of bytes to load of these objects before their turn, in all.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["s3://bucket/a.tar"]).load_files_by_s3()
    IterableWrapper(['s3://bucket/a.tar']).load_files_by_s3()
    """

    _fluent: ClassVar[str | None] = "load_files_by_s3"

    source_datapipe: IterDataPipe[str]
    request_timeout_ms: int | None = None
    region: str | None = None
    buffer_size: int | None = None
    multi_part_download: bool | None = None
    _: KW_ONLY
    ahead: int = 0
    ahead_bytes: int = MOST_BYTES_AHEAD
    transfer: Transfer | None = None

    def __post_init__(self) -> None:
        needed("s3fs", "s3", "load_files_by_s3")
        super().__post_init__()
        self.check_ahead()
        _patience(self)

    def __str__(self) -> str:
        return f"{self!r}  # {way({}, {}, 's3')}"

    def _opener(self) -> Callable[[str], tuple[str, StreamWrapper]]:
        region, transfer = self.region, _patience(self)
        stores = ObjectStores(_options(region), transfer)

        def opened(url: str) -> tuple[str, StreamWrapper]:
            _s3_path(url, "load_files_by_s3")
            return opened_url(url, "rb", transfer, _options(region), {}, stores)

        def loaded(url: str) -> tuple[str, StreamWrapper]:
            path = _s3_path(url, "load_files_by_s3")

            def whole() -> bytes:
                filesystem, _ = filesystem_of(url, _options(region), transfer)
                data = filesystem.cat_file(path)
                if not isinstance(data, bytes):
                    raise CutShort(f"{url}: no answer")  # after the deadline, when the clock raises its own error
                return data

            clock = Clock(transfer, url)
            data = stores.loaded(url, clock)
            return url, StreamWrapper(io.BytesIO(clock.tried(whole) if data is None else data), name=url)

        return opened if self.ahead else loaded

    def loader(self) -> Callable[[Any], Any]:
        """Return a function that loads an object whose beginning was read."""

        def loaded(opened: tuple[str, StreamWrapper]) -> tuple[str, StreamWrapper]:
            url, stream = opened
            with stream:
                return url, StreamWrapper(io.BytesIO(stream.read()), name=url)

        return loaded

    __len__ = same_length


def _patience(pipe: S3FileLister | S3FileLoader) -> Transfer:
    chosen, milliseconds = pipe.transfer or DEFAULT, pipe.request_timeout_ms
    if milliseconds in (None, -1):  # -1 is torchdata's default
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


@operator
class AISFileLister(Tolerant, Flattening[str]):
    """The URLs of all objects of an AIStore cluster that begin with each URL, such as ``ais://bucket/prefix``.

    Args:
        url: The address of the cluster, such as ``"http://localhost:8080"``.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["ais://bucket/"]).list_files_by_ais("http://ais:8080")
    IterableWrapper(['ais://bucket/']).list_files_by_ais('http://ais:8080')
    """

    _fluent: ClassVar[str | None] = "list_files_by_ais"
    _lists: ClassVar[bool] = True

    source_datapipe: IterDataPipe[str]
    url: str
    length: int | None = None
    _: KW_ONLY
    transfer: Transfer | None = None

    def __post_init__(self) -> None:
        needed("aistore", "ais", "list_files_by_ais")
        super().__post_init__()

    def _inner(self, prefix: str) -> list[str]:
        transfer = self.transfer or DEFAULT
        provider, bucket, name = _parsed(prefix, "list_files_by_ais")

        def listed() -> list[str]:
            of_bucket = _client(self.url, transfer).bucket(bucket, provider=provider)
            return [f"{provider}://{bucket}/{found.name}" for found in of_bucket.list_objects_iter(prefix=name)]

        return Clock(transfer, hide(prefix)).tried(listed)

    __len__ = given_length


@operator
class AISFileLoader(Tolerant, IterDataPipe[tuple[str, StreamWrapper]]):
    """``(url, stream)`` for each URL of an object of an AIStore cluster.

    A stream gives the whole object or raises: ``transfer`` controls the retries, which read it again from its start.

    Args:
        url: The address of the cluster, such as ``"http://localhost:8080"``.
        length: Has no effect; ``len()`` is that of the source.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["ais://b/a.tar"]).load_files_by_ais("http://ais:8080")
    IterableWrapper(['ais://b/a.tar']).load_files_by_ais('http://ais:8080')
    """

    _fluent: ClassVar[str | None] = "load_files_by_ais"

    source_datapipe: IterDataPipe[str]
    url: str
    length: int | None = None
    _: KW_ONLY
    transfer: Transfer | None = None

    def __post_init__(self) -> None:
        needed("aistore", "ais", "load_files_by_ais")
        super().__post_init__()

    def _step(self) -> Step:
        transfer = self.transfer or DEFAULT
        client = _client(self.url, transfer)

        def loaded(url: str) -> tuple[str, StreamWrapper]:
            provider, bucket, name = _parsed(url, "load_files_by_ais")

            def fetch(_: dict[str, str]) -> Any:
                # The SDK has no conditional ranges: a broken body is read again, and compared with the bytes given.
                return client.bucket(bucket, provider=provider).object(name).get_reader().raw()

            return url, StreamWrapper(opened_body(fetch, Clock(transfer, hide(url))), name=url)

        return Step("map", loaded)

    __len__ = same_length


def _parsed(url: Any, method: str) -> tuple[str, str, str]:
    provider, separator, rest = url_of(url, method).partition("://")
    bucket, _, name = rest.partition("/")
    if not separator or not bucket:
        raise ValueError(f"{method}() needs URLs such as ais://bucket/object, got {url!r:.100}")
    return provider, bucket, name


def _client(url: str, transfer: Transfer) -> Any:
    """Return a client with the policy's timeouts and bounded connections, and without retries of its own."""
    import tenacity
    from aistore.sdk import Client
    from aistore.sdk.retry_config import RetryConfig
    from urllib3.util.retry import Retry

    from datapipes.io.remote.bounded_http import BoundedAdapter

    once = tenacity.Retrying(stop=tenacity.stop_after_attempt(1), reraise=True)
    client = Client(url, timeout=transfer.timeouts, retry_config=RetryConfig(Retry(0), once))
    session = client.bucket("").client.session_manager.session
    for scheme in ("http://", "https://"):
        session.mount(scheme, BoundedAdapter())
    return client
