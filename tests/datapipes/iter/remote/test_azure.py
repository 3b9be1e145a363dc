"""Blobs of Azure, read by adlfs and by obstore from a server that understands both of them, and misbehaves."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from types import SimpleNamespace
from typing import Any

import adlfs
import pytest

from datapipes import Transfer
from datapipes.errors import StateError, TransferError
from datapipes.io.remote import object_stores
from datapipes.iter import FSSpecFileOpener, IterableWrapper
from datapipes.messages.switches import FAST
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.datapipes.iter.remote.in_a_fork import must_read_on_in_a_fork
from tests.http_server import File, InTurn, Page, Server, serving, status

QUICK = Transfer(timeout=200, deadline=500, retries=2, backoff=0)
DATA = Random(3).randbytes(700_000)
KEY = "a2V5"
DATED = "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.fixture(autouse=True, params=["adlfs", "obstore"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The library that reads blobs."""
    monkeypatch.setenv(FAST, "0" if request.param == "adlfs" else "1")
    return str(request.param)


def account(server: Server, credentials: str = f"AccountKey={KEY}") -> str:
    """A connection string."""
    return f"AccountName=me;BlobEndpoint={server.url('/me')};{credentials}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of one blob, with which the environment connects."""
    for name in ("ACCOUNT_NAME", "ACCOUNT_KEY", "SAS_TOKEN", "CLIENT_ID", "CLIENT_SECRET", "TENANT_ID", "ANON"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    with serving() as server:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", account(server))
        server.pages["/me/box/f"] = blob(DATA)
        yield server
        adlfs.AzureBlobFileSystem.clear_instance_cache()


def blob(data: bytes, **options: Any) -> Page:
    return of_azure(File(data, modified=DATED, **options))


def of_azure(page: Page) -> Page:
    """A page that also understands the range as adlfs asks for it."""

    def answer(handler: Any) -> None:
        wanted = handler.headers.get("x-ms-range")
        if wanted:
            handler.headers["Range"] = wanted
        page(handler)

    return answer


def only_get(page: Page) -> Page:
    """HEAD goes well, and GET is the page."""
    whole = blob(DATA)
    return of_azure(lambda handler: (whole if handler.command == "HEAD" else page)(handler))


def opener(*urls: str, transfer: Transfer = QUICK, **options: Any) -> Any:
    return FSSpecFileOpener(urls or ["az://box/f"], "rb", transfer=transfer, **options)


def read(*urls: str, **options: Any) -> Any:
    [(_, stream)] = opener(*urls, **options)
    with stream:
        return stream.read()


def by_obstore(server: Server) -> list[bool]:
    """Which of the requests were made with obstore."""
    return ["object_store" in seen.headers["user-agent"] for seen in server.requests]


@pytest.mark.parametrize("url", ["az://box/f", "abfs://box/f", "abfss://box/f", "az://box@me.dfs.core.windows.net/f"])
def test_reading(server: Server, url: str, library: str) -> None:
    assert read(url) == DATA
    assert by_obstore(server) == [library == "obstore"] * (1 if library == "obstore" else 2)


def test_text_and_seeking(server: Server) -> None:
    with next(iter(opener()))[1] as stream:
        for at in (0, 10, 600_000, 400_000, len(DATA), 5):
            assert stream.seek(at) == at
            assert (stream.read(7), stream.tell()) == (DATA[at : at + 7], min(len(DATA), at + 7))
        assert stream.seek(-5, 2) == len(DATA) - 5
        assert stream.read() == DATA[-5:]
    server.pages["/me/box/f"] = blob("ä\r\n".encode("latin-1"))
    options = {"encoding": "latin-1", "newline": ""}
    assert [s.read() for _, s in FSSpecFileOpener(["az://box/f"], kwargs_for_open=options)] == ["ä\r\n"]


def test_errors_are_those_of_adlfs(server: Server, library: str) -> None:
    server.pages["/me/box/missing"] = server.pages["/me/box"] = status(404, x_ms_error_code="BlobNotFound")
    with pytest.raises(FileNotFoundError, match="az://box/missing"):
        read("az://box/missing")
    server.pages["/me/box/f"] = of_azure(status(403))
    with pytest.raises(Exception, match="az://box/f") as caught:
        read()
    assert type(caught.value).__name__ in ("HttpResponseError", "ClientAuthenticationError")
    assert not by_obstore(server)[-1]
    assert any(by_obstore(server)) == (library == "obstore")


def test_a_server_that_fails_once(server: Server, library: str) -> None:
    if library == "obstore":  # the Azure SDK waits for fifteen seconds
        server.pages["/me/box/f"] = of_azure(InTurn([status(503), only_get(blob(DATA))]))
        assert read() == DATA


def test_adlfs_continues_a_body_that_breaks(server: Server, library: str) -> None:
    if library == "obstore":
        server.pages["/me/box/f"] = blob(DATA, breaks=[300_000])
        assert read() == DATA
        assert by_obstore(server) == [True, False, False]


def test_a_blob_that_changes_meanwhile_is_an_error(server: Server, library: str) -> None:
    if library == "obstore":  # adlfs does not notice it
        server.pages["/me/box/f"] = InTurn([blob(DATA, breaks=[300_000]), blob(DATA[::-1], etag='"2"')])
        with pytest.raises(TransferError, match="az://box/f: it has changed since it was opened"):
            read()


@pytest.mark.parametrize("text", [b"", b"text" * 10])
def test_adlfs_opens_empty_and_encoded_blobs(server: Server, text: bytes) -> None:
    packed = gzip.compress(text) if text else b""
    server.pages["/me/box/f"] = blob(packed, encoding="gzip" if text else None)
    assert read() == text[: len(packed)]  # adlfs decodes it, and gives as many bytes as the blob has
    assert not by_obstore(server)[-1]


@pytest.mark.parametrize("key", ["x?y", "a#b", "a//b", "end/", "./here"])
def test_odd_keys_take_adlfs(server: Server, key: str) -> None:
    with pytest.raises(Exception, match=r"az://box"):
        read(f"az://box/{key}")
    assert not any(by_obstore(server))


@pytest.mark.parametrize(
    ("options", "for_open"),
    [({"max_concurrency": 3}, {}), ({"abfs": {}}, {}), ({"version_aware": True}, {}), ({}, {"block_size": 2**20})],
)
def test_options_that_are_not_translated_take_adlfs(
    server: Server, options: dict[str, Any], for_open: dict[str, Any], library: str
) -> None:
    dp = opener(kwargs_for_open=for_open, **options)
    assert read(kwargs_for_open=for_open, **options) == DATA
    assert not any(by_obstore(server))
    [name] = {**options, **for_open}
    if library == "obstore":
        way = f"obstore gets no {name}"
        assert str(dp).endswith(f"  # s3:// by s3fs: {way}; az:// by adlfs: {way}")


def test_credentials_are_those_of_adlfs(server: Server, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read() == DATA
    assert all(seen.headers["authorization"].startswith("SharedKey me:") for seen in server.requests)
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    for credentials in ("SharedAccessSignature=sv=1&sig=hush%3D", ""):
        server.requests.clear()
        dp = opener(az={"connection_string": account(server, credentials)})
        assert [stream.read() for _, stream in dp] == [DATA]
        assert by_obstore(server)[0] == (library == "obstore")
        assert not any("authorization" in seen.headers for seen in server.requests)
        assert all(
            ("sv=1" in seen.path and "sig=hush%3D" in seen.path) == bool(credentials) for seen in server.requests
        )
        assert ("  # az:// by obstore" in str(dp)) == (library == "obstore")


def test_tokens_are_those_of_adlfs(server: Server, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """adlfs sends tokens over https only; here its client is made up."""
    asked = []

    def get_token(scope: str) -> Any:
        asked.append(scope)
        return SimpleNamespace(token="hush", expires_on=int(datetime.now(UTC).timestamp()) + 3600)

    client = SimpleNamespace(url=server.url("/me/"), credential=object(), account_name="me")
    filesystem = SimpleNamespace(service_client=client, sync_credential=SimpleNamespace(get_token=get_token))
    if library == "obstore":
        monkeypatch.setattr(object_stores, "filesystem_of", lambda *_: (filesystem, "box"))
        assert read() == DATA
        assert [seen.headers["authorization"] for seen in server.requests] == ["Bearer hush"]
        assert asked == ["https://storage.azure.com/.default"]
        filesystem.sync_credential = None  # an asynchronous credential of the user's
        server.requests.clear()
        assert read() == DATA
        assert not any(by_obstore(server))


def test_an_account_that_is_missing_is_the_error_of_adlfs(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    with pytest.raises(ValueError, match="Must provide either a connection_string or account_name"):
        read(anon=True)


def begun(row: tuple[str, Any]) -> tuple[bytes, Any]:
    """Read the beginning of a stream, so that it waits at an offset."""
    return row[1].read(300_000), row[1]


def rest(row: tuple[bytes, Any]) -> bytes:
    data: bytes = row[0] + row[1].read()
    return data


def test_a_state_with_streams_moves_between_the_two(
    server: Server, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.pages |= {f"/me/box/{n}": blob(DATA[n:], etag=f'"{n}"') for n in range(5)}
    urls = IterableWrapper([f"az://box/{n}" for n in range(5)])
    graph = urls.open_files_by_fsspec("rb", transfer=QUICK).map(begun).shuffle(buffer_size=3).map(rest)
    first: Any = iter(graph)
    head = [next(first)]
    state = first.state_dict()
    monkeypatch.setenv(FAST, "1" if library == "adlfs" else "0")
    again: Any = iter(graph)
    again.load_state_dict(state)
    assert sorted([*head, *again]) == sorted(DATA[n:] for n in range(5))
    server.pages |= {f"/me/box/{n}": blob(DATA[n:][::-1], etag='"new"') for n in range(5)}
    adlfs.AzureBlobFileSystem.clear_instance_cache()
    again = iter(graph)
    with pytest.raises(StateError, match=r"az://box/\d: it has changed since the state was saved"):
        again.load_state_dict(state)


def content(row: tuple[str, Any]) -> bytes:
    data: bytes = row[1].read()
    return data


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_process_that_has_used_obstore(server: Server, context: Any, library: str) -> None:
    graph = (
        IterableWrapper(["az://box/f"] * 4).sharding_filter().open_files_by_fsspec("rb", transfer=QUICK).map(content)
    )
    assert list(DataLoader2(graph)) == [DATA] * 4
    server.requests.clear()
    service = MultiProcessingReadingService(2, multiprocessing_context=context)
    with DataLoader2(graph, reading_service=service) as loader:
        assert list(loader) == [DATA] * 4
    assert any(by_obstore(server)) == (library == "obstore" and context != "fork")


def test_a_stream_of_obstore_is_read_on_by_adlfs_in_a_fork(server: Server) -> None:
    [(_, stream)] = opener()
    must_read_on_in_a_fork(stream, DATA)
