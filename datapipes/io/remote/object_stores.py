"""Objects of s3 read with obstore, if the extra ``fast`` is installed; see ``datapipes.io.fast``.

- obstore is for undisturbed reading. After any error the usual client, s3fs, continues: its errors, texts and retries
  count. So each function returns None, or raises ConnectionError within a file, in place of errors of its own.
- obstore does not survive a fork. A process that inherits it from a process in which it was used has the usual client.
- Timeouts are those of ``Transfer``. obstore has no retries of its own, and no timeout for a whole body.
- Credentials, endpoint and region are those that botocore finds, as for s3fs. Options that are not translated
  (``untranslated``) take the usual client.
- A call into obstore ignores signals, so it runs in a daemon thread, for which the caller waits up to the deadline.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from sys import maxsize
from typing import Any, TypeVar

from datapipes.errors import TransferError
from datapipes.io.fast import fast_library
from datapipes.io.remote.daemon_threads import DaemonThreads
from datapipes.io.remote.transfer import Clock, Transfer, may_pass_status
from datapipes.messages.interrupts import CtrlCWaits, wait_for

T = TypeVar("T")

_FIRST_PART = 256 * 1024  # bytes that are read with the answer's head, in one wait
_URL = re.compile(r"s3a?://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(?P<key>[^?]*)")
_ODD_KEY = re.compile(r"//|^/|(?:^|/)\.\.?(?:/|$)|::|[\x00-\x1f\x7f]")  # s3fs reads these in its own way
_STATUS = re.compile(r"status code: (\d{3})")
_TRANSLATED = {"anon", "client_kwargs", "endpoint_url", "key", "profile", "secret", "token"}
_OF_CLIENT = {"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "endpoint_url", "region_name"}
_FRESH = timedelta(minutes=10)  # botocore renews credentials this long before they expire, obstore five minutes before
_MOST_THREADS = 64

_threads = DaemonThreads(_MOST_THREADS, "obstore")  # of the whole process
_user: int | None = None
"""The process in which obstore was first used, or None."""


def usable() -> bool:
    """Return whether obstore is installed, and neither switched off nor inherited by a fork after its use."""
    return not _is_inherited() and fast_library("obstore") is not None


def _is_inherited() -> bool:
    return _user not in (None, os.getpid())


def untranslated(options: dict[str, Any]) -> list[str]:
    """Return the names of the options of s3fs that obstore would not get.

    >>> untranslated({"anon": True, "requester_pays": True, "client_kwargs": {"verify": False}})
    ['client_kwargs["verify"]', 'requester_pays']
    """
    of_client = options.get("client_kwargs") or {}
    names = [name for name in options if name not in _TRANSLATED]
    return sorted([*names, *(f'client_kwargs["{name}"]' for name in of_client if name not in _OF_CLIENT)])


def way(options: dict[str, Any], for_open: dict[str, Any]) -> str:
    """Return a comment that says which library reads objects of s3, and why it is not obstore.

    Args:
        options: Options of the file system.
        for_open: Options for opening a file, without those of text.
    """
    if not usable():
        return "s3:// by s3fs: obstore is not installed, switched off, or was used before a fork"
    names = untranslated(_of_s3(options)) + sorted(for_open)
    return f"s3:// by s3fs: obstore gets no {', '.join(names)}" if names else "s3:// by obstore"


def _of_s3(options: dict[str, Any]) -> dict[str, Any]:
    return {**(options.get("s3") or {}), **{name: value for name, value in options.items() if name != "s3"}}


class ObjectStores:
    """Buckets that a stage reads with obstore. ``options`` are those of s3fs."""

    def __init__(self, options: dict[str, Any], transfer: Transfer) -> None:
        self._options = _of_s3(options)
        self._transfer = transfer
        self._is_used = usable() and not untranslated(self._options) and not _configured()
        self._buckets: dict[str, _Bucket | None] = {}
        self._making = threading.Lock()  # files that are ahead are opened by several threads

    def opened(self, url: str, clock: Clock, part: int = _FIRST_PART) -> ObjectFile | None:
        """Open an object and read its first bytes. Return None if the usual client has to open it."""
        if url.endswith("/"):
            return None
        return self._tried(url, clock, lambda bucket, key: ObjectFile(bucket, key, clock, part))

    def loaded(self, url: str, clock: Clock) -> bytes | None:
        """Return the content of an object. Return None if the usual client has to load it."""
        file = self.opened(url, clock, maxsize)
        return None if file is None else file.read(maxsize)

    def listed(self, prefix: str, clock: Clock) -> list[str] | None:
        """Return the URLs that begin with a prefix. Return None if the usual client has to list them."""
        url = f"{prefix}/" if prefix.count("/") == 2 else prefix
        return self._tried(url, clock, lambda bucket, key: _urls(bucket, key, clock))

    def _tried(self, url: str, clock: Clock, work: Callable[[_Bucket, str], T]) -> T | None:
        """Return the result of ``work`` for the bucket and the key of a URL. Return None if it fails."""
        found = _URL.fullmatch(url) if self._is_used else None
        if found is None or _ODD_KEY.search(found["key"]):
            return None
        bucket = self._bucket(found["bucket"])
        if bucket is None:
            return None
        try:
            with clock:
                return work(bucket, found["key"])
        except Exception as error:
            self._gives_up(bucket, error, clock)
            return None

    def _bucket(self, name: str) -> _Bucket | None:
        if _is_inherited():
            return None
        with self._making:
            if name not in self._buckets:
                settings = _settings(json.dumps(self._options), _environment())
                self._buckets[name] = None if settings is None else _Bucket(name, settings, self._transfer)
            return self._buckets[name]

    def _gives_up(self, bucket: _Bucket, error: Exception, clock: Clock) -> None:
        """Count an attempt that failed. A bucket whose first request has failed takes the usual client from then on."""
        status = _STATUS.search(str(error))
        if status is None and not bucket.is_proven:
            self._buckets[bucket.name] = None
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

    def __init__(self, name: str, settings: dict[str, Any], transfer: Transfer) -> None:
        global _user
        from obstore.store import S3Store

        connect, read = transfer.timeouts
        endpoint = settings["endpoint"]
        is_virtual = settings["of_aws"] and "." not in name
        if is_virtual:
            scheme, _, host = endpoint.partition("://")
            endpoint = f"{scheme}://{name}.{host}"
        self.name = name
        self.is_proven = False
        _user = os.getpid()
        trusted = settings["certificates"]
        self.store = S3Store(
            name,
            endpoint=endpoint,
            aws_endpoint_url_s3=endpoint,  # otherwise obstore takes the environment's first
            region=settings["region"],
            virtual_hosted_style_request=is_virtual,
            skip_signature=settings["credentials"] is None,
            credential_provider=settings["credentials"],
            client_options={
                "allow_http": True,
                "connect_timeout": timedelta(seconds=min(connect, transfer.deadline)),
                "read_timeout": timedelta(seconds=min(read, transfer.deadline)),
                "timeout": timedelta(days=365),  # of a whole body
                **({"root_certificate": trusted} if trusted and endpoint.startswith("https") else {}),
            },
            retry_config={"max_retries": 0},
        )


class ObjectFile:
    """Readable file of one object: from its start, or after ``seek`` from there on."""

    def __init__(self, bucket: _Bucket, key: str, clock: Clock, part: int) -> None:
        self.bucket = bucket
        self._key = key
        self._clock = clock
        self._at = 0
        self._ready, self._used = b"", 0  # received bytes, and how many of them were given
        meta, self._ready, self._parts = _waited(clock, lambda: self._began(part))
        bucket.is_proven = True
        self.size: int = meta["size"]
        self.etag: str | None = meta["e_tag"]

    def _began(self, part: int) -> tuple[Any, bytes, Iterator[Any] | None]:
        import obstore

        answer = obstore.get(self.bucket.store, self._key)
        return (answer.meta, *self._taken(iter(answer.stream(min_chunk_size=1)), part, answer.meta["size"]))

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
                found.append(f"s3://{bucket.name}/{each['path']}")
            elif each["path"] > prefix:
                return found
    return found


class _Credentials:
    """Provider of botocore's credentials to obstore."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def __call__(self) -> dict[str, Any]:
        frozen = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _FRESH,
        }


def _environment() -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))


def _configured() -> bool:
    """Return whether fsspec's own configuration has options for s3."""
    from fsspec.config import conf

    return bool(conf.get("s3"))


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
        "credentials": None if credentials is None else _Credentials(credentials),
        "certificates": certificates,
    }
