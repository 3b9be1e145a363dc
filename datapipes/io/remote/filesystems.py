"""File systems of fsspec under the one policy of timeouts and retries.

The asynchronous ones (http, s3, gcs, ...) run in fsspec's own loop. They are given one that asks the running clock,
which travels with the context of a call, and ends a call that goes past its deadline. Those over http and s3 have the
policy's timeouts besides, and no retries of their own, so that these do not multiply. Over http, redirects are bounded,
never lead to a lesser scheme, and take no credentials to another host.
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
    """fsspec's loop; what is started in it ends when the deadline of the file that asked for it has passed."""

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
        return None  # whoever waits for this looks at the clock; fsspec has no place for the error


_LOOP = _BoundedLoop()


def filesystem_of(url: str, options: dict[str, Any], transfer: Transfer) -> tuple[Any, str]:
    """The file system that a URL belongs to, and the file's path in it."""
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
    """Whether a file system is this machine's own, so that nobody waits for it."""
    names = filesystem.protocol if isinstance(filesystem.protocol, tuple | list) else (filesystem.protocol,)
    return bool({"file", "local", "memory"} & set(names))


def _bounds(protocol: str, transfer: Transfer) -> dict[str, Any]:
    """The options that hold a file system to the policy's timeouts and retries."""
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
    """The user's options, which come first; where both are dicts, entry by entry."""
    return {
        name: {**bounds[name], **value} if isinstance(bounds.get(name), dict) and isinstance(value, dict) else value
        for name, value in options.items()
    }


def _missing(protocol: str, error: ImportError) -> ModuleNotFoundError:
    extra = _EXTRAS.get(protocol)
    install = f"pip install 'loader2[{extra}]'" if extra else f"see what fsspec needs for {protocol!r}"
    return ModuleNotFoundError(f"{protocol}:// needs a package that is missing: {install} ({error})")


async def _client(transfer: Transfer, **options: Any) -> Any:
    """An aiohttp session with the policy's timeouts, whose redirects are watched."""
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
    """Refuse a redirect, or take all headers but harmless ones from one that leads elsewhere."""
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
            f"{hide(str(old))}: refused to follow a redirect to {target.host}, because cookies would go there; "
            "give cookies a domain"
        )
    for name in [name for name in seen.headers if name.lower() not in HARMLESS | {"host"}]:
        seen.headers.popall(name, None)
