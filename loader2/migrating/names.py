"""Old dotted names and their counterparts here, by the tables of ``loader2.old_modules``.

A counterpart is public: what old programs found in private modules of ours, or elsewhere, they are told to do without.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Final

from loader2.old_modules import INSTEAD, JANITOR, LENT, POPTORCH, TORCHDATA, imported, instead_of, names_in

_MODULES: Final = {**TORCHDATA, **POPTORCH}
_OURS: Final = ("datapipes", "loader2", "reading_services")


@dataclass(frozen=True)
class Module:
    """A module of ours that an old name stands for."""

    module: str

    @property
    def dotted(self) -> str:
        """The new name, whole."""
        return self.module


@dataclass(frozen=True)
class Member:
    """A name in a module of ours, and the attributes of it that an old dotted name goes on with."""

    module: str
    name: str
    rest: tuple[str, ...] = ()

    @property
    def dotted(self) -> str:
        """The new name, whole."""
        return ".".join((self.module, self.name, *self.rest))


@dataclass(frozen=True)
class Gone:
    """An old name without a counterpart."""

    name: str

    def advice(self) -> str:
        """What is wrong with the name and what to do, in a sentence."""
        parts = self.name.split(".")
        remedy = instead_of(self.name)
        if any(part.startswith("_") for part in parts):
            remedy = remedy or "it is a private name: write without it"
        return f"{self.name} has no counterpart here and is left: {remedy or 'write without it'}"


New = Module | Member | Gone


@cache
def new(dotted: str) -> New | None:
    """What an old dotted name stands for; None: it is no old name.

    >>> new("torchdata.datapipes.iter.Mapper"), new("torchdata.datapipes.iter.util.cacheholder")
    (Member(module='datapipes.iter', name='Mapper', rest=()), Module(module='datapipes.iter'))
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
            return Member(home, name, tuple(rest[1:]))
        return None if module in LENT and rest[0] not in INSTEAD else Gone(dotted)
    return None


def in_text(text: str) -> New | None:
    """What a text stands for that is an old dotted name from its beginning to its end, of two parts at least.

    >>> in_text("torch.utils.data.datapipes.iter.IterableWrapper").dotted, in_text("poptorch"), in_text("see torchdata")
    ('datapipes.iter.IterableWrapper', None, None)
    """
    return new(text) if "." in text and all(map(str.isidentifier, text.split("."))) else None


@cache
def names_of(module: str) -> dict[str, tuple[str, str]]:
    """The names of an old module, each with the module that has it here and its name there."""
    return names_in(_MODULES[module]) if module in LENT else {**imported(), **names_in(_MODULES[module])}


def _module(old: str) -> New | None:
    """The module that an old one became: the first that has anything of it, or that of its package if it is empty."""
    if old in LENT:
        return None
    homes = _MODULES[old]
    if old.rpartition(".")[2] in INSTEAD or (homes and not any(map(_is_ours, homes))):
        return Gone(old)
    return Module(next(filter(_is_ours, homes))) if homes else _module(old.rpartition(".")[0])


def _is_ours(module: str) -> bool:
    """Whether this is a module of ours for everybody."""
    return module.partition(".")[0] in _OURS and hasattr(import_module(module), "__all__")
