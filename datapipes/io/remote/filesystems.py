"""File systems of fsspec with the library's policy of timeouts and retries.

The asynchronous ones (http, s3, gcs, ...) run in fsspec's event loop. They get a wrapper of it that ends a call at the
deadline of the running clock, which travels in the context of the call. Those over http and s3 also have the policy's
timeouts, and no retries of their own, which would multiply with the policy's. Over http, redirects are bounded, never
lead to a less secure scheme, and take no credentials to another host.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from datapipes.errors import TransferError
from datapipes.io.remote.transfer import Clock, Transfer, running_clock
from datapipes.io.remote.web import HARMLESS, MOST_REDIRECTS, leads_elsewhere
from datapipes.messages.short import hide

_EXTRAS = {"http": "http", "https": "http", "s3": "s3", "s3a": "s3"}


def _fsspec_loop() -> Any:
    from fsspec.asyn import get_loop

    return get_loop()


class _BoundedLoop:
    """fsspec's event loop, in which each task ends at the deadline of the file that started it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_fsspec_loop(), name)

    def __repr__(self) -> str:
        return "bounded loop"  # part of the key under which fsspec keeps file systems

    def create_task(self, work: Any, **options: Any) -> asyncio.Task[Any]:
        clock = running_clock()
        bounded = work if clock is None else _in_time(work, clock)
        task: asyncio.Task[Any] = _fsspec_loop().create_task(bounded, **options)
        return task


async def _in_time(work: Any, clock: Clock) -> Any:
    try:
        return await asyncio.wait_for(work, max(clock.left, 0.001))
    except TimeoutError:
        if clock.left > 0:
            raise
        return None  # fsspec cannot report the error; the waiting caller checks the clock


_LOOP = _BoundedLoop()


def filesystem_of(url: str, options: dict[str, Any], transfer: Transfer) -> tuple[Any, str]:
    """Return the file system of a URL, and the file's path in it."""
    from fsspec.core import url_to_fs

    protocols = {part.partition("://")[0] for part in url.split("::") if "://" in part}
    chosen = dict(options)
    for protocol in sorted(protocols - {"file", "local", "memory"}):
        try:
            bounds = _bounds(protocol, transfer)
        except ImportError as error:
            raise _missing(protocol, error) from error
        chosen[protocol] = {**bounds, **_merged(bounds, options.get(protocol) or {})}
        if len(protocols) == 1:
            chosen = {**chosen.pop(protocol), **_merged(bounds, {k: v for k, v in chosen.items() if k != protocol})}
    filesystem, path = url_to_fs(url, **chosen)
    if "s3" in protocols and hasattr(filesystem, "retries"):
        filesystem.retries = 1
    return filesystem, path


def is_near(filesystem: Any) -> bool:
    """Return whether a file system is on this machine, so that it needs no deadline."""
    names = filesystem.protocol if isinstance(filesystem.protocol, tuple | list) else (filesystem.protocol,)
    return bool({"file", "local", "memory"} & set(names))


def _bounds(protocol: str, transfer: Transfer) -> dict[str, Any]:
    """Return the options that apply the policy's timeouts and retries to a file system."""
    import fsspec

    bounds: dict[str, Any] = {}
    kind = fsspec.get_filesystem_class(protocol)
    if kind.async_impl:
        bounds["loop"] = _LOOP
    connect, read = transfer.timeouts
    if protocol in ("http", "https"):
        bounds["get_client"] = partial(_client, transfer)
    elif protocol in ("s3", "s3a"):
        bounds["config_kwargs"] = {
            "connect_timeout": connect,
            "read_timeout": read,
            "retries": {"total_max_attempts": 1},
        }
    elif protocol in ("ftp", "sftp", "ssh"):
        bounds["timeout"] = max(1, round(read))
    return bounds


def _merged(bounds: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the user's options, merged into the bounds where both are dicts."""
    return {
        name: {**bounds[name], **value} if isinstance(bounds.get(name), dict) and isinstance(value, dict) else value
        for name, value in options.items()
    }


def _missing(protocol: str, error: ImportError) -> ModuleNotFoundError:
    extra = _EXTRAS.get(protocol)
    install = f"pip install 'loader2[{extra}]'" if extra else f"see what fsspec needs for {protocol!r}"
    return ModuleNotFoundError(f"{protocol}:// needs a package that is missing: {install} ({error})")


async def _client(transfer: Transfer, **options: Any) -> Any:
    """Return an aiohttp session with the policy's timeouts, which checks redirects."""
    import aiohttp

    options.pop("loop", None)
    connect, read = transfer.timeouts
    patience = aiohttp.ClientTimeout(total=transfer.deadline, sock_connect=connect, sock_read=read)
    watch = aiohttp.TraceConfig()
    watch.on_request_start.append(_begin)
    watch.on_request_redirect.append(_redirect)
    return aiohttp.ClientSession(
        **{"timeout": patience, **options, "trace_configs": [*(options.get("trace_configs") or ()), watch]}
    )


async def _begin(_: Any, context: Any, __: Any) -> None:
    context.redirects = 0


async def _redirect(session: Any, context: Any, seen: Any) -> None:
    """Refuse an unsafe redirect. Remove all headers but harmless ones if it leads to another host."""
    answer = seen.response
    old, location = answer.url, answer.headers.get("Location") or answer.headers.get("URI") or ""
    target = old.join(type(old)(location))
    context.redirects += 1
    if context.redirects >= MOST_REDIRECTS:  # aiohttp stops at ten as well, with an error that shows the URL
        raise TransferError(f"{hide(str(seen.url))}: more than {MOST_REDIRECTS - 1} redirects")
    if not leads_elsewhere(str(old), str(target)):
        return
    if any(not cookie["domain"] for cookie in session.cookie_jar):
        raise TransferError(
            f"{hide(str(old))}: refused to follow a redirect to {target.host}, because cookies would be sent there; "
            "give the cookies a domain"
        )
    for name in [name for name in seen.headers if name.lower() not in HARMLESS | {"host"}]:
        seen.headers.popall(name, None)
