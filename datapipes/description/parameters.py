"""Documentation of operators' parameters: those that many operators share are described once, here.

An operator's docstring has a section ``Args:`` for its own. What is missing there and stands below is added when the
operator is made, so that ``help()`` and the reference show every parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from inspect import CO_VARARGS, cleandoc
from textwrap import fill
from typing import Any

SHARED = {
    "on_error": """\
What becomes of an element that cannot be made: ``"raise"``; ``"skip"`` leaves it out; ``"retry(n)"`` tries ``n`` more
times; or a function of the error and the element, whose result is handed on (``SKIP`` leaves the element out).""",
    "max_errors": """\
The number of errors, or their share of the elements (0.0 to 1.0), beyond which ``on_error`` no longer counts and
``TooManyErrors`` is raised. ``None``: any number.""",
    "transfer": """\
Timeouts, deadline and retries, as a ``Transfer``. ``None``: those of ``Transfer()``.""",
    "input_col": """\
The column of each element that the function is given: an index, or a key of a dict; a list of them gives it several
arguments. ``None``: the whole element.""",
    "output_col": """\
Where the result goes: the index or the key of a column, or -1 for a new last one. ``None``: in place of the (first)
input column.""",
    "length": """\
The number of elements that this stage gives, where you know it; ``len()`` says so then. ``None``: not known.""",
    "max_ratio": """\
How many times its compressed size a file may have when it is decompressed, counted from the outermost file. With the
default of 200 the first GiB is free, and ``max_bytes`` takes its place; with another ratio the first 16 MiB are free.
``None``: no limit.""",
    "max_bytes": """\
How many bytes may come out of one file. ``None``: no limit.""",
    "buffer_bytes": """\
How many bytes of elements may wait for the slowest reader, beside ``buffer_size``; the last of them may go beyond.
``None``: only their number counts.""",
    "spill_dir": """\
A folder where elements beyond both bounds wait, in a file without a name; they come back equal, but not as the same
objects. ``None``: there is a ``BufferError`` instead.""",
}
"""What a parameter of this name means in every operator that does not say otherwise."""

_SECTION = re.compile(r"^( *)Args:\n((?:\1 +.*\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^( +)\*{0,2}(\w+): .*\n(?:\1 +.*\n)*", re.MULTILINE)
_EXAMPLE = re.compile(r"^ *>>>", re.MULTILINE)


def described(docstring: str) -> dict[str, str]:
    """The parameters that a docstring describes under ``Args:``, with their texts.

    >>> described('''Lists.
    ...
    ... Args:
    ...     batch_size: How many elements
    ...         a list has.
    ...     drop_last: Whether a shorter one is left out.
    ... ''')
    {'batch_size': 'How many elements a list has.', 'drop_last': 'Whether a shorter one is left out.'}
    """
    return {name: " ".join(text.partition(": ")[2].split()) for name, text in _entries(docstring).items()}


def with_shared(docstring: str, constructor: Callable[..., Any]) -> str:
    """A docstring, without its margin, that describes also those parameters of a function which are described here.

    >>> print(with_shared("Read.", lambda path, max_bytes: path))
    Read.
    <BLANKLINE>
    Args:
        max_bytes: How many bytes may come out of one file. ``None``: no limit.
    <BLANKLINE>
    """
    names = _names(constructor)
    shared = [name for name in names if name in SHARED]
    if not shared:
        return docstring
    docstring = cleandoc(docstring) + "\n"  # from Python 3.13 on, docstrings have no margin to begin with
    own = _entries(docstring)
    entries = {name: _entry(name) for name in shared} | own
    ordered = sorted(entries, key=names.index)
    section = "Args:\n" + "".join(entries[name] for name in ordered)
    if own:
        return _SECTION.sub(lambda _: section, docstring, count=1)
    example = _EXAMPLE.search(docstring)
    at = len(docstring) if example is None else example.start()
    return f"{docstring[:at].rstrip()}\n\n{section}\n{docstring[at:]}"


def _names(function: Callable[..., Any]) -> list[str]:
    """The parameters in their order, without ``inspect.signature``: it is slow, and every import waits for this."""
    code = function.__code__
    plain, keyword = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    rest = keyword + bool(code.co_flags & CO_VARARGS)
    names = code.co_varnames
    return [*names[:plain], *names[keyword:rest], *names[plain:keyword], *names[rest : rest + 1]]


def _entries(docstring: str) -> dict[str, str]:
    section = _SECTION.search(f"{docstring}\n")
    return {} if section is None else {entry[2]: entry[0] for entry in _ENTRY.finditer(section[2])}


@cache
def _entry(name: str) -> str:
    return fill(f"{name}: {SHARED[name]}", 120, initial_indent=4 * " ", subsequent_indent=8 * " ") + "\n"
