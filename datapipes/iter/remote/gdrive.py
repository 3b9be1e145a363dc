"""read_from_gdrive: download files from Google Drive, past the page that asks for confirmation."""

from __future__ import annotations

import io
import re
from email.message import Message
from pathlib import PurePosixPath
from typing import Any, ClassVar
from urllib.parse import urlencode, urljoin, urlsplit

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import TransferError
from datapipes.io.remote.body import BUFFER, Body
from datapipes.io.remote.transfer import Transfer
from datapipes.io.remote.web import Visit, Web
from datapipes.iter.remote.http import Opener, WebReader
from datapipes.messages.short import hide

_LONGEST_PAGE = 1024 * 1024
_FILE_PAGE = re.compile(r"(https?://[^/]+)/file/d/([\w-]+)")


class GDriveReader(WebReader):
    """``(file name, stream)`` for each URL of a file on Google Drive; streams are like those of ``read_from_http``.

    Args:
        timeout: Seconds for connecting and for each wait for data, or a pair with a number for each, in place of those
            of ``transfer``. ``None``: those of ``transfer``.
        skip_on_error: Whether a URL that cannot be opened is left out, with a warning, as in torchdata. ``on_error``
            says more; only one of them can be given.
        transfer: Timeouts, deadline and retries, as a ``Transfer``. ``None``: those of ``Transfer()``.
        on_error: What becomes of a URL that cannot be opened: ``"raise"``; ``"skip"`` leaves it out; ``"retry(n)"``
            tries ``n`` more times; or a function of the error and the URL, whose result is handed on (``SKIP`` leaves
            the URL out).
        max_errors: The number of errors, or their share of the URLs (0.0 to 1.0), beyond which ``on_error`` no longer
            counts and ``TooManyErrors`` is raised. ``None``: any number.
        **kwargs: Options of requests for each URL: ``headers``, ``auth``, ``proxies``, ``params``, ``cookies``,
            ``verify``, ``cert``, ``allow_redirects`` and so on. Where a redirect leads to another host, that is sent
            none that could be secret.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(["https://drive.google.com/uc?id=1"]).read_from_gdrive()
    IterableWrapper(['https://drive.google.com/uc?id=1']).read_from_gdrive()
    """

    _parents: ClassVar[tuple[str, ...] | None] = ("source_datapipe",)
    _fluent: ClassVar[str | None] = "read_from_gdrive"

    def _opener(self) -> Opener:
        return gdrive_opener(self._patience(), self.kwargs)


def gdrive_opener(transfer: Transfer, options: dict[str, Any]) -> Opener:
    """Opener of Google Drive URLs, with connections that its files share."""
    web = Web(transfer, options)

    def opened(url: str) -> tuple[str, StreamWrapper]:
        visit = web.visit(hide(url))
        body = Body(_Asked(visit, url), visit.clock)
        name = _file_name(body.headers["Content-Disposition"], visit.clock.label)
        return name, StreamWrapper(io.BufferedReader(body, BUFFER), name=name)

    return opened


class _Asked:
    """Requests a file, and answers the page that asks for confirmation."""

    def __init__(self, visit: Visit, url: str) -> None:
        self._visit = visit
        self._confirmed = False
        self._address = _FILE_PAGE.sub(r"\1/uc?export=download&id=\2#", url).partition("#")[0]

    def __call__(self, headers: dict[str, str]) -> Any:
        answer = self._visit.get(self._address, headers)
        if not self._confirmed and not _is_file(answer):
            self._address, self._confirmed = self._confirmation(answer), True
            answer = self._visit.get(self._address, headers)
        if not _is_file(answer) and answer.status_code != 206:
            answer.close()
            raise RuntimeError(
                f"{self._visit.clock.label}: Google Drive sent a page without a content-disposition instead of a file; "
                "is the link shared with everybody, and is it that of a file?"
            )
        return answer.raw

    def _confirmation(self, answer: Any) -> str:
        """URL of the confirmation on the page at hand; an error if it says something else."""
        text = bytearray()
        while len(text) < _LONGEST_PAGE and (data := answer.raw.read1(64 * 1024, decode_content=True)):
            text += data
            self._visit.clock.check()
        answer.close()
        from datapipes.io.remote.drive_page import Page

        page = Page(text.decode("utf-8", "replace"))
        if "quota exceeded" in page.title.lower() or "too many users have viewed" in page.text.lower():
            raise RuntimeError(
                f"{self._visit.clock.label}: Google Drive - Quota exceeded: too many have read this file lately; "
                "try again later, or read a copy of it"
            )
        address = self._address
        warned = next((c.value for c in self._visit.session.cookies if c.name.startswith("download_warning")), None)
        if page.action is not None:
            target = urljoin(answer.url, page.action)
            address = f"{target}{'&' if urlsplit(target).query else '?'}{urlencode(page.fields)}"
        elif warned is not None:
            address = f"{address}&confirm={warned}"
        elif page.link is not None:
            address = urljoin(answer.url, page.link)
        if urlsplit(address).scheme not in ("https", urlsplit(self._address).scheme):
            raise TransferError(f"{self._visit.clock.label}: refused to follow a page to {hide(address)!r:.200}")
        return address


def _is_file(answer: Any) -> bool:
    return "Content-Disposition" in answer.headers


def _file_name(disposition: str, label: str) -> str:
    """The name in a content-disposition; never one that leads to another folder."""
    message = Message()
    message["Content-Disposition"] = disposition
    name = PurePosixPath((message.get_filename() or "").replace("\\", "/")).name
    if not name or name == ".." or "\0" in name:
        raise RuntimeError(f"{label}: the content-disposition {disposition!r:.100} names no file")
    return name
