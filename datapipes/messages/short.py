"""Values as short texts, for reprs and errors: the first few items of a collection, the ends of a long string.

Only a few items of a collection are read, regardless of its size. Secrets are left out: values under a name such as
"password", and those in a URL.
"""

from __future__ import annotations

import re
import reprlib
from collections import deque
from itertools import islice
from typing import Any

SECRET = "'***'"

_SECRET_NAMES = re.compile(
    r"passw(or)?d|passphrase|pwd|secret|credential|signature|authorization|cookie|connection_?string"
    r"|(api|access|account|private|secret|storage)_?key|^auth$|(^|(auth|access|api|bearer|refresh|session|security|sas)_?)token$",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"(?<=://)[^/?#\s'\"]+(?=@)")  # up to the last @, because a password may contain one
_IN_QUERY = re.compile(
    r"(?<=[?&;#])([\w.%-]*(?:signature|token|secret|passw|pwd|credential|session|jwt|auth(?!or)"
    r"|(?:api|access|account|private)[_-]?key|(?<![a-z])(?:sig|key)(?![a-z]))[\w.%-]*)=[^&;#\s'\"]*",
    re.IGNORECASE,
)
_IN_HEADER = re.compile(r"\b((?:proxy-)?authorization|(?:set-)?cookie)(['\"]?\s*[:=]\s*)[^\r\n}]+", re.IGNORECASE)

_LINES = re.compile(r"\s*\n\s*")

_MANY = 20
_MOST_OF_ELEMENT = 200  # characters


def is_secret(name: object, value: object) -> bool:
    """Return whether a value should not be shown, judged by its name.

    >>> is_secret("api_key", "abc"), is_secret("pad_token", "abc"), is_secret("password", None)
    (True, False, False)
    """
    if not isinstance(name, str):
        return False
    if name.lower() in ("auth", "cookies"):  # of requests: a pair, a dict, or an object that holds them
        return value is not None and not isinstance(value, bool | int | float)
    return isinstance(value, str | bytes) and _SECRET_NAMES.search(name.replace("-", "_")) is not None


def hide(text: str) -> str:
    """Return a text without the secrets of the URLs and headers in it.

    >>> hide("GET https://me:secret@host/file?token=abc&part=1 failed")
    'GET https://***@host/file?token=***&part=1 failed'
    """
    return _IN_HEADER.sub(r"\1\2***", _IN_QUERY.sub(r"\1=***", _IN_URL.sub("***", text)))


def shortened(value: object) -> str:
    """Return a repr of bounded length, without secrets.

    >>> shortened(list(range(1_000_000)))
    '[0, 1, 2, 3, ...]'
    >>> shortened("https://me:secret@host/file?token=abc&part=1")
    "'https://***@host/file?token=***&part=1'"
    >>> shortened(object())
    '<object>'
    """
    return _short.repr(value)


def element_shown(element: object) -> str:
    """Return the repr of an element in at most 200 characters, for errors.

    >>> element_shown(("images/0005.jpg", list(range(1_000))))
    "('images/0005.jpg', [0, 1, 2, 3, ...])"
    """
    text = _of_element.repr(element)
    return text if len(text) <= _MOST_OF_ELEMENT else f"{text[: _MOST_OF_ELEMENT - 3]}..."


class _ShortRepr(reprlib.Repr):
    """Short reprs. reprlib's own sorts a whole dict or set to show four items, and prints a subclass of list whole."""

    def __init__(self, longest: int = 60) -> None:
        super().__init__()
        self.maxstring = self.maxother = longest
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 4

    def repr_str(self, text: str, level: int) -> str:
        return super().repr_str(hide(text), level)

    def repr_bytes(self, data: bytes, level: int) -> str:
        return repr(data) if len(data) <= self.maxother else f"{data[: self.maxother - 20]!r}..."

    def repr_dict(self, items: dict[Any, Any], level: int) -> str:
        if level <= 0 and items:
            return "{...}"
        shown = [
            f"{self.repr1(key, level - 1)}: {SECRET if is_secret(key, value) else self.repr1(value, level - 1)}"
            for key, value in islice(items.items(), self.maxdict)
        ]
        return f"{{{', '.join([*shown, *(['...'] if len(items) > self.maxdict else [])])}}}"

    def repr_set(self, items: set[Any], level: int) -> str:
        return super().repr_set(items if len(items) < _MANY else set(islice(items, _MANY)), level)

    def repr_frozenset(self, items: frozenset[Any], level: int) -> str:
        return super().repr_frozenset(items if len(items) < _MANY else frozenset(islice(items, _MANY)), level)

    def repr_instance(self, value: Any, level: int) -> str:
        for kind, shown in _LIKE.items():
            if isinstance(value, kind) and len(value) > _MANY:
                return f"{type(value).__name__}({shown(self, value, level)})"
        of: Any = type(value)
        if of.__repr__ is object.__repr__:
            return f"<{of.__name__}>"  # without its address, which differs between processes
        return _LINES.sub(" ", super().repr_instance(value, level))


_LIKE = {
    list: _ShortRepr.repr_list,
    tuple: _ShortRepr.repr_tuple,
    dict: _ShortRepr.repr_dict,
    set: _ShortRepr.repr_set,
    frozenset: _ShortRepr.repr_frozenset,
    deque: _ShortRepr.repr_deque,
}
_short = _ShortRepr()
_of_element = _ShortRepr(longest=150)  # an error shows a path in full
