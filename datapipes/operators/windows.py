"""How many windows of a size and a step there are in so many elements."""

from __future__ import annotations


def windows_in(length: int, size: int, step: int, partial: bool) -> int:
    """The number of windows, the shorter last one included if there is to be one.

    >>> windows_in(8, 3, 2, partial=False), windows_in(8, 3, 2, partial=True)
    (3, 4)
    """
    full = (length - size) // step + 1 if length >= size else 0
    held = (full - 1) * step + size if full else 0
    return full + (partial and length > max(held, full * step))
