"""Old dotted names and their counterparts here, by the tables of ``loader2.porting.old_modules``.

A counterpart is public. For a private name, or one of another library, programs get the advice to write without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Final

from loader2.porting.old_modules import INSTEAD, JANITOR, LENT, POPTORCH, TORCHDATA, imported, instead_of, names_in

_MODULES: Final = {**TORCHDATA, **POPTORCH}
_OURS: Final = ("datapipes", "loader2", "reading_services")


@dataclass(frozen=True)
class Module:
    """Module of the library that an old name means."""

    module: str

    @property
    def dotted(self) -> str:
        """The whole new name."""
        return self.module


@dataclass(frozen=True)
class KnownName:
    """Name in a module of the library, with the attributes that follow it in an old dotted name."""

    module: str
    name: str
    rest: tuple[str, ...] = ()

    @property
    def dotted(self) -> str:
        """The whole new name."""
        return ".".join((self.module, self.name, *self.rest))


@dataclass(frozen=True)
class Missing:
    """Old name without a counterpart."""

    name: str

    def advice(self) -> str:
        """Return a sentence: the name has no counterpart, and what to write instead."""
        parts = self.name.split(".")
        remedy = instead_of(self.name)
        if any(part.startswith("_") for part in parts):
            remedy = remedy or "it is a private name: write without it"
        return f"{self.name} has no counterpart here and is left: {remedy or 'write without it'}"


New = Module | KnownName | Missing


@cache
def new(dotted: str) -> New | None:
    """Return the meaning of an old dotted name. Return None if it is not an old name.

    >>> new("torchdata.datapipes.iter.Mapper"), new("torchdata.datapipes.iter.util.cacheholder")
    (KnownName(module='datapipes.iter', name='Mapper', rest=()), Module(module='datapipes.iter'))
    >>> new("torch.utils.data.DataLoader") is None
    True
    """
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        module, rest = ".".join(parts[:end]), parts[end:]
        if module not in _MODULES or (module == JANITOR and not rest):
            continue
        if not rest:
            return _module(module)
        home, name = names_of(module).get(rest[0], ("", ""))
        if _is_ours(home) and name in import_module(home).__all__:
            return KnownName(home, name, tuple(rest[1:]))
        return None if module in LENT and rest[0] not in INSTEAD else Missing(dotted)
    return None


def in_text(text: str) -> New | None:
    """Return the meaning of a text that is an old dotted name of at least two parts. Return None for all other texts.

    >>> in_text("torch.utils.data.datapipes.iter.IterableWrapper").dotted, in_text("poptorch"), in_text("see torchdata")
    ('datapipes.iter.IterableWrapper', None, None)
    """
    return new(text) if "." in text and all(map(str.isidentifier, text.split("."))) else None


@cache
def names_of(module: str) -> dict[str, tuple[str, str]]:
    """Return the names of an old module, each with its module and its name here."""
    return names_in(_MODULES[module]) if module in LENT else {**imported(), **names_in(_MODULES[module])}


def _module(old: str) -> New | None:
    """Return the module that replaces an old one: the first with any of its names. An empty module has its parent's."""
    if old in LENT:
        return None
    homes = _MODULES[old]
    if old.rpartition(".")[2] in INSTEAD or (homes and not any(map(_is_ours, homes))):
        return Missing(old)
    return Module(next(filter(_is_ours, homes))) if homes else _module(old.rpartition(".")[0])


def _is_ours(module: str) -> bool:
    """Return whether this is a public module of the library."""
    return module.partition(".")[0] in _OURS and hasattr(import_module(module), "__all__")
