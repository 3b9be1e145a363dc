"""Old names in YAML, JSON and TOML: values and keys that are a dotted name and nothing else.

The text is not parsed: writing it again would lose its comments and layout. It is read as strings, comments and words.
A word counts if it is a whole value, as in ``_target_: torchdata.datapipes.iter.Mapper``.
"""

from __future__ import annotations

import re
from typing import Final

from loader2.porting.migrating.names import Missing, in_text
from loader2.porting.migrating.notes import Note

_PIECE: Final = re.compile(
    r"""(?P<comment>(?:^|(?<=\s))\#[^\r\n]*)
    |(?<!\w)(?P<quote>["'])(?P<string>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?P=quote)
    |(?P<word>[^\s"'\[\]{},]+)""",
    re.VERBOSE | re.MULTILINE,
)
_IN_BRACKETS: Final = re.compile(r"[\[{][^\]}]*,$")


def migrated(text: str) -> tuple[str, list[Note]]:
    """Return a text with new names, and notes on names that have no counterpart.

    >>> migrated("_target_: torchdata.datapipes.iter.Mapper  # torchdata.datapipes.iter.Mapper")[0]
    '_target_: datapipes.iter.Mapper  # torchdata.datapipes.iter.Mapper'
    """
    notes: list[Note] = []

    def piece(found: re.Match[str]) -> str:
        whole = found[0]
        name = found["string"] if found["quote"] else (found["word"] or "").removesuffix(":")
        here = in_text(name)
        if here is None or not (found["quote"] or _is_a_value(found)):
            return whole
        if isinstance(here, Missing):
            notes.append(Note(text.count("\n", 0, found.start()) + 1, here.advice()))
            return whole
        return whole.replace(name, here.dotted)

    return _PIECE.sub(piece, text), notes


def _is_a_value(found: re.Match[str]) -> bool:
    """Return whether a word without quotes is a whole value or key."""
    before = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()].rstrip()
    behind = found.string[found.end() :].partition("\n")[0].strip()
    begins = not before or before[-1] in ":-[{=" or _IN_BRACKETS.search(before) is not None
    return begins and (found[0].endswith(":") or not behind or behind[0] in "#,]}")
