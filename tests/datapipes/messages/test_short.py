"""Values print as short texts, at a cost that does not grow with them."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any, NamedTuple

import pytest

from datapipes.iter import IterableWrapper
from datapipes.messages.short import hide, is_secret, shortened


class Pair(NamedTuple):
    left: int
    right: int


class Loud:
    """An element whose every use but repr() is an error."""

    def __repr__(self) -> str:
        return "Loud()"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AssertionError(f"somebody asked for {name}")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (list(range(10)), "[0, 1, 2, 3, ...]"),
        (dict.fromkeys("zyxwv", 0), "{'z': 0, 'y': 0, 'x': 0, 'w': 0, ...}"),
        ({}, "{}"),
        ("x" * 100, "'" + "x" * 27 + "..." + "x" * 28 + "'"),
        (b"x" * 100, "b'" + "x" * 40 + "'..."),
        (deque(range(10)), "deque([0, 1, 2, 3, ...])"),
        (Pair(1, 2), "Pair(left=1, right=2)"),
        (Loud(), "Loud()"),
        ([[[[[[[[1]]]]]]]], "[[[[[[[...]]]]]]]"),
    ],
)
def test_long_data_is_shortened(value: object, expected: str) -> None:
    assert shortened(value) == expected


def test_little_of_a_large_collection_is_looked_at() -> None:
    class Counted(int):
        printed = 0

        def __repr__(self) -> str:
            Counted.printed += 1
            return "x"

        def __lt__(self, other: object) -> bool:
            raise AssertionError("the whole collection was sorted")

    class Rows(list[Any]):
        """Prints in full, as lists do."""

    items = [Counted(i) for i in range(10_000)]
    for large in (
        items,
        tuple(items),
        dict.fromkeys(items),
        set(items),
        frozenset(items),
        Rows(items),
        OrderedDict.fromkeys(items),
    ):
        Counted.printed = 0
        assert len(repr(IterableWrapper(large, deepcopy=False))) < 200
        assert Counted.printed <= 8


@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWD", "api-key", "aws_secret_access_key", "auth", "sas_token", "token"]
)
def test_names_that_say_secret(name: str) -> None:
    assert is_secret(name, "text")
    assert is_secret(name, b"bytes")
    assert not is_secret(name, None)
    assert not is_secret(name, 3)
    assert shortened({name: "hush"}) == f"{{{name!r}: '***'}}"


@pytest.mark.parametrize("name", ["key", "pad_token", "tokens", "tokenizer", "author", "keys", "passes", 3, None])
def test_names_that_do_not(name: object) -> None:
    assert not is_secret(name, "text")


@pytest.mark.parametrize("name", ["auth", "cookies"])
def test_what_holds_credentials_is_not_shown_either(name: str) -> None:
    assert is_secret(name, ("me", "hush"))
    assert is_secret(name, {"sid": "hush"})
    assert not is_secret(name, None)


@pytest.mark.parametrize(
    "text",
    [
        "https://me:hush@host/file",
        "https://me:a@hush@host/file",
        "http://host/file?X-Amz-Signature=hush&x=1",
        "http://host/file?X-Amz-Credential=hush%2F2026",
        "http://host/file?x=1&sig=hush",
        "http://host/file?AWSAccessKeyId=hush",
        "http://host/file?key=hush",
        "http://host/#access_token=hush",
        "{'Authorization': 'Bearer hush', 'x': 1}",
        "Cookie: sid=hush; b=hush",
    ],
)
def test_secrets_in_a_text_are_hidden(text: str) -> None:
    assert "hush" not in hide(text)
    assert hide(hide(text)) == hide(text)


@pytest.mark.parametrize(
    "text",
    ["http://host:80/a?page=2&author=x&keyword=y&design=z#top", "s3://bucket/key=1/x", "mail me@home, https://x"],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert hide(text) == text
