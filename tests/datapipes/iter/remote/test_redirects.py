"""Redirects are bounded, lead to no lesser scheme, and take no credentials along; and no secret is ever told."""

from __future__ import annotations

import ssl
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from datapipes import Transfer
from datapipes.errors import TransferError, TransferTimeout
from datapipes.iter import FSSpecFileOpener, IterableWrapper
from tests.http_server import File, Handler, Server, redirect, serving, status

QUICK = Transfer(timeout=200, deadline=500, retries=1, backoff=0)
DAY = timedelta(days=1)
Reader = Callable[..., Any]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def by_http(url: str, **options: Any) -> bytes:
    [(_, stream)] = IterableWrapper([url]).read_from_http(transfer=QUICK, **options)
    data: bytes = stream.read()
    return data


def by_fsspec(url: str, **options: Any) -> bytes:
    client: dict[str, Any] = {"skip_instance_cache": True, "client_kwargs": options}
    [(_, stream)] = FSSpecFileOpener([url], "rb", transfer=QUICK, **client)
    data: bytes = stream.read()
    return data


both = pytest.mark.parametrize("read", [by_http, by_fsspec])


@both
def test_a_redirect_is_followed(server: Server, read: Reader) -> None:
    server.pages |= {"/a": redirect("/b"), "/b": redirect(server.url("/c", "localhost"), 307), "/c": File(b"text")}
    assert read(server.url("/a")) == b"text"


@both
def test_a_loop_ends(server: Server, read: Reader) -> None:
    url = server.url("/a?token=hush")
    server.pages["/a"] = redirect(url)
    with pytest.raises(TransferError, match=r"more than (9|10) redirects") as caught:
        read(url)
    assert "hush" not in shown(caught.value)
    assert len(server.requests) <= 22  # fsspec asks by HEAD, and then by GET


@both
@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x", "https://127.0.0.1:9/x"])
def test_schemes(server: Server, read: Reader, target: str) -> None:
    server.pages["/a"] = redirect(target)
    if target.startswith("https"):  # an upgrade is followed, to a port where no server listens
        with pytest.raises(OSError, match=r"(?i)connect|127\.0\.0\.1:9"):
            read(server.url("/a"))
    else:
        with pytest.raises((TransferError, ValueError), match=r"(?i)refused to follow a redirect|redirect"):
            read(server.url("/a"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 and its key, in one file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - DAY, now + DAY)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    as_text = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path: Path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(key.private_bytes(*as_text) + signed.public_bytes(as_text[0]))
    return path


@pytest.fixture
def secure(certificate: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(context) as server:
        yield server


def test_from_http_to_https_and_not_back(server: Server, secure: Server, certificate: Path) -> None:
    server.pages |= {"/up": redirect(secure.url("/f")), "/f": File(b"in the open")}
    secure.pages |= {"/f": File(b"text" * 100_000, breaks=[200_000]), "/down": redirect(server.url("/f"))}
    assert by_http(server.url("/up"), verify=str(certificate)) == b"text" * 100_000
    with pytest.raises(TransferError, match="refused to follow a redirect from https"):
        by_http(secure.url("/down"), verify=str(certificate))
    assert server.asked("/f") == []


def test_from_https_to_http_is_refused_through_fsspec(server: Server, secure: Server, certificate: Path) -> None:
    server.pages["/f"] = File(b"in the open")
    secure.pages |= {"/f": File(b"text"), "/down": redirect(server.url("/f"))}
    trusting: dict[str, Any] = {"ssl": ssl.create_default_context(cafile=str(certificate)), "skip_instance_cache": True}
    [(_, stream)] = FSSpecFileOpener([secure.url("/f")], "rb", transfer=QUICK, **trusting)
    assert stream.read() == b"text"
    with pytest.raises(TransferError, match="refused to follow a redirect"):
        list(FSSpecFileOpener([secure.url("/down")], "rb", transfer=QUICK, **trusting))
    assert server.requests == []


def test_a_certificate_that_nobody_vouches_for_is_not_tried_again(secure: Server) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        by_http(secure.url("/f"))
    assert secure.requests == []


def test_a_secure_server_that_drips_is_left_at_the_deadline(secure: Server, certificate: Path) -> None:
    secure.pages["/f"] = File(b"text" * 1000, drips=True)
    patience = Transfer(timeout=5, deadline=0.5)
    [(_, stream)] = IterableWrapper([secure.url("/f")]).read_from_http(transfer=patience, verify=str(certificate))
    with pytest.raises(TransferTimeout):
        stream.read()


SENT = {"authorization", "cookie", "x-api-key"}


def credentials(server: Server, path: str) -> set[str]:
    return {name for seen in server.requests if seen.path.startswith(path) for name in seen.headers} & SENT


def test_credentials_stay_with_their_host(server: Server) -> None:
    elsewhere = server.url("/away", "localhost")
    server.pages |= {"/a": redirect("/b"), "/b": redirect(elsewhere), "/away": redirect(server.url("/back"))}
    server.pages["/back"] = File(b"text")
    options: dict[str, Any] = {"headers": {"X-Api-Key": "hush"}, "auth": ("me", "hush"), "cookies": {"sid": "hush"}}
    assert by_http(server.url("/a"), params={"q": "hush"}, **options) == b"text"
    assert credentials(server, "/a") == credentials(server, "/b") == SENT
    assert credentials(server, "/away") == credentials(server, "/back") == set()
    assert "hush" not in server.asked("/away")[0].path


def test_another_port_is_another_host(server: Server) -> None:
    with serving() as other:
        other.pages["/f"] = File(b"text")
        server.pages["/a"] = redirect(other.url("/f"))
        assert by_http(server.url("/a"), auth=("me", "hush")) == b"text"
        assert credentials(other, "/f") == set()


def test_the_password_of_a_url_stays_with_its_host(server: Server) -> None:
    server.pages |= {"/a": redirect("/b"), "/b": redirect(server.url("/away", "localhost")), "/away": File(b"text")}
    url = server.url("/a").replace("http://", "http://me:hush@")
    assert by_http(url) == b"text"
    assert credentials(server, "/a") == credentials(server, "/b") == {"authorization"}
    assert credentials(server, "/away") == set()
    [(label, stream)] = IterableWrapper([url]).read_from_http(transfer=QUICK)
    with stream:
        assert "hush" not in f"{label} {stream!r}"


def test_credentials_stay_with_their_host_through_fsspec(server: Server) -> None:
    elsewhere = server.url("/away", "localhost")
    server.pages |= {"/a": redirect("/b"), "/b": redirect(elsewhere), "/away": File(b"text")}
    assert by_fsspec(server.url("/a"), headers={"X-Api-Key": "hush", "Authorization": "Basic hush"}) == b"text"
    assert credentials(server, "/b") == {"authorization", "x-api-key"}
    assert credentials(server, "/away") == set()
    with pytest.raises(TransferError, match="because cookies would be sent there"):
        by_fsspec(server.url("/a"), cookies={"sid": "hush"})
    assert credentials(server, "/away") == set()


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.args)


def dropping(handler: Handler) -> None:
    handler.cut()


def short(handler: Handler) -> None:
    handler.begin(200, {"Content-Length": "50"})
    handler.cut()


@both
@pytest.mark.parametrize(
    "page", [status(404), status(403), status(500), dropping, short, redirect("gopher://x?token=hush")]
)
def test_no_error_tells_a_secret(server: Server, read: Reader, page: Any) -> None:
    server.pages["/f"] = page
    url = server.url("/f?X-Amz-Signature=hush&part=1").replace("http://", "http://me:hush@")
    url = url if read is by_http else server.url("/f?X-Amz-Signature=hush&part=1")
    with pytest.raises((OSError, ValueError)) as caught:
        read(url)
    assert "hush" not in shown(caught.value).replace('url = server.url("/f?X-Amz-Signature=hush', "")
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert "/f?X-Amz-Signature=***&part=1" in told or "gopher" in told


def test_no_warning_tells_a_secret(server: Server) -> None:
    url = server.url("/f?sig=hush")
    with pytest.warns(UserWarning, match=r"404 Not Found.*sig=\*\*\*, skipping\.\.\.") as seen:
        assert list(IterableWrapper([url]).read_from_http(skip_on_error=True)) == []
    assert "hush" not in str(seen[0].message)


def test_no_repr_tells_a_secret() -> None:
    secrets: dict[str, Any] = {
        "headers": {"Authorization": "hush", "Cookie": "hush", "X-Api-Key": "hush"},
        "cookies": {"sid": "hush"},
        "auth": ("me", "hush"),
    }
    dp = IterableWrapper(["https://me:hush@host/f?token=hush"]).read_from_http(**secrets)
    assert "hush" not in repr(dp)
    assert "hush" not in repr(FSSpecFileOpener(["s3://x"], key="k", secret="hush", client_kwargs=secrets))
