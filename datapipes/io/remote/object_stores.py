"""Objects of s3 and Azure read with obstore, if the extra ``fast`` is installed; see ``datapipes.io.fast``.

- obstore is for undisturbed reading. After any error the usual client, s3fs or adlfs, continues: its errors, texts and
  retries count. So each function returns None, or raises ConnectionError within a file, in place of errors of its own.
- obstore does not survive a fork. A process that inherits it from a process in which it was used has the usual client.
- Timeouts are those of ``Transfer``. obstore has no retries of its own, and no timeout for a whole body.
- Credentials, endpoint and region are those that botocore finds for s3fs, and those of adlfs's own client. Options that
  are not translated (``untranslated``) take the usual client. ``_SCHEMES`` has all that differs between the two.
- A call into obstore ignores signals, so it runs in a daemon thread, for which the caller waits up to the deadline.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from sys import maxsize
from typing import Any, NamedTuple, TypeVar

from datapipes.errors import TransferError
from datapipes.io.fast import fast_library
from datapipes.io.remote.filesystems import filesystem_of
from datapipes.io.remote.transfer import Clock, Transfer, may_pass_status
from datapipes.messages.daemon_threads import DaemonThreads
from datapipes.messages.interrupts import CtrlCWaits, wait_for

T = TypeVar("T")

_FIRST_PART = 256 * 1024  # bytes that are read with the answer's head, in one wait
_ODD_KEY = re.compile(r"//|^/|(?:^|/)\.\.?(?:/|$)|::|[\x00-\x1f\x7f]")  # the usual client reads these in its own way
_STATUS = re.compile(r"status code: (\d{3})")
_FRESH = timedelta(minutes=10)  # obstore asks for credentials again five minutes before they expire
_MOST_THREADS = 64

_threads = DaemonThreads(_MOST_THREADS, "obstore")  # of the whole process
_user: int | None = None
"""The process in which obstore was first used, or None."""


def usable() -> bool:
    """Return whether obstore is installed, and neither switched off nor inherited by a fork after its use."""
    return not _is_inherited() and fast_library("obstore") is not None


def _is_inherited() -> bool:
    return _user not in (None, os.getpid())


class _Scheme(NamedTuple):
    """The objects of one kind of URL."""

    client: str
    """The usual client."""
    path: re.Pattern[str]
    """The bucket and the key in a URL."""
    etag: str
    """The name of the ETag in the details of the client's files."""
    is_plain: bool
    """Whether the client gives the data of every object as they are, those of an empty and of an encoded one, too."""
    options: frozenset[str]
    """The client's options that are translated."""
    of_client: frozenset[str]
    """The options within ``client_kwargs`` that are translated."""
    store: Callable[[str, dict[str, Any], Transfer], Any]
    """Returns the store for a bucket's URL, or None if the usual client has to read it."""


def untranslated(name: str, options: dict[str, Any]) -> list[str]:
    """Return the names of the options that obstore would not get for URLs of a scheme.

    >>> untranslated("s3", {"anon": True, "requester_pays": True, "client_kwargs": {"verify": False}})
    ['client_kwargs["verify"]', 'requester_pays']
    """
    scheme, given = _SCHEMES[name], _given(name, options)
    of_client = (given.get("client_kwargs") or {}) if scheme.of_client else {}
    names = [name for name in given if name not in scheme.options and not (name == "client_kwargs" and of_client)]
    return sorted([*names, *(f'client_kwargs["{name}"]' for name in of_client if name not in scheme.of_client)])


def _given(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options for URLs of a scheme, with those that are given under its name."""
    return {**(options.get(name) or {}), **{key: value for key, value in options.items() if key != name}}


def way(options: dict[str, Any], for_open: dict[str, Any], *names: str) -> str:
    """Return a comment that says which library reads objects, and why it is not obstore.

    Args:
        options: Options of the file system.
        for_open: Options for opening a file, without those of text.
        *names: The schemes. None: those that have one of the options, or all.
    """
    ways = []
    own = [name for name in ("s3", "az") if options.keys() & {name, *_SCHEMES[name].options}]
    for name in names or own or ("s3", "az"):
        missing = untranslated(name, options) + sorted(for_open)
        why = f"gets no {', '.join(missing)}" if missing else ""
        why = why if usable() else "is not installed, switched off, or was used before a fork"
        client = _SCHEMES[name].client
        forked = f", by {client} in workers that are forked from now on" if _user == os.getpid() else ""
        ways.append(f"{name}:// by {client}: obstore {why}" if why else f"{name}:// by obstore{forked}")
    return "; ".join(ways)


def etag_of(file: Any) -> str | None:
    """Return the ETag of a file that obstore or the usual client has opened; None if it has none."""
    if isinstance(file, ObjectFile):
        return file.etag
    protocols = getattr(getattr(file, "fs", None), "protocol", ())  # of files of fsspec only
    scheme = next((_SCHEMES[name] for name in protocols if name in _SCHEMES), None)
    etag: str | None = None if scheme is None else file.details.get(scheme.etag)
    return f'"{etag}"' if etag and not etag.endswith('"') else etag  # some releases of adlfs leave the quotes out


class ObjectStores:
    """Buckets that a stage reads with obstore. ``options`` are those of the usual client."""

    def __init__(self, options: dict[str, Any], transfer: Transfer) -> None:
        self._options = options
        self._transfer = transfer
        self._is_used = usable()
        self._buckets: dict[str, _Bucket | None] = {}
        self._making = threading.Lock()  # files that are ahead are opened by several threads

    def opened(self, url: str, clock: Clock, part: int = _FIRST_PART) -> ObjectFile | None:
        """Open an object and read its first bytes. Return None if the usual client has to open it."""
        if url.endswith("/"):
            return None

        def work(bucket: _Bucket, key: str) -> ObjectFile | None:
            file = ObjectFile(bucket, key, clock, part)
            return file if bucket.scheme.is_plain or file.is_plain else None

        return self._tried(url, clock, work)

    def loaded(self, url: str, clock: Clock) -> bytes | None:
        """Return the content of an object. Return None if the usual client has to load it."""
        file = self.opened(url, clock, maxsize)
        return None if file is None else file.read(maxsize)

    def listed(self, prefix: str, clock: Clock) -> list[str] | None:
        """Return the URLs that begin with a prefix. Return None if the usual client has to list them."""
        url = f"{prefix}/" if prefix.count("/") == 2 else prefix
        return self._tried(url, clock, lambda bucket, key: _urls(bucket, key, clock))

    def _tried(self, url: str, clock: Clock, work: Callable[[_Bucket, str], T | None]) -> T | None:
        """Return the result of ``work`` for the bucket and the key of a URL. Return None if it fails."""
        name, _, path = url.partition("://")
        scheme = _SCHEMES.get(name) if self._is_used else None
        found = None if scheme is None else scheme.path.fullmatch(path)
        if found is None or _ODD_KEY.search(found["key"]):
            return None
        root = f"{name}://{found['bucket']}"
        try:
            with clock:
                bucket = self._bucket(root)
                return None if bucket is None else work(bucket, found["key"])
        except Exception as error:
            self._gives_up(root, error, clock)
            return None

    def _bucket(self, root: str) -> _Bucket | None:
        global _user
        if _is_inherited():
            return None
        with self._making:
            if root not in self._buckets:
                name, store = root.partition("://")[0], None
                if not untranslated(name, self._options) and not _configured(name):
                    store = _SCHEMES[name].store(root, _given(name, self._options), self._transfer)
                if store is not None:
                    _user = os.getpid()
                self._buckets[root] = None if store is None else _Bucket(root, _SCHEMES[name], store)
            return self._buckets[root]

    def _gives_up(self, root: str, error: Exception, clock: Clock) -> None:
        """Count an attempt that failed. A bucket whose first request has failed takes the usual client from then on."""
        status, bucket = _STATUS.search(str(error)), self._buckets.get(root)
        if status is None and (bucket is None or not bucket.is_proven):
            self._buckets[root] = None
        if status is None or may_pass_status(int(status[1])):
            clock.failed = min(clock.failed + 1, clock.transfer.retries)


def _waited(clock: Clock, call: Callable[[], T]) -> T:
    """Return the result of a call in a daemon thread. Raise TimeoutError at the deadline."""
    if threading.current_thread().daemon:  # such a thread delays no interruption
        return call()
    with CtrlCWaits():
        future = _threads.submit(call)
    try:
        if not wait_for(future, max(clock.left, 0.001)):
            raise TimeoutError("the deadline has passed")
        return future.result()
    finally:
        del future  # an error's traceback refers to this frame


class _Bucket:
    """Store of one bucket."""

    def __init__(self, root: str, scheme: _Scheme, store: Any) -> None:
        self.root = root
        self.scheme = scheme
        self.store = store
        self.is_proven = False


class ObjectFile:
    """Readable file of one object: from its start, or after ``seek`` from there on."""

    def __init__(self, bucket: _Bucket, key: str, clock: Clock, part: int) -> None:
        self.bucket = bucket
        self._key = key
        self._clock = clock
        self._at = 0
        self._ready, self._used = b"", 0  # received bytes, and how many of them were given
        answer, self._ready, self._parts = _waited(clock, lambda: self._began(part))
        bucket.is_proven = True
        meta = answer.meta
        self.size: int = meta["size"]
        self.etag: str | None = meta["e_tag"]
        self.is_plain = self.size > 0 and "Content-Encoding" not in answer.attributes

    def _began(self, part: int) -> tuple[Any, bytes, Iterator[Any] | None]:
        import obstore

        answer = obstore.get(self.bucket.store, self._key)
        return (answer, *self._taken(iter(answer.stream(min_chunk_size=1)), part, answer.meta["size"]))

    def _went_on(self, most: int) -> tuple[bytes, Iterator[Any] | None]:
        import obstore

        parts = self._parts
        if parts is None:
            options: dict[str, Any] = {"range": {"offset": self._at}}
            if self.etag is not None:
                options["if_match"] = self.etag
            parts = iter(obstore.get(self.bucket.store, self._key, options=options).stream(min_chunk_size=1))
        return self._taken(parts, most, self.size - self._at)

    def _taken(self, parts: Iterator[Any], most: int, left: int) -> tuple[bytes, Iterator[Any] | None]:
        """Return at least ``most`` bytes, or ``left`` as the end of the file. Return the parts behind them, if any."""
        taken, count = [], 0
        while count < min(most, left):
            part = next(parts, None)
            self._clock.check()
            if part is None:
                raise ConnectionError(f"it ended {left - count} bytes too early")
            taken.append(part)
            count += len(part)
        if count < left:
            return b"".join(taken), parts
        next(parts, None)  # the end, so that the connection can be used again
        return b"".join(taken), None

    def read(self, most: int) -> bytes:
        """Return up to ``most`` bytes; none at the end. Raise ConnectionError if obstore cannot read on."""
        if self._at >= self.size:
            return b""
        if self._used == len(self._ready):
            self._receive(most)
        part = self._ready[self._used : self._used + most]  # the same object if it is all of it
        self._used += len(part)
        self._at += len(part)
        return part

    def _receive(self, most: int) -> None:
        try:
            if _is_inherited():
                raise ConnectionError("obstore does not work in a fork of the process that has used it")
            (self._ready, self._parts), self._used = _waited(self._clock, lambda: self._went_on(max(most, 1))), 0
        except Exception as error:
            from obstore.exceptions import PreconditionError

            self.close()
            if isinstance(error, PreconditionError):
                text = f"{self._clock.label}: it has changed since it was opened; open it again"
                raise TransferError(text) from None
            raise ConnectionError(str(error).partition("\n\nDebug source")[0]) from None
        except BaseException:
            self.close()  # the thread may go on receiving
            raise

    def seekable(self) -> bool:
        """Return True: a new request continues anywhere."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to an offset, and return it."""
        at = max(0, offset + (0, self._at, self.size)[whence])
        if at != self._at:
            self.close()
            self._at = at
        return at

    def close(self) -> None:
        """End the answer; the connection is closed unless its body was read."""
        self._parts = None
        self._ready, self._used = b"", 0


def _urls(bucket: _Bucket, prefix: str, clock: Clock) -> list[str] | None:
    """Return the URLs of keys that begin with a prefix, in order. Return None if one may be the marker of a folder.

    obstore lists by folders, from an offset on. Keys come in order, so that the listing ends behind the prefix. It
    shows the marker of a folder, an empty object ``name/``, as ``name``.
    """
    import obstore

    folder, _, name = prefix.rpartition("/")
    before = f"{prefix[:-1]}{chr(ord(name[-1]) - 1)}\U0010fffd" if name and name[-1] > "!" else None
    pages = obstore.list(bucket.store, folder or None, offset=before, chunk_size=1000)
    found: list[str] = []
    while page := _waited(clock, lambda: next(pages, None)):
        bucket.is_proven = True
        for each in page:
            if each["path"].startswith(prefix):
                if not each["size"]:
                    return None
                found.append(f"{bucket.root}/{each['path']}")
            elif each["path"] > prefix:
                return found
    return found


class _Provider:
    """Provider of credentials to obstore. ``ask`` returns those that the usual client would use now."""

    def __init__(self, ask: Callable[[], dict[str, Any]]) -> None:
        self._ask = ask

    def __call__(self) -> dict[str, Any]:
        return {**self._ask(), "expires_at": datetime.now(UTC) + _FRESH}


def _common(credentials: _Provider | None, transfer: Transfer, **more: Any) -> dict[str, Any]:
    """Return the parameters of every store. ``more`` are further options of the client."""
    connect, read = transfer.timeouts
    return {
        "skip_signature": credentials is None,
        "credential_provider": credentials,
        "client_options": {
            "allow_http": True,
            "connect_timeout": timedelta(seconds=min(connect, transfer.deadline)),
            "read_timeout": timedelta(seconds=min(read, transfer.deadline)),
            "timeout": timedelta(days=365),  # of a whole body
            **more,
        },
        "retry_config": {"max_retries": 0},
    }


def _azure_store(root: str, options: dict[str, Any], transfer: Transfer) -> Any:
    """Return the store of a container with the account, the endpoint and the credentials of adlfs's own client."""
    from obstore.store import AzureStore

    filesystem, _ = filesystem_of(root, options, transfer)
    client, token = filesystem.service_client, filesystem.sync_credential
    endpoint, _, signature = client.url.partition("?")
    key = getattr(client.credential, "account_key", None)
    if key:
        credentials = _Provider(lambda: {"access_key": key})
    elif signature:
        credentials = _Provider(lambda: {"sas_token": signature})
    elif client.credential is None:
        credentials = None
    elif token is None:
        return None
    else:
        credentials = _Provider(lambda: {"token": token.get_token("https://storage.azure.com/.default").token})
    return AzureStore(
        root.partition("://")[2].partition("@")[0],
        account_name=client.account_name,
        endpoint=endpoint.rstrip("/"),
        use_emulator=False,  # whatever the environment says
        **_common(credentials, transfer),
    )


def _s3_store(root: str, options: dict[str, Any], transfer: Transfer) -> Any:
    """Return the store of a bucket with the credentials, the endpoint and the region that botocore finds."""
    from obstore.store import S3Store

    settings = _settings(json.dumps(options), _environment())
    if settings is None:
        return None
    name, endpoint = root.partition("://")[2], settings["endpoint"]
    is_virtual = settings["of_aws"] and "." not in name
    if is_virtual:
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{name}.{host}"
    trusted = settings["certificates"]
    more = {"root_certificate": trusted} if trusted and endpoint.startswith("https") else {}
    return S3Store(
        name,
        endpoint=endpoint,
        aws_endpoint_url_s3=endpoint,  # otherwise obstore takes the environment's first
        region=settings["region"],
        virtual_hosted_style_request=is_virtual,
        **_common(settings["credentials"], transfer, **more),
    )


def _environment() -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))


def _configured(name: str) -> bool:
    """Return whether fsspec's own configuration has options for a scheme."""
    from fsspec.config import conf

    return bool(conf.get(name))


@lru_cache(maxsize=64)
def _settings(options: str, _: tuple[tuple[str, str], ...]) -> dict[str, Any] | None:
    """Return endpoint, region and credentials as botocore finds them. Return None if it finds more than these.

    The second argument is the environment, on which the result depends, too.
    """
    given = json.loads(options)
    names = {"key": "aws_access_key_id", "secret": "aws_secret_access_key", "token": "aws_session_token"}
    of_client = {names.get(name, name): given[name] for name in (*names, "endpoint_url") if given.get(name)}
    of_client |= given.get("client_kwargs") or {}
    try:
        from botocore.credentials import Credentials
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError:
        return None  # fsspec says what is missing
    try:
        session = Session(profile=given.get("profile"))
        client = session.create_client("s3", **of_client)
        own = [of_client.get(name) for name in names.values()]
        credentials = None if given.get("anon") else Credentials(*own) if own[0] else session.get_credentials()
        bundle = session.get_config_variable("ca_bundle")
        certificates = Path(bundle).read_bytes() if bundle else None
    except (BotoCoreError, OSError, ValueError):
        return None  # s3fs shows the error
    client.close()
    meta, config = client.meta, client.meta.config
    more = [*(config.s3 or {}).values(), config.proxies]
    if any(value is not None for value in more) or (credentials is None and not given.get("anon")):
        return None
    host = meta.endpoint_url.partition("://")[2].partition("/")[0]
    return {
        "endpoint": meta.endpoint_url,
        "region": "us-east-1" if meta.region_name in (None, "aws-global") else meta.region_name,
        "of_aws": host.endswith((".amazonaws.com", ".amazonaws.com.cn")),
        "credentials": None if credentials is None else _Provider(partial(_keys_of, credentials)),
        "certificates": certificates,
    }


def _keys_of(credentials: Any) -> dict[str, Any]:
    frozen = credentials.get_frozen_credentials()
    return {"access_key_id": frozen.access_key, "secret_access_key": frozen.secret_key, "token": frozen.token}


_S3 = _Scheme(
    client="s3fs",
    path=re.compile(r"(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(?P<key>[^?]*)"),
    etag="ETag",
    is_plain=True,
    options=frozenset({"anon", "endpoint_url", "key", "profile", "secret", "token"}),
    of_client=frozenset(
        {"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "endpoint_url", "region_name"}
    ),
    store=_s3_store,
)
_AZURE = _Scheme(
    client="adlfs",
    path=re.compile(
        r"(?P<bucket>[a-z0-9][a-z0-9-]{1,61}[a-z0-9](?:@[a-z0-9]+\.(?:dfs|blob)\.core\.windows\.net)?)/(?P<key>[^?#]*)"
    ),
    etag="etag",
    is_plain=False,
    options=frozenset(
        {"account_host", "account_key", "account_name", "anon", "client_id", "client_secret", "connection_string"}
        | {"credential", "sas_token", "tenant_id"}
    ),
    of_client=frozenset(),
    store=_azure_store,
)
_SCHEMES = {"s3": _S3, "s3a": _S3, "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE}
