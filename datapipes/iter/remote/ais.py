"""list_files_by_ais, load_files_by_ais: objects of an AIStore cluster, through its SDK."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper
from datapipes.io.remote.body import opened_body
from datapipes.io.remote.transfer import DEFAULT, Clock, Transfer
from datapipes.iter.remote.fsspec_files import url_of
from datapipes.messages.extras import needed
from datapipes.messages.short import hide
from datapipes.operators.checks import given_length, same_length
from datapipes.operators.flattening import Flattening
from datapipes.position.on_error import Tolerant
from datapipes.position.steps import Step


@operator
class AISFileLister(Tolerant, Flattening[str]):
    """The URLs of all objects of an AIStore cluster that begin with each URL, such as ``ais://bucket/prefix``.

    Args:
        url: The address of the cluster, such as ``"http://localhost:8080"``.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["ais://bucket/train/"]).list_files_by_ais("http://localhost:8080")
    IterableWrapper(['ais://bucket/train/']).list_files_by_ais('http://localhost:8080')
    """

    _fluent: ClassVar[str | None] = "list_files_by_ais"

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

    A stream gives the whole object or raises: what breaks is read anew, as ``transfer`` says.

    Args:
        url: The address of the cluster, such as ``"http://localhost:8080"``.
        length: Taken for torchdata's sake; ``len()`` is that of the source.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["ais://bucket/a.tar"]).load_files_by_ais("http://localhost:8080")
    IterableWrapper(['ais://bucket/a.tar']).load_files_by_ais('http://localhost:8080')
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
                # The SDK has no conditional ranges: what broke is read anew, and compared with what was given.
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
    """A client with the policy's timeouts and bounded connections, and without retries of its own."""
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
