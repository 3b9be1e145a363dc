"""The number of windows of a size and a step in a stream of known length."""

from __future__ import annotations


def windows_in(length: int, size: int, step: int, partial: bool) -> int:
    """Return the number of windows. With ``partial``, include the shorter last one.

    >>> windows_in(8, 3, 2, partial=False), windows_in(8, 3, 2, partial=True)
    (3, 4)
    """
    full = (length - size) // step + 1 if length >= size else 0
    held = (full - 1) * step + size if full else 0
    return full + (partial and length > max(held, full * step))
