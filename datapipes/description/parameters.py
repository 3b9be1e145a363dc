"""Documentation of operators' parameters: those that many operators share are described once, here.

An operator's docstring has a section ``Args:`` for its own parameters. The shared ones are added when the operator is
made, so that ``help()`` and the reference show every parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from inspect import CO_VARARGS, cleandoc
from textwrap import fill
from typing import Any


class SharedParameters:
    """Parameters of many operators. An operator whose docstring has no text for one of them gets this text.

    Args:
        on_error: The policy for an element that cannot be made. ``"raise"``: raise the error. ``"skip"``: leave the
            element out. ``"retry(n)"``: try ``n`` more times. A function of the error and the element: hand on its
            result (``SKIP``: leave the element out).
        max_errors: The number of errors, or their fraction of the elements (0.0 to 1.0), above which ``TooManyErrors``
            is raised in spite of ``on_error``. ``None``: any number.
        transfer: Timeouts, deadline and retries, as a ``Transfer``. ``None``: the defaults of ``Transfer()``.
        input_col: The column of each element that is the function's argument: an index, or a key of a dict. A list of
            them: several arguments. ``None``: the whole element.
        output_col: The column for the result: an index, a key, or -1 for a new last column. ``None``: the (first) input
            column.
        length: The number of elements of this stage, if you know it: the result of ``len()``. ``None``: not known.
        max_ratio: The largest ratio of decompressed to compressed size, counted from the outermost file. With the
            default of 200 the first GiB is free, and ``max_bytes`` replaces the ratio. With another ratio the first 16
            MiB are free. ``None``: no limit.
        max_bytes: The largest number of bytes of one decompressed file. ``None``: no limit.
        buffer_bytes: The largest number of bytes of elements that wait for the slowest reader, beside ``buffer_size``.
            The last element may exceed it. ``None``: only ``buffer_size`` counts.
        crop: The part of each picture to use. ``"random"``: a box that is drawn for each element, as torchvision's
            RandomResizedCrop draws it, resized to ``size``. ``"center"``: the centre of the picture, after it was
            resized to cover ``size``. ``None``: all of it.
        scale: The smallest and the largest area of a random box, as fractions of the picture's area.
        ratio: The smallest and the largest ratio of width to height of a random box.
        flip: Whether to mirror a picture, left to right, with a probability of one half.
        exact: Whether to decode JPEGs at their full size. With False, the decoder may halve the size up to three times
            first, as long as it stays above ``size``; this is faster, and pixels differ a little.
        spill_dir: A folder for the elements beyond both bounds, in a file without a name. They come back equal, but not
            as the same objects. ``None``: raise ``BufferError`` instead.
    """


_SECTION = re.compile(r"^( *)Args:\n((?:\1 +.*\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^( +)\*{0,2}(\w+): .*\n(?:\1 +.*\n)*", re.MULTILINE)
_EXAMPLE = re.compile(r"^ *>>>", re.MULTILINE)


def described(docstring: str) -> dict[str, str]:
    """Return the parameters that a docstring describes under ``Args:``, with their texts.

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


def _entries(docstring: str) -> dict[str, str]:
    section = _SECTION.search(f"{docstring}\n")
    return {} if section is None else {entry[2]: entry[0] for entry in _ENTRY.finditer(section[2])}


SHARED = described(str(SharedParameters.__doc__))


def with_shared(docstring: str, constructor: Callable[..., Any], shared: Mapping[str, str] = SHARED) -> str:
    """Return a docstring, without its margin, with the shared descriptions of a function's parameters added.

    >>> print(with_shared("Read.", lambda path, max_bytes: path))
    Read.
    <BLANKLINE>
    Args:
        max_bytes: The largest number of bytes of one decompressed file. ``None``: no limit.
    <BLANKLINE>
    """
    names = _names(constructor)
    added = {name: _entry(name, shared[name]) for name in names if name in shared}
    if not added:
        return docstring
    docstring = cleandoc(docstring) + "\n"  # since Python 3.13, the compiler removes the margin
    own = _entries(docstring)
    entries = added | own
    ordered = sorted(entries, key=names.index)
    section = "Args:\n" + "".join(entries[name] for name in ordered)
    if own:
        return _SECTION.sub(lambda _: section, docstring, count=1)
    example = _EXAMPLE.search(docstring)
    at = len(docstring) if example is None else example.start()
    return f"{docstring[:at].rstrip()}\n\n{section}\n{docstring[at:]}"


def _names(function: Callable[..., Any]) -> list[str]:
    """Return the parameters in their order. ``inspect.signature`` is too slow here: every import waits for this."""
    code = function.__code__
    plain, keyword = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    rest = keyword + bool(code.co_flags & CO_VARARGS)
    names = code.co_varnames
    return [*names[:plain], *names[keyword:rest], *names[plain:keyword], *names[rest : rest + 1]]


@cache
def _entry(name: str, text: str) -> str:
    return fill(f"{name}: {text}", 120, initial_indent=4 * " ", subsequent_indent=8 * " ") + "\n"
