"""Fingerprints of a graph's sources, so that a position saved above others is not taken for one above these.

A position is a count as a rule, and a count means nothing above another list. So a state holds, for each stage that was
given its elements, their number and digests of them, cheap enough for any checkpoint: a list of names or paths is read
entirely, of other lists the first and the last element of each block. Where an element is no plain value, its type
stands for it; where elements may be changed by whoever is given them (``deepcopy=False``), only those count that cannot
be. Of anything that is no list, the length is all that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, Final

from datapipes.description import structure
from datapipes.description.printing import stage as printed
from datapipes.errors import StateError
from datapipes.position.plain_data import check

_BLOCKS: Final = 32
_SIZE: Final = 8  # hexadecimal digits of a block's digest
_MOST_SHOWN: Final = 4
_NAMES: Final = (str, bytes, PurePath)
_SCALARS: Final = frozenset((str, bytes, int, float, bool, complex, type(None)))
_DEEPEST: Final = 4  # levels of an element that are looked at
_WIDEST: Final = 64  # and values in each


class Sources:
    """The sources of a graph as they are, each looked at once as long as it has the same length."""

    def __init__(self, graph: structure.Pipe) -> None:
        self._graph = graph
        self._seen: dict[int, tuple[int | None, list[Any]]] = {}
        self._sizes: dict[int, int] = {}  # of lists, which may grow, when they were opened
        self._found: list[structure.Pipe] | None = None

    def begin(self) -> None:
        """Note that the sources are opened: what is appended to a list from here on is no part of it."""
        given = ((structure.place_of(stage), _given_to(stage)) for stage in self._stages())
        self._sizes = {place: len(data) for place, data in given if type(data) is list}

    def now(self) -> dict[int, list[Any]]:
        """Numbers of elements and digests of their blocks, by place, as plain data."""
        return {structure.place_of(stage): self._identity(stage) for stage in self._stages()}

    def must_be(self, saved: object) -> None:
        """Refuse a state that was saved above others, and say in what they differ."""
        check(type(saved) is dict and all(map(_is_identity, saved.values())), "sources", "lengths and digests", saved)
        differences = []
        for stage in self._stages():
            before = saved.get(structure.place_of(stage))  # type: ignore[attr-defined]  # it is a dict
            if before is not None and (said := _difference(before, self._identity(stage))):
                differences.append(f"{printed(stage)} {said}")
        if differences:
            more = f"; and {len(differences) - _MOST_SHOWN} more" if len(differences) > _MOST_SHOWN else ""
            raise StateError(
                f"sources: the state was saved above other elements: {'; '.join(differences[:_MOST_SHOWN])}{more}. "
                "Elements would be missed, and others come twice: restore what was there, start the epoch anew, or go "
                "on knowingly with load_state_dict(state, strict=False)"
            )

    def _stages(self) -> list[structure.Pipe]:
        if self._found is None:
            self._found = [
                stage
                for stage in structure.walk(self._graph)
                if getattr(type(stage), "_identified_by", None) is not None and "_place" in vars(stage)
            ]
        return self._found

    def _identity(self, stage: structure.Pipe) -> list[Any]:
        data = _given_to(stage)
        size = self._sizes.get(structure.place_of(stage))
        if size is not None and size < len(data):
            data = data[:size]
        length = _length(data)
        seen = self._seen.get(structure.place_of(stage))
        if seen is None or seen[0] != length:
            digests = _digests(data, vars(stage).get("deepcopy", True))
            seen = self._seen[structure.place_of(stage)] = length, [length, digests]
        return seen[1]


def _given_to(stage: structure.Pipe) -> Any:
    """The elements that a stage was given."""
    return vars(stage)[stage._identified_by]


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except (TypeError, NotImplementedError, AttributeError, ValueError, RuntimeError):  # it has none, or cannot tell it
        return None


def _digests(data: Any, copies: bool) -> str:
    """A digest for each block of the elements, one after the other; none for what is no list."""
    if type(data) is dict:
        data = list(data)
    if type(data) not in (list, tuple, range) or not data:
        return ""
    size = -(-len(data) // _BLOCKS)
    blocks = (data[start : start + size] for start in range(0, len(data), size))
    return "".join(_digest(block, copies) for block in blocks)


def _digest(block: Sequence[Any], copies: bool) -> str:
    kinds = {int} if type(block) is range else set(map(type, block))
    if kinds == {str}:
        text = "\0".join(block)
    elif all(issubclass(kind, _NAMES) for kind in kinds):
        text = "\0".join(map(str, block))
    else:
        text = "\0".join(_text(value, copies, 0) for value in (block[0], block[-1]))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_SIZE // 2).hexdigest()


def _text(value: Any, copies: bool, depth: int) -> str:
    """A value as a text that is the same in every process, as far as it is plain."""
    kind = type(value)
    if kind in _SCALARS:
        return repr(value)
    if isinstance(value, PurePath):
        return f"path {value}"
    if depth < _DEEPEST and (kind is tuple or (copies and kind is list)):
        return f"{kind.__name__}{len(value)}({','.join(_text(one, copies, depth + 1) for one in value[:_WIDEST])})"
    if depth < _DEEPEST and copies and kind is dict:
        items = [item for item, _ in zip(value.items(), range(_WIDEST), strict=False)]
        return f"dict{len(value)}({','.join(_text(item, copies, depth + 1) for item in items)})"
    return kind.__name__


def _is_identity(saved: Any) -> bool:
    if type(saved) not in (list, tuple) or len(saved) != 2:
        return False
    length, digests = saved
    return (length is None or type(length) is int) and type(digests) is str


def _difference(before: Sequence[Any], now: Sequence[Any]) -> str:
    """Difference of two identities as text; nothing if they are alike."""
    if before[0] != now[0]:
        there, here = ("no known number of" if length is None else length for length in (before[0], now[0]))
        return f"had {there} elements and has {here} now"
    if before[1] == now[1]:
        return ""
    size = -(-(now[0] or 0) // _BLOCKS)
    other = [at for at in range(0, len(now[1]), _SIZE) if before[1][at : at + _SIZE] != now[1][at : at + _SIZE]]
    first = (other[0] if other else 0) // _SIZE * size
    last = min(first + size, now[0] or 0) - 1
    return f"has the same number of elements ({now[0]}), and others: the first that differs is among {first} to {last}"
