"""Fingerprints of a graph's sources, so that a state saved above other sources is refused.

Most positions are counts, and a count is meaningless above another list. So a state has, for each stage that holds its
elements, their number and digests of them. They are cheap enough for every checkpoint. Of a list of names or paths all
elements are read, and of other lists the first and the last element of each block. An element that is no plain value is
represented by its type. With ``deepcopy=False`` the consumer may change elements, so only immutable ones are read. Of
any object that is no list, only the length is known.
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
_DEEPEST: Final = 4  # levels of an element that are read
_WIDEST: Final = 64  # values on each level that are read


class SourceFingerprints:
    """The fingerprints of a graph's sources. Each is computed again only if its length changes."""

    def __init__(self, graph: structure.Pipe) -> None:
        self._graph = graph
        self._seen: dict[int, tuple[int | None, list[Any]]] = {}
        self._sizes: dict[int, int] = {}  # lengths of lists when they were opened: they may grow
        self._found: list[structure.Pipe] | None = None

    def begin(self) -> None:
        """Record the lengths of the sources at their opening: elements appended later do not count."""
        given = ((structure.place_of(stage), _given_to(stage)) for stage in self._stages())
        self._sizes = {place: len(data) for place, data in given if type(data) is list}

    def now(self) -> dict[int, list[Any]]:
        """Return the numbers of elements and the digests of their blocks, by place, as plain data."""
        return {structure.place_of(stage): self._identity(stage) for stage in self._stages()}

    def must_be(self, saved: object) -> None:
        """Raise StateError for a state that was saved above other sources, and show the differences."""
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
                "Some elements would be left out, and others come twice: restore the old elements, start the epoch "
                "anew, or accept this with load_state_dict(state, strict=False)"
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
    """Return the elements that a stage holds."""
    return vars(stage)[stage._identified_by]


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except (TypeError, NotImplementedError, AttributeError, ValueError, RuntimeError):  # it has no known length
        return None


def _digests(data: Any, copies: bool) -> str:
    """Return the digests of the blocks of elements, joined, or an empty text for an object that is no list."""
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
    """Return a text for a value that is the same in all processes. It covers the plain parts of the value."""
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
    """Return the difference of two fingerprints as text, which is empty if they are equal."""
    if before[0] != now[0]:
        there, here = ("no known number of" if length is None else length for length in (before[0], now[0]))
        return f"had {there} elements and has {here} now"
    if before[1] == now[1]:
        return ""
    size = -(-(now[0] or 0) // _BLOCKS)
    other = [at for at in range(0, len(now[1]), _SIZE) if before[1][at : at + _SIZE] != now[1][at : at + _SIZE]]
    first = (other[0] if other else 0) // _SIZE * size
    last = min(first + size, now[0] or 0) - 1
    return f"has the same number of elements ({now[0]}), but others: the first that differs is among {first} to {last}"
