"""read_from_gdrive and read_from_remote, against pages such as Google Drive has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from datapipes import Transfer
from datapipes.iter import GDriveReader, IterableWrapper, OnlineReader
from datapipes.iter.remote import http
from tests.http_server import File, Handler, Page, Server, redirect, serving

QUICK = Transfer(timeout=200, deadline=500, retries=2, backoff=0)
DATA = b"rows of data" * 50_000


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def page(text: str, **headers: str) -> Page:
    return lambda handler: handler.send(200, f"<html>{text}</html>".encode(), Content_Type="text/html", **headers)


def named(disposition: str, file: File | None = None) -> Page:
    """A file with a name."""
    file = file or File(DATA)

    def answer(handler: Handler) -> None:
        begin = handler.begin
        handler.begin = lambda status, headers: begin(status, {**headers, "Content-Disposition": disposition})  # type: ignore[method-assign]  # for this answer
        file(handler)

    return answer


FORM = """<head><title>Google Drive - Virus scan warning</title></head><form id="search-form" action="/search">
<input type="hidden" name="q" value="no"></form><form id="download-form" action="/download" method="get">
<input type="hidden" name="id" value="1"><input type="hidden" name="confirm" value="t&amp;x">
<input type="submit" value="Download anyway"></form><input type="hidden" name="late" value="no">"""


def read(server: Server, path: str = "/uc?id=1&export=download") -> list[tuple[str, bytes]]:
    dp = IterableWrapper([server.url(path)]).read_from_gdrive(transfer=QUICK)
    assert isinstance(dp, GDriveReader)
    return [(name, stream.read()) for name, stream in dp]


def test_a_small_file(server: Server) -> None:
    server.pages |= {"/uc": redirect("/download?id=1"), "/download": named('attachment; filename="a b.csv"')}
    assert read(server) == [("a b.csv", DATA)]


def test_a_page_to_be_confirmed(server: Server) -> None:
    server.pages |= {"/uc": page(FORM), "/download": named("attachment; filename=big.bin")}
    assert read(server) == [("big.bin", DATA)]
    assert server.requests[1].path == "/download?id=1&confirm=t%26x"


def test_a_confirmed_file_is_resumed_where_it_broke(server: Server) -> None:
    broken = named("attachment; filename=big.bin", File(DATA, breaks=[300_000, 100_000]))
    server.pages |= {"/uc": page(FORM), "/download": broken}
    assert read(server) == [("big.bin", DATA)]
    assert [len(server.asked(path)) for path in ("/uc", "/download")] == [1, 3]


def test_a_cookie_to_be_confirmed(server: Server) -> None:
    asking = page("sure?", Set_Cookie="download_warning_1=xyz")
    file = named("attachment; filename=big.bin")
    server.pages["/uc"] = lambda handler: (file if "confirm=xyz" in handler.path else asking)(handler)
    assert read(server) == [("big.bin", DATA)]
    assert "download_warning_1=xyz" in server.requests[1].headers["cookie"]


def test_a_link_to_be_followed(server: Server) -> None:
    server.pages |= {"/uc": page('<a href="/get?confirm=a&amp;id=1">yes</a>'), "/get": named("attachment; filename=x")}
    assert read(server) == [("x", DATA)]


def test_the_page_of_a_file_is_turned_into_its_download(server: Server) -> None:
    server.pages["/uc"] = named("attachment; filename=x")
    assert read(server, "/file/d/1a_B-/view?usp=sharing") == [("x", DATA)]
    assert server.requests[0].path == "/uc?export=download&id=1a_B-"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<title>Google Drive - Quota exceeded</title>", "Quota exceeded"),
        ("Sorry. Too many users have viewed or downloaded this file recently", "Quota exceeded"),
        ("<title>Sign in</title>", "without a content-disposition"),
        ("x" * 3_000_000, "without a content-disposition"),
    ],
)
def test_pages_that_lead_nowhere(server: Server, text: str, message: str) -> None:
    server.pages["/uc"] = page(text)
    with pytest.raises(RuntimeError, match=message):
        read(server)
    assert len(server.requests) <= 2


@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://host/x", "javascript:x"])
def test_a_page_cannot_lead_to_another_scheme(server: Server, target: str) -> None:
    server.pages["/uc"] = page(f'<form id="download-form" action="{target}"></form>')
    with pytest.raises(OSError, match="refused to follow a page"):
        read(server)


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('attachment; filename="../../.bashrc"', ".bashrc"),
        ('attachment; filename="C:\\\\x\\\\y.txt"', "y.txt"),
        ("attachment; filename*=UTF-8''%c3%a4.txt", "ä.txt"),
        ("attachment; filename=/etc/passwd", "passwd"),
    ],
)
def test_a_name_leads_to_no_other_folder(server: Server, disposition: str, name: str) -> None:
    server.pages["/uc"] = named(disposition)
    assert read(server) == [(name, DATA)]


@pytest.mark.parametrize("disposition", ["attachment", 'attachment; filename=".."', 'attachment; filename="/"'])
def test_no_name_at_all(server: Server, disposition: str) -> None:
    server.pages["/uc"] = named(disposition)
    with pytest.raises(RuntimeError, match="has no file name"):
        read(server)


def test_the_host_decides(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "GOOGLE", {"localhost"})
    server.pages |= {"/uc": page(FORM), "/download": named("attachment; filename=x"), "/f": File(b"f")}
    urls = [server.url("/uc", "localhost"), server.url("/f")]
    dp = IterableWrapper(urls).read_from_remote(transfer=QUICK)
    assert isinstance(dp, OnlineReader)
    assert len(dp) == 2
    assert [(name, stream.read()) for name, stream in dp] == [("x", DATA), (urls[1], b"f")]
    server.pages.clear()
    with pytest.warns(UserWarning, match="skipping"):
        assert list(IterableWrapper(urls).read_from_remote(skip_on_error=True, timeout=5)) == []
