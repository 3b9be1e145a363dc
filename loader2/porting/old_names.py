"""Old names: modules of torchdata, torch and PopTorch mean this library's while they are switched on.

    with old_names():  # while this file is imported; ``import loader2.torchdata_names`` is for the whole program
        import datasets_of_long_ago

While a table of ``old_modules`` is on, its modules are in ``sys.modules`` and are attributes of their packages.
Names are looked up on use. Switching the table off restores the modules that were there before.

Installed packages keep working: only pipes, loaders and graphs are replaced, and nothing inside a module of torch. The
code of torch, torchdata and this library still gets torch's own objects (``_asked_by_an_owner``), so torch's DataLoader
can tell its pipes from ours. Processes of spawn and forkserver import the program's file, which has the old names in
it. multiprocessing's preparation data, which they load before, switches the same tables on.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from multiprocessing import spawn
from types import ModuleType
from typing import Any

from datapipes.errors import BadArgument
from loader2.porting.old_modules import (
    INSTEAD,
    JANITOR,
    LENT,
    POPTORCH,
    STAYING,
    TABLES,
    TORCHDATA,
    VERSIONS,
    Homes,
    imported,
    instead_of,
    names_in,
)

_REPLACED_WHOLE = ("torchdata.datapipes.", "torchdata.dataloader2.", "poptorch.", "popdist.")
"""Packages that are replaced as a whole: an installed one may have modules that are in no table."""

_OWNERS = frozenset({"torch", "torchdata", "datapipes", "reading_services", "loader2"})

_asked: Counter[str] = Counter()  # how many times each table is switched on
_undoing: dict[str, ExitStack] = {}  # by table; "" for the changes that all tables need
_stand_ins: dict[str, ModuleType] = {}


@contextmanager
def old_names(*tables: str) -> Iterator[None]:
    """Make old names mean this library's in a ``with`` block. Its end restores the old modules.

    Args:
        *tables: ``"torchdata"`` (with torch's pipes) or ``"poptorch"`` (with popdist). None given: torchdata.

    >>> with old_names():
    ...     from torchdata.datapipes.iter import IterableWrapper
    >>> IterableWrapper
    <class 'datapipes.iter.sources.wrapper.IterableWrapper'>
    """
    tables = tuple(dict.fromkeys(tables)) or ("torchdata",)
    switch_on(*tables)
    try:
        yield
    finally:
        _asked.subtract(tables)
        for table in tables:
            if not _asked[table]:
                _undoing.pop(table).close()
        if not +_asked:
            _undoing.pop("").close()


def switch_on(*tables: str) -> None:
    """Make old names mean this library's from now on, in this process and in those that it starts."""
    for table in tables:
        if table not in TABLES:
            raise BadArgument(f"old_names({table!r}): there are the names of {' and '.join(TABLES)}")
    begun = {}
    with ExitStack() as if_it_fails:
        for table in dict.fromkeys(("", *tables)):
            if table not in _undoing:
                begun[table] = if_it_fails.enter_context(ExitStack())
                if table:
                    _install(TABLES[table], begun[table])
                else:
                    _install_for_all(begun[table])
        if_it_fails.pop_all()
    _undoing.update(begun)
    _asked.update(tables)


def _install_for_all(undo: ExitStack) -> None:
    """Pass the tables on to new processes, and install the advice on names that no table has."""
    advice: Any = _Advice()
    sys.meta_path.append(advice)
    undo.callback(sys.meta_path.remove, advice)
    by_spawn = spawn.get_preparation_data

    def told_of_old_names(name: str) -> dict[str, Any]:
        data = by_spawn(name)
        if name == "ignore":  # from 3.14 on, the fork server imports the program's file; its forks import it, too
            return {key: value for key, value in data.items() if key not in ("init_main_from_path", "main_path")}
        return {"old names": _SwitchedOn(tuple(+_asked)), **data}

    _put(vars(spawn), "get_preparation_data", told_of_old_names, undo)


def _install(table: Mapping[str, Homes], undo: ExitStack) -> None:
    """Install the modules of a table. ``undo`` restores the old ones."""
    if table is POPTORCH:
        switch = import_module("reading_services.ipu.names.old_names").switch
        switch(True)
        undo.callback(switch, False)
    real = {name: import_module(name) for name in table if name.startswith("torch.")}
    if "torchdata" in table and find_spec("torchdata") is not None:
        real["torchdata"] = import_module("torchdata")
    for name in [*sys.modules]:
        if name.partition(".")[0] in table and name not in table and name.startswith(_REPLACED_WHOLE):
            undo.callback(sys.modules.__setitem__, name, sys.modules.pop(name))
    for name, homes in table.items():
        if name in LENT and name in real:
            _lend(real[name], homes, undo)
            continue
        stand_in = _stand_in(name, homes, real.get(name))
        undo.callback(_stand_ins.pop, name)
        _stand_ins[name] = stand_in
        _put(sys.modules, name, stand_in, undo)
        parent, _, child = name.rpartition(".")
        if parent and name != JANITOR:
            _put(vars(sys.modules[parent]), child, stand_in, undo)


def _put(there: dict[str, Any], name: str, value: Any, undo: ExitStack) -> None:
    if name in there:
        undo.callback(there.__setitem__, name, there[name])
    else:
        undo.callback(there.pop, name, None)
    there[name] = value


def _stand_in(name: str, homes: Homes, real: ModuleType | None) -> ModuleType:
    """Return a module with the names of a table. If it replaces a torch module, it has that module's other names."""
    module = ModuleType(name, f"{name}, whose names mean loader2's.")
    module.__path__ = list(getattr(real, "__path__", ()))  # always a package, so that ``_Advice`` is asked
    module.__spec__ = getattr(real, "__spec__", None) or ModuleSpec(name, None, is_package=True)
    if name in VERSIONS:
        vars(module)["__version__"] = VERSIONS[name]
    names = cache(partial(names_in, homes))

    def __getattr__(asked: str) -> Any:
        if real is not None and _asked_by_an_owner():
            return getattr(real, asked)
        if asked == "__all__":
            return sorted(public for public in names() if not public.startswith("_"))
        found = None if asked.startswith("__") else names().get(asked) or imported().get(asked)
        if found is not None:
            return getattr(import_module(found[0]), found[1])
        if real is not None and asked not in INSTEAD and hasattr(real, asked):
            return getattr(real, asked)
        raise AttributeError(_advice(name, asked, homes), name=asked, obj=module)

    vars(module).update(__getattr__=__getattr__, __dir__=lambda: sorted({*vars(real or module), *names()}))
    return module


def _lend(module: ModuleType, homes: Homes, undo: ExitStack) -> None:
    """Give this library's objects under some names of another library's module, except to that library's own code."""
    names = names_in(homes)
    before = {name: vars(module)[name] for name in names if name in vars(module)}
    otherwise = vars(module).get("__getattr__")

    def __getattr__(asked: str) -> Any:
        if asked in before:
            home, name = names[asked]
            return before[asked] if _asked_by_an_owner() else getattr(import_module(home), name)
        if otherwise is not None:
            return otherwise(asked)
        raise AttributeError(f"module {module.__name__!r} has no attribute {asked!r}", name=asked, obj=module)

    if before:
        _put(vars(module), "__getattr__", __getattr__, undo)
        undo.callback(vars(module).update, before)
        for name in before:
            del vars(module)[name]


def _asked_by_an_owner() -> bool:
    """Return whether the code that asks a module for a name belongs to torch, torchdata or this library."""
    return str(sys._getframe(2).f_globals.get("__name__")).partition(".")[0] in _OWNERS


def _advice(module: str, name: str, homes: Homes) -> str:
    there = f"the names of {module} are in {', '.join(homes)}" if homes else "there is no counterpart"
    page = "coming-from-torchdata.md" if module in TORCHDATA else "coming-from.md"
    instead = instead_of(f"{module}.{name}") or there
    return f"{module}.{name} is not in loader2: {instead} (docs/{page} says what is different)"


class _Advice(MetaPathFinder):
    """The last finder: it adds advice to the error of ``from old import name`` for a name that does not exist."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        parent, _, name = fullname.rpartition(".")
        if parent in _stand_ins and (parent != "torchdata" or name not in STAYING):
            raise ImportError(_advice(parent, name, {**TORCHDATA, **POPTORCH}[parent]), name=parent)


@dataclass(frozen=True)
class _SwitchedOn:
    """A pickle that switches tables on when it is loaded."""

    tables: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return switch_on, self.tables
